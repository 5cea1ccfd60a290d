"""How good a selection is, honestly: test on a batch first, then learn from it."""
