"""Raw columns to numbers: kinds, and how each is encoded."""
