"""The paper's experiments, and the baselines they are judged against."""
