"""What a saved run says about one feature, from its first batch to its last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError, closest
from fires.core.saved_files import damaged, fits, open_saved
from fires.core.spreadsheets import csv_rows
from fires.evaluation.saved_run import SavedRun

if TYPE_CHECKING:
    from fires.core.types import Header


_WHOLE = ("rank", "unreadable", "distinct")
_NUMBERS = ("weight", "importance", "uncertainty", "low", "high", "share_selected", "missing")
_SHOWN = 8


def feature_history(run: SavedRun, feature: str) -> dict[str, Any]:
    """All that the folder of a run knows of a feature.

    The records of the batches are read one by one, so there may be any number of them.
    """
    if run.has_not_ended and not (run.path / "features.csv").exists():
        raise InputError(
            f"the run in {run.path} has not ended, and what it says of each feature comes with its "
            "end",
            hint=f"fires select --resume {run.path} goes on with it, if nothing else does",
        )
    columns, column = _row_of(run, "columns.csv", "name", feature)
    ranked, found = _row_of(run, "features.csv", "feature", feature)
    if not column and not found:
        raise _unknown(run, feature, list(dict.fromkeys([*columns, *ranked])))
    known: dict[str, Any] = {"feature": feature} | column | found
    known.pop("name", None)
    if not found:
        return known
    features = run.features_of(feature)
    if not features:
        raise InputError(f"{run.path}: its files are not of one run")
    concerned = {None, feature, *features.values()}
    known |= {"n_features": len(ranked)} | _stays(run, features.keys())
    with damaged(run.path / "run.json"):
        known["alarms"] = [one for one in run.facts["alarms"] if one["feature"] in concerned]
        return known | {"meaning": _meaning(known, run.facts["classes"])}


def _row_of(run: SavedRun, file: str, title: str, feature: str) -> tuple[list[str], Header]:
    """The names of all rows of a table, and the row that is of a feature."""
    names: list[str] = []
    row: Header = {}
    path = run.path / file
    if path.exists():  # svmlight has no columns to speak of
        with damaged(path):
            for one in csv_rows(path):
                names.append(one[title])
                row = _plain(one) if names[-1] == feature else row
            if title == "feature" and row and _lacks_something(row):
                raise ValueError(f'it lacks what is known of "{feature}"')
    return names, row


def _unknown(run: SavedRun, feature: str, names: list[str]) -> InputError:
    settings = run.facts["settings"]
    if feature == settings.get("target"):
        return InputError(f'"{feature}" is the target of {run.path}, not a feature')
    if any(feature in (given, *given.split(",")) for given in settings.get("exclude") or ()):
        return InputError(f'"{feature}" was excluded from {run.path}')
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    hint = closest(feature, names, f"it has {', '.join(names[:_SHOWN])}{more}", quote='"')
    return InputError(f'no feature "{feature}" in {run.path}', hint=hint)


def _lacks_something(row: Header) -> bool:
    """Whether a number is missing: what was forgotten has no rank, and some have no interval."""
    wanted = ["share_selected", *["importance"] * (row["rank"] is not None)]
    wanted += ["low", "high"] * (row["low"] != row["high"])
    return "selected" not in row or not fits(row, dict.fromkeys(wanted, float))


def _plain(row: dict[str, str]) -> Header:
    """The cells of a row of CSV as the values they were written from."""
    values: Header = {}
    for name, text in row.items():
        values[name] = text or None
        if text and name in _WHOLE:
            values[name] = int(text)
        elif text and name in _NUMBERS:
            values[name] = float(text)
        elif name in ("selected", "absent"):
            values[name] = text == "True"
    return values


def _stays(run: SavedRun, places: Set[int]) -> Header:
    """When one of the features came and left, by the records of the batches."""
    n_batches = n_selected = 0
    stays: list[dict[str, int | None]] = []
    is_in = False
    for step in _steps(run):
        n_batches += 1
        now = not places.isdisjoint(step["selected"])
        n_selected += now
        if now and not is_in:
            stays.append({"from_row": step["rows"], "to_row": None})
        elif is_in and not now:
            stays[-1]["to_row"] = step["rows"]
        is_in = now
    return {"batches": n_batches, "batches_selected": n_selected, "stays": stays}


def _steps(run: SavedRun) -> Iterator[dict[str, Any]]:
    path = run.path / "steps.jsonl"
    with open_saved(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                step = json.loads(line)
            except (ValueError, RecursionError):
                step = None
            if not fits(step, {"rows": int, "selected": [int]}):
                raise InputError(f"{path} is damaged in line {number:,}")
            yield step


def _meaning(known: dict[str, Any], classes: list[Any] | None) -> str:
    """What the sign of the importance says, if it says anything."""
    importance = known["importance"]
    if not importance or known.get("kind") == "category":  # categories have no order
        return ""
    above = importance > 0.0
    if classes is None:
        return f"the target {'grows' if above else 'falls'} as it grows"
    if known.get("class") is not None:
        return f'high values {"favour" if above else "count against"} "{known["class"]}"'
    return f'high values favour "{classes[int(above)]}"'
