"""What a column of a table is: its name, its kind, and how its values are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

from fires.core.errors import StateError
from fires.core.types import Json
from fires.core.validation import LARGEST

N_EXAMPLES = 10  # how many unusable rows are shown to the user
_LONGEST = 40

# What a column holds; or how it is to be read: a "label" is a text that must not be nested.
Kind = Literal[
    "number", "integer", "flag", "date", "duration", "category", "empty", "left out", "label"
]


class _Words(NamedTuple):
    done: str
    many: str
    one: str


# What is done with a column of a kind, and what its values are called.
WORDS: Mapping[Kind, _Words] = {
    "number": _Words("used as it is", "numbers", "a number"),
    "integer": _Words("used as it is", "whole numbers", "a whole number"),
    "flag": _Words("true is 1, false is 0", "true or false", "true or false"),
    "date": _Words("seconds since 1970", "dates", "a date"),
    "duration": _Words("seconds", "durations", "a duration"),
    "empty": _Words("waits for its first value", "known", "known"),
}
DateOrder = Literal["year-first", "day-first", "month-first"]


@dataclass(frozen=True)
class NumberForm:
    """How numbers are written, where it is not simply as 1234.5."""

    unit: str = ""
    decimal: str = "."
    thousands: str = ""


@dataclass(frozen=True)
class DateForm:
    """How dates are written."""

    order: DateOrder = "year-first"


@dataclass(frozen=True, slots=True)
class Column:
    """A column, its kind and, in order of their codes, the categories met so far.

    Numbers, flags (true is 1), dates (seconds since 1970 in UTC) and durations (seconds) become
    numbers. A category becomes what it says about the target (:mod:`fires.columns.target`), or
    without a target 0, 1, 2, ... in order of first appearance. A column is ``empty`` until its
    first value decides what it is. Only a target can be ``integer``: its integers, flags and
    categories stay the labels they are.
    """

    name: str
    kind: Kind
    form: NumberForm | DateForm | None = None
    categories: tuple[str, ...] = ()
    why: str = ""
    slots: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether its text is a number as any parser reads it."""
        return self.kind == "number" and self.form is None

    def as_json(self) -> list[Json]:
        """The column as JSON values, for a state file."""
        form = None if self.form is None else asdict(self.form)
        slots = None if self.slots == 1 else self.slots
        values: list[Json] = [self.name, self.kind, form, list(self.categories), self.why, slots]
        while not values[-1]:
            values.pop()
        return values

    @classmethod
    def from_json(cls, values: Any) -> Column:
        """The column that :meth:`as_json` wrote down."""
        name, kind, form, categories, why, slots = values + [None, [], "", 1][len(values) - 2 :]
        texts = isinstance(categories, list) and all(
            isinstance(text, str) for text in (name, why, *categories)
        )
        fits = texts and type(slots) is int and 1 <= slots <= 1000
        if not fits or kind not in get_args(Kind):
            raise StateError(f"the column {name!r:.60} is not what it should be")
        return cls(name, kind, _form(name, form), tuple(categories), why, slots)


def short(value: str) -> str:
    """Make a value fit into a message of one line."""
    value = " ".join(value.split())
    return value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "..."


def one_form(text: str) -> str:
    """A number that is too large in one form, whether a parser has read it or it is text yet."""
    with suppress(ValueError):
        if abs(number := float(text)) > LARGEST:
            return str(number)
    return text


def _form(name: str, form: Any) -> NumberForm | DateForm | None:
    """The form that a state file describes."""
    if form is None:
        return None
    if isinstance(form, Mapping) and all(isinstance(value, str) for value in form.values()):
        if set(form) == {"unit", "decimal", "thousands"}:
            return NumberForm(**form)
        if set(form) == {"order"} and form["order"] in get_args(DateOrder):
            return DateForm(form["order"])
    raise StateError(f"the form of {name!r} is not what it should be")


@dataclass(frozen=True)
class Hints:
    """What the user says about the columns, where it should not be found out."""

    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    na_values: Sequence[str] = ()
    decimal: str | None = None
    thousands: str | None = None
    dates: DateOrder | None = None
    max_categories: int = 1000
    categories: Literal["target", "codes"] = "target"
    time: str | None = None  # the column with the time of each row, which is no feature

    @property
    def has_points(self) -> bool:
        """Whether a point may stand before decimals."""
        return self.decimal in (None, ".") and self.thousands != "."

    @property
    def na_numbers(self) -> list[float]:
        """The words for a missing value that are numbers, such as -999."""
        numbers = []
        for word in self.na_values:
            with suppress(ValueError):
                numbers.append(float(word))
        return numbers


NO_HINTS = Hints()

DoubtKind = Literal["id", "clock", "constant", "copy", "leak"]


@dataclass(frozen=True)
class Doubt:
    """Why a column should not be believed."""

    column: str
    kind: DoubtKind
    why: str
    other: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"

    @property
    def is_no_feature(self) -> bool:
        """Whether nothing is lost without the column."""
        return self.kind in ("id", "clock", "copy")
