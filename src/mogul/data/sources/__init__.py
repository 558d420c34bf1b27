"""Sources of data: arrays, frames, and tables in files."""
