"""The basis of all other parts: beliefs, weights, input checks, state, errors."""
