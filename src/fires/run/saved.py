"""A run that was saved, for whoever asks about it or applies it to new rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError, closest
from fires.core.files import damaged, fits, open_saved, read_json
from fires.core.output import csv_rows, html_list, html_table
from fires.evaluation.comparison import BASELINES
from fires.run.locking import is_held

if TYPE_CHECKING:
    from fires.columns import Column, Columns
    from fires.columns.target import Target
    from fires.core.types import Header
    from fires.pipeline import OnlinePipeline


_MARK, _STATE, _FEATURES = "run.json", "state.safetensors", "features.csv"
_SHOWN = 10
_NUMBER, _NUMBERS = (int, float, type(None)), {"*": (int, float, type(None))}
_MEANS = {"batches": int, "*": (int, float)}
_ALARM: dict[str, Any] = {"feature": (str, type(None)), "row": int, "batch": int}
_ALARM |= {"left?": [str], "came?": [str], "before?": _MEANS, "after?": _MEANS}
_FACTS: dict[str, Any] = dict.fromkeys(("rows?", "batches?", "n_features?"), int)
_FACTS |= {"settings": {"file?": [str], "target?": str, "shape?": str}, "classes?": list}
_FACTS |= {"rejected_rows?": int, "missing_values?": int, "seconds?": _NUMBER, "target?": list}
_FACTS |= {"stability?": _NUMBER, "scores?": _NUMBERS, "latency?": {"p50": _NUMBER, "*": _NUMBER}}
_FACTS |= {"baselines?": {"*": {"scores": _NUMBERS}}, "alarms?": [_ALARM], "twins?": {"*": [str]}}
_FACTS |= {"doubts?": [{"column": str, "kind": str, "why": str}]}
"""What ``run.json`` holds, as far as it is used: what has a question mark need not be there."""


@dataclass(frozen=True)
class SavedRun:
    """The folder that ``fires select --out`` made.

    In a notebook it shows itself as a table. :func:`fires.report.show` shows its page.

    Parameters
    ----------
    path : Path or str
        The folder.

    Raises
    ------
    InputError
        If it does not hold a run.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if not (self.path / _MARK).is_file():
            why = "has no run.json" if self.path.is_dir() else "is no folder"
            hint = "give the folder that fires select --out has made"
            raise InputError(f"{self.path} holds no run: it {why}", hint=hint)
        if not fits(self.facts, _FACTS):
            raise InputError(f"{self.path / _MARK} is damaged")

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What ``run.json`` says."""
        facts: dict[str, Any] = read_json(self.path / _MARK)
        return facts

    @cached_property
    def pipeline(self) -> OnlinePipeline:
        """Selector and predictor, as they were when the run ended, or was saved last."""
        from fires.core.state import part_of
        from fires.loading import load
        from fires.pipeline import OnlinePipeline
        from fires.run.checkpoints import Checkpoints

        if self.has_not_ended and not (self.path / _STATE).exists():
            pipeline, _ = Checkpoints(self.path).newest(
                lambda header, arrays, where: OnlinePipeline.from_state(
                    header["pipeline"], part_of("pipeline", arrays), None, None, where
                )
            )
            if pipeline is None:
                raise InputError(f"{self.path} has learnt nothing yet that was saved")
            return pipeline
        pipeline = load(self.path / _STATE)
        if not isinstance(pipeline, OnlinePipeline):
            raise InputError(f"{self.path / _STATE} holds no pipeline")
        return pipeline

    @property
    def has_not_ended(self) -> bool:
        """Whether it still goes on, or was killed."""
        return self.facts.get("status") == "running"

    @property
    def columns(self) -> Columns:
        """What the columns of its tables hold."""
        columns = self._encoder
        if columns is None:
            raise InputError(
                f"{self.path} was learnt from svmlight, whose columns have no names",
                hint="fires.load gives its pipeline to a program",
            )
        return columns

    @property
    def _encoder(self) -> Columns | None:
        """What the pipeline has encoded columns with, if it has."""
        return getattr(self.pipeline, "columns_", None)

    @property
    def is_open(self) -> bool:
        """Whether its columns come and go."""
        return self.pipeline.open_names is not None

    @property
    def selected(self) -> tuple[Column, ...]:
        """The columns that are selected, in the order of the table."""
        chosen = set(self.pipeline.selected_columns)
        return tuple(column for column in self.columns.used if column.name in chosen)

    def _repr_html_(self) -> str:
        """What was found, in a few lines and a table, for notebooks."""
        head = ("rank", "feature", "importance", "95 % interval", "selected")
        rows = list(self._best_rows())
        return html_list(_row_stats(self)) + (html_table(head, rows) if rows else "")

    def _best_rows(self) -> Iterator[tuple[str, ...]]:
        """The features ranked first, as text; none before the end of the run."""
        path = self.path / _FEATURES
        if not path.exists():
            return
        for row in islice(csv_rows(path), _SHOWN):
            low, high = (_digits(row["low"]), _digits(row["high"]))
            ends = f"{low} to {high}" if low else ""
            chosen = "yes" if row["selected"] == "True" else ""
            yield row["rank"], row["feature"], _digits(row["importance"]), ends, chosen

    def features_of(self, column: str) -> dict[int, str]:
        """The features that a column of the table becomes.

        Parameters
        ----------
        column : str
            Its name.

        Returns
        -------
        dict of int to str
            Their numbers, and what they are called.
        """
        columns = self._encoder
        names = self.pipeline.feature_names_in_.tolist()
        if self.is_open:  # records tell of all that were ever met
            names = read_names(self.path)
        if columns is None:
            return {place: name for place, name in enumerate(names) if name == column}
        with damaged(self.path / _STATE):
            origins = dict(zip(columns.names, columns.of_features, strict=True))
        return {place: name for place, name in enumerate(names) if origins.get(name) == column}

    @property
    def target(self) -> Target | None:
        """The column to predict, if the run has written down what it holds."""
        from fires.columns.schema import Column
        from fires.columns.target import Target

        saved = self.facts.get("target")
        return None if saved is None else Target(Column.from_json(saved), self.columns.hints)


def read_names(folder: Path) -> list[str]:
    """What the features of the run in a folder are called."""
    names: list[str] = read_json(folder / "names.json")
    if not fits(names, [str]):
        raise InputError(f"{folder / 'names.json'} is damaged")
    return names


def known_before(folder: Path) -> Header:
    """What the run in a folder is called, when it was begun and how, if that can be read."""
    try:
        known = read_json(folder / _MARK)
        sample = {"sample": known["sample"]} if isinstance(known.get("sample"), dict) else {}
        return {name: str(known[name]) for name in ("id", "started")} | sample
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}


def _row_stats(run: SavedRun) -> Iterator[str]:
    """What a run has come to, a line at a time."""
    facts, target = run.facts, run.facts["settings"].get("target")
    status = facts.get("status", "ended")
    if run.has_not_ended and not is_held(run.path):
        status = "killed; fires select --resume goes on with it"
    of = f", target {target}" if target else ""
    yield f"{run.path}: {status}{of}, begun {facts.get('started', 'some time ago')}"
    if facts.get("rows") is None:
        return
    yield (
        f"{facts['rows']:,} rows in {facts.get('batches', 0):,} batches of "
        f"{facts.get('n_features', 0):,} features; alarms: {len(facts.get('alarms', ())):,}"
    )
    others = facts.get("baselines") or {}
    for name, value in (facts.get("scores") or {}).items():
        beside = "".join(
            f", {BASELINES.get(other, other)} {_digits(known['scores'].get(name)) or 'not known'}"
            for other, known in others.items()
        )
        yield f"{name.replace('_', ' ')} {_digits(value) or 'not known'}{beside}"
    if stable := _digits(facts.get("stability")):
        yield f"stability {stable}"


def _digits(value: float | str | None) -> str:
    """A number to three digits, or nothing."""
    return "" if value in (None, "") else f"{float(value):.3g}"


_WHOLE = ("rank", "unreadable", "distinct")
_FLOATS = ("weight", "importance", "uncertainty", "low", "high", "share_selected", "missing")
_MOST_NAMES = 8


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
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    hint = closest(feature, names, f"it has {', '.join(names[:_MOST_NAMES])}{more}", quote='"')
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
        elif text and name in _FLOATS:
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
