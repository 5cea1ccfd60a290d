"""The quality of the answer, not its speed: what is found, how sure, how soon after a change.

``python -m benchmarks.answer`` measures every part, ``python -m benchmarks.answer drift numbers``
those named, and with ``--only TEXT`` the figures whose name has the text in it. Each part is a file
with a function ``measure(bench)``, which gives the figures of one table. A figure that something
was asked of says whether it was reached.
"""

import os

# Before NumPy is loaded: several thread pools in one process slow each other down.
for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{pool}_NUM_THREADS"] = "1"
