"""Look at a run: its numbers, its page, live or in a file, and its figures."""
