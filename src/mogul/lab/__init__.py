"""The laboratory: the paper's experiments, benchmark data, baselines and report pages. Needs `mogul[lab]`."""
