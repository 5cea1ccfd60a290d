"""The contracts of selectors, models, predictors and streams, to run on your own.

Each of ``check_selector``, ``check_model``, ``check_predictor`` and ``check_stream`` runs a list of
small checks and raises an AssertionError that says which one failed, and why. ``selector_checks``
and the like hand out the same checks one by one, as pairs of a name and a function without
arguments, for ``pytest.mark.parametrize``. fires runs them on everything it ships.

Examples
--------
>>> from fires import OFS, checks
>>> checks.check_selector(OFS(3))
>>> [name for name, check in checks.stream_checks(None)][:2]
['columns_have_names', 'batches_have_the_size_asked_for']
"""

from fires.checks.models import check_model, model_checks
from fires.checks.predictors import check_predictor, predictor_checks
from fires.checks.selectors import check_selector, selector_checks
from fires.checks.streams import check_stream, stream_checks

__all__ = [
    "check_model",
    "check_predictor",
    "check_selector",
    "check_stream",
    "model_checks",
    "predictor_checks",
    "selector_checks",
    "stream_checks",
]
