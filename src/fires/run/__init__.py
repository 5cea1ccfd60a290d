"""A run: what learns from a stream, and the folder in which all of it is written down."""
