"""What is known of the ten data sets of the paper: sizes, classes, licences, checksums, addresses.

``catalogue.toml`` holds it, and says where each number is from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fires.bench.datasets.download import FACTS, READERS, Remote
from fires.core.types import Label
from fires.streams.generated import RandomRBF, RandomTree

if TYPE_CHECKING:
    import polars as pl

    from fires.streams.base import Stream


@dataclass(frozen=True)
class DataFile:
    """What a Parquet file of a data set should hold: its features, and the column ``target``."""

    file: str
    n_features: int
    counts: Mapping[Any, int]
    digest: str | None = None

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Info:
    """A data set of the paper."""

    name: str
    n_rows: int
    n_features: int
    kinds: str
    positive: Label
    source: str
    licence: str
    whole: DataFile | None = None
    part: DataFile | None = None
    sorted_by_class: bool = False
    remotes: tuple[Remote, ...] = ()
    read: Callable[[Sequence[bytes]], pl.DataFrame] | None = field(default=None, repr=False)
    make: Callable[..., Stream] | None = field(default=None, repr=False)
    note: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the paper took a random sample of the rows."""
        return self.whole is not None and self.n_rows < self.whole.n_rows

    @property
    def one_against_rest(self) -> bool:
        """Whether there are more than two labels, of which one is the positive class."""
        return self.whole is not None and len(self.whole.counts) > 2


def _file(facts: Mapping[str, Any] | None, n_features: int) -> DataFile | None:
    if facts is None:
        return None
    return DataFile(facts["file"], n_features, dict(facts["counts"]), facts.get("digest"))


def _info(facts: Mapping[str, Any]) -> Info:
    """A data set as ``catalogue.toml`` has it, with what reads or makes it."""
    name, n_features = facts["name"], facts["n_features"]
    made: dict[str, Any] = {
        "whole": _file(facts.get("whole"), n_features),
        "part": _file(facts.get("part"), n_features),
        "remotes": tuple(Remote(**remote) for remote in facts.get("remotes", ())),
        "read": READERS.get(name),
        "make": {"RBF": RandomRBF, "RTG": RandomTree}.get(name),
    }
    plain = {key: value for key, value in facts.items() if key not in ("features", *made)}
    return Info(**plain, **made)


CATALOGUE: dict[str, Info] = {name.lower(): _info(facts) for name, facts in FACTS.items()}
"""The data sets in the paper's order, under their names in lower case."""
