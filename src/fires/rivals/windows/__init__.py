"""Selectors that keep some rows of the stream: the last ones, or a sample."""
