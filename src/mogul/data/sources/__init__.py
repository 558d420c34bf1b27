"""Where data come from: arrays, frames, and tables in files."""
