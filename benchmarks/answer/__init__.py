"""The quality of the answer, not its speed: what is found, how sure, how soon after a change.

``python -m benchmarks.answer`` measures every part, ``python -m benchmarks.answer drift numbers``
those named. Each part is a file with a function ``measure(bench)``, which gives the figures of one
table. A figure that something was asked of says whether it was reached.
"""
