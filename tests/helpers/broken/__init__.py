"""Data, settings and files that must be refused."""
