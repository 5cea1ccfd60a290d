"""What every other part stands on: beliefs, weights, validation, state, errors."""
