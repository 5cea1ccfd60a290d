"""Speed: seeded, offline, ratios inside one run on one thread (``python -m benchmarks``).

Quality is another matter: :mod:`benchmarks.answer`.
"""

from importlib import import_module


def run(part: str) -> list[bool]:
    """Print the table of a part; which of the figures asked for it reached.

    Here and not in ``__main__``, from where a new process could not import it.
    """
    rows = import_module(f"benchmarks.{part}").main() or []
    return [bool(row.reached) for row in rows if row.reached is not None]
