"""Which columns of a Spark frame are features, target and weight, and how rows are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fires.core.errors import InputError
from fires.core.wording import enumeration

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

    from fires.core.types import Header
    from fires.selectors.fires import FIRES


Kind = Literal["number", "vector", "array", "entries"]

_NUMBERS = {"boolean", "byte", "short", "integer", "long", "float", "double", "decimal"}
_SHOWN = 10


@dataclass(frozen=True)
class Part:
    """Some features: a column of numbers, or one of vectors."""

    kind: Kind
    columns: tuple[str, ...]
    width: int = 0
    called: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """What the features are called."""
        if self.called:
            return list(self.called)
        if self.kind == "number":
            return [self.columns[0]]
        return [f"{self.columns[-1]}[{place}]" for place in range(self.width)]


@dataclass(frozen=True)
class Layout:
    """How a partition of a frame becomes rows to learn from."""

    parts: tuple[Part, ...]
    target: str
    weight: str | None = None
    is_sparse: bool = False
    missing: str = "ignore"

    @property
    def names(self) -> list[str]:
        """What the features are called."""
        return [name for part in self.parts for name in part.names]

    @property
    def is_known(self) -> bool:
        """Whether the number of features is known."""
        return all(part.width for part in self.parts)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return sum(part.width for part in self.parts)

    @property
    def columns(self) -> list[str]:
        """The columns of the frame that are needed."""
        found = [column for part in self.parts for column in part.columns]
        return [*found, self.target, *([self.weight] if self.weight else [])]

    def in_order(self, selector: FIRES) -> Layout:
        """The columns in the order that a selector has learnt them in; others are left out.

        A column of vectors has as many entries as the selector has learnt features besides.
        """
        names = getattr(selector, "feature_names_in_", None)
        unknown = [part for part in self.parts if not part.width]
        if len(unknown) == 1 and hasattr(selector, "n_features_in_"):
            width = max(selector.n_features_in_ - self.n_features, 0)
            return replace(
                self, parts=tuple(replace(p, width=p.width or width) for p in self.parts)
            )
        if names is None or any(part.kind != "number" for part in self.parts):
            return self
        by_name = {part.columns[0]: part for part in self.parts}
        for name in names:
            if name not in by_name:
                raise InputError(f'the selector has learnt from "{name}", and the frame has none')
        return replace(self, parts=tuple(by_name[name] for name in names))

    def as_json(self) -> Header:
        """What a checkpoint keeps of it."""
        parts = [[part.kind, list(part.columns), part.width] for part in self.parts]
        return {"parts": parts, "is_sparse": self.is_sparse}

    @classmethod
    def from_json(cls, saved: dict[str, Any], now: Layout, where: str) -> Layout:
        """The layout of a run that goes on; columns may have come into another order."""
        parts = tuple(Part(kind, tuple(columns), width) for kind, columns, width in saved["parts"])
        by_name = {part.columns: part.kind for part in now.parts}
        for part in parts:
            if by_name.get(part.columns) != part.kind:
                raise InputError(
                    f'{where} was learnt with the column "{part.columns[0]}" ({part.kind}), and '
                    "the frame has none"
                )
        return replace(now, parts=parts, is_sparse=saved["is_sparse"])


def layout_of(
    schema: StructType,
    target: str,
    *,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    entries: tuple[str, str] | None = None,
    n_features: int | None = None,
    missing: str = "ignore",
) -> Layout:
    """What the columns of a frame are."""
    fields = {column.name: column.dataType for column in schema.fields}
    if entries is not None:
        chosen: list[str] = []
        if n_features is None:
            raise InputError(
                f'the columns "{entries[0]}" and "{entries[1]}" do not say how many features there '
                "are",
                hint="give n_features",
            )
    elif features is None:
        chosen = [name for name in fields if name not in (target, weight)]
    else:
        chosen = [features] if isinstance(features, str) else list(features)
    wanted = [*chosen, *(entries or ()), target, *([weight] if weight else [])]
    for name in wanted:
        if name not in fields:
            by_name = f"it has {_some(list(fields))}"
            raise InputError(f'the frame has no column "{name}"', hint=by_name)
    parts = [_part(name, fields[name]) for name in chosen]
    if entries is not None:
        parts.append(Part("entries", entries, n_features or 0))
    if not parts:
        raise InputError("the frame has no column of features besides its target")
    unknown = [part for part in parts if not part.width]
    if n_features is not None and len(unknown) == 1:
        known = sum(part.width for part in parts)
        parts = [part if part.width else replace(part, width=n_features - known) for part in parts]
    return Layout(tuple(parts), target, weight, entries is not None, missing)


def _some(names: list[str]) -> str:
    more = [f"{len(names) - _SHOWN:,} more"] if len(names) > _SHOWN else []
    return enumeration([*names[:_SHOWN], *more])


def _part(name: str, kind: DataType) -> Part:
    type_name = kind.typeName() if hasattr(kind, "typeName") else ""
    if type_name in _NUMBERS:
        return Part("number", (name,), 1)
    if type(kind).__name__ == "VectorUDT":
        return Part("vector", (name,))
    if type_name == "array" and kind.elementType.typeName() in _NUMBERS:
        return Part("array", (name,))
    raise InputError(
        f'the column "{name}" holds {kind.simpleString()}, and on Spark features are numbers, '
        "vectors or arrays of numbers",
        hint="turn it into numbers (StringIndexer, OneHotEncoder), or name the others in features",
    )
