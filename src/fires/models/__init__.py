"""Base models: likelihoods whose parameters are random variables."""
