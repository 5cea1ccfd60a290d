"""The data sets of the paper: where they are, how they are read."""
