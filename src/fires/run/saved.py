"""A run that was saved, for whoever asks about it or applies it to new rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError
from fires.core.files import damaged, fits, read_json
from fires.core.types import Header
from fires.run.relations import RELATIONS

if TYPE_CHECKING:
    from fires.columns import Column, Columns
    from fires.columns.target import Target
    from fires.pipeline import OnlinePipeline


_MARK, _STATE = "run.json", "state.safetensors"
_NUMBER, _NUMBERS = (int, float, type(None)), {"*": (int, float, type(None))}
_MEANS = {"batches": int, "*": (int, float)}
_ALARM: dict[str, Any] = {"feature": (str, type(None)), "row": int, "batch": int, "strength": float}
_ALARM |= {"left?": [str], "came?": [str], "flipped?": [str], "before?": _MEANS, "after?": _MEANS}
# What ``run.json`` holds, as far as it is used: what has a question mark need not be there.
_FACTS: dict[str, Any] = dict.fromkeys(("rows?", "batches?", "n_features?"), int)
_FACTS |= {"settings": {"file?": [str], "groups?": [str], "target?": str, "shape?": str}}
_FACTS |= {"rejected_rows?": int, "missing_values?": int, "seconds?": _NUMBER, "target?": list}
_FACTS |= {"stability?": _NUMBER, "scores?": _NUMBERS, "latency?": {"p50": _NUMBER, "*": _NUMBER}}
_FACTS |= {"baselines?": {"*": {"scores": _NUMBERS}}, "alarms?": [_ALARM], "twins?": {"*": [str]}}
_FACTS |= {"doubts?": [{"column": str, "kind": str, "why": str}], "classes?": list}
_FACTS |= {"relations?": RELATIONS}


class SavedRun:
    """The folder that ``fires select --out`` made.

    :func:`fires.report.show` shows its page in a notebook.

    Parameters
    ----------
    path : Path or str
        The folder.

    Raises
    ------
    InputError
        If it does not hold a run.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not (self.path / _MARK).is_file():
            why = "has no run.json" if self.path.is_dir() else "is not a folder"
            hint = "give a folder written by fires select --out"
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
                raise InputError(f"{self.path} has no saved state yet")
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
        if (columns := self.pipeline.known_columns.encoder) is None:
            raise InputError(
                f"{self.path} was learnt from svmlight, whose columns have no names",
                hint="fires.load loads its pipeline in Python",
            )
        return columns

    @property
    def is_open(self) -> bool:
        """Whether its columns come and go."""
        return self.pipeline.open_names is not None

    @property
    def selected(self) -> tuple[Column, ...]:
        """The columns that are selected, in the order of the table."""
        chosen = set(self.pipeline.selected_columns)
        return tuple(column for column in self.columns.used if column.name in chosen)

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
        columns = self.pipeline.known_columns.encoder
        names = self.pipeline.feature_names_in_.tolist()
        if self.is_open:  # records tell of all that were ever met
            names = read_names(self.path)
        titles = group_titles(self.facts["settings"])
        together = {name for name, title in titles.items() if title == column} or {column}
        if columns is None:
            return {place: name for place, name in enumerate(names) if name in together}
        with damaged(self.path / _STATE):
            origins = dict(zip(columns.names, columns.of_features, strict=True))
        return {place: name for place, name in enumerate(names) if origins.get(name) in together}

    @property
    def target(self) -> Target | None:
        """The column to predict, if the run has written down what it holds."""
        from fires.columns.schema import Column
        from fires.columns.target import Target

        saved = self.facts.get("target")
        return None if saved is None else Target(Column.from_json(saved), self.columns.hints)


def group_titles(settings: Mapping[str, Any]) -> dict[str, str]:
    """Of each column that the user has put into a group, what the group is called."""
    groups = [[name for name in one.split(",") if name] for one in settings.get("groups") or ()]
    return {name: ", ".join(group) for group in groups for name in group}


def read_names(folder: Path) -> list[str]:
    """What the features of the run in a folder are called."""
    names: list[str] = read_json(folder / "names.json")
    if not (isinstance(names, list) and set(map(type, names)) <= {str}):  # a million are quick
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
