"""Selectors inside other libraries, each in a module that is imported by name."""
