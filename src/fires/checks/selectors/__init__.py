"""The contract of a selector that learns from rows, whatever its method."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from fires.checks import data
from fires.checks.running import NamedCheck, list_checks, run_checks
from fires.checks.selectors import rows, state
from fires.rivals import is_registered

if TYPE_CHECKING:
    from fires.selectors.base import OnlineSelector


def check_selector(selector: Any, **options: Any) -> None:
    """Check that a selector keeps the contract of :class:`~fires.selectors.base.OnlineSelector`.

    Parameters
    ----------
    selector : OnlineSelector
        Has learnt nothing. It is cloned for every check and stays as it is.
    **options
        As in :func:`selector_checks`.

    Raises
    ------
    AssertionError
        Says which check failed, and why.

    Examples
    --------
    >>> from fires import AROW
    >>> check_selector(AROW(3), target="two classes")
    """
    run_checks(selector, selector_checks(selector, **options))


def selector_checks(
    selector: OnlineSelector,
    *,
    target: str = "auto",
    load_options: Mapping[str, Any] | None = None,
    skip: Collection[str] = (),
) -> list[NamedCheck]:
    """The checks of :func:`check_selector`, one by one.

    Files are not read back from a selector that ``fires.selectors`` does not name: ``fires.load``
    finds a class by its name there.
    """
    target = find_target(selector) if target == "auto" else target
    settings = selector.get_params(deep=False)
    is_known = is_registered(type(selector))
    parts = {
        rows.RowContract: True,
        rows.NoTargetContract: target == "none",
        rows.LabelContract: target in data.CLASSES,
        rows.SelectionContract: True,
        rows.CountContract: "n_features_to_select" in settings,
        state.StateContract: True,
        state.RestartContract: is_known,
        state.FileContract: is_known,
        state.RandomContract: is_known and "random_state" in settings,
    }
    repeats = selector._weights_repeat_rows
    skip = {
        *skip,
        "a_constant_weight_changes_nothing" if repeats else "a_row_of_weight_w_is_w_rows",
    }
    contracts = (
        part(selector, target, load_options or {}) for part, applies in parts.items() if applies
    )
    return list_checks(contracts, skip)


def find_target(selector: OnlineSelector) -> str:
    """What a selector learns from: the first of the targets that it takes."""
    if not selector.__sklearn_tags__().target_tags.required:
        return "none"
    refusals = []
    for target in data.TARGETS:
        X, y = next(data.make_batches(target))
        try:  # text is no number: what learns numbers alone refuses it
            clone(selector).partial_fit(X, data.LABELS[0][y] if target in data.CLASSES else y)
        except ValueError as error:
            refusals.append(f"{target}: {error}")
        else:
            return target
    raise AssertionError(f"{selector!r} learns from no target ({'; '.join(refusals)})")
