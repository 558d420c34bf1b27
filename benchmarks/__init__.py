"""Side-by-side timings, as ratios within one run."""
