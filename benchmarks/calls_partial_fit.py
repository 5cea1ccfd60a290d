"""What one more ``partial_fit`` of the default FIRES calls: 100 rows of 30 columns.

``measure.py --calls benchmarks/calls_partial_fit.py`` counts the second run of ``measured``.
"""

import numpy as np

from fires import FIRES

_rng = np.random.default_rng(0)
_X = _rng.normal(size=(100, 30))
_y = (_X[:, 3] > 0).astype(int)
_selector = FIRES()


def measured() -> None:
    """Learn from one batch."""
    _selector.partial_fit(_X, _y)
