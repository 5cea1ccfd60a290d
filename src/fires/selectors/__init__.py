"""Selectors: thin stateful shells that turn batches into weights and a support."""
