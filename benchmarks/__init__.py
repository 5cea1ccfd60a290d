"""Speed only: seeded, offline, ratios inside one run on one thread (``python -m benchmarks``)."""
