"""Columns of any kind as numbers: categories, dates, gaps. An encoding is fitted once and stored with its model."""
