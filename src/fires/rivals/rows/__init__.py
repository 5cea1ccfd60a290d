"""Rivals that learn two classes row by row."""
