"""What passes between the parts of a model: moments, base samples, posteriors, small nets, joint laws over outputs."""
