"""Selectors for columns that arrive one by one while the rows are fixed."""
