"""What a comparison of selectors found: the numbers, as a table and in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fires.core.belief import Floats

FEWEST = 3
"""With fewer runs, or pieces of the stream, differences are not tested: of two one cannot tell how
far they spread."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one selector did.

    Parameters
    ----------
    name : str
        What the selector is called.
    score, spread : float
        The mean over the runs, each scored over all its rows tested, and the standard deviation;
        NaN of one run.
    stability, stability_spread : float
        The same of the stability within a run: the mean over its steps.
    agreement : float
        The stability of the last sets of all runs: whether other rows lead to the same choice.
    milliseconds : float
        What the selector takes to learn from a batch, the median over all batches.
    runs : ndarray
        The score of each run.
    pieces : ndarray
        The score in each piece of the stream, the mean over the runs.
    difference : float
        The score less that of the reference; NaN for the reference itself.
    won, lost : int
        In how many pieces it was better, or worse, than the reference.
    p_value : float
        Of the test against the reference, corrected; NaN for the reference itself, and if there
        are fewer than three runs or pieces.
    """

    name: str
    score: float
    spread: float
    stability: float
    stability_spread: float
    agreement: float
    milliseconds: float
    runs: Floats
    pieces: Floats
    difference: float = math.nan
    won: int = 0
    lost: int = 0
    p_value: float = math.nan


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found.

    Parameters
    ----------
    outcomes : tuple of Outcome
        One per selector, the best first.
    reference : str
        The selector that the others are tested against.
    score : str
        What is compared.
    preprocess : str or None
        How columns are scaled.
    seeds, batch_size, n_pieces : int
        Runs of each selector, rows of a batch, pieces that the test looks at.
    n_rows, n_features : int
        Of the stream.
    classes : dict
        How many rows each label has.
    left_out : dict of str to str
        Selectors that could not take part, and why.
    cautions : tuple of str
        What to keep in mind when reading the numbers.
    """

    outcomes: tuple[Outcome, ...]
    reference: str
    score: str
    preprocess: str | None
    seeds: int
    batch_size: int
    n_pieces: int
    n_rows: int
    n_features: int
    classes: dict[Any, int]
    left_out: dict[str, str]
    cautions: tuple[str, ...]

    def __getitem__(self, name: str) -> Outcome:
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def as_dict(self) -> dict[str, Any]:
        """Everything that was found.

        Returns
        -------
        dict
            JSON values; NaN is None.
        """
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        facts["classes"] = {str(label): count for label, count in self.classes.items()}
        facts["cautions"] = list(self.cautions)
        facts["outcomes"] = [
            {name: _plain(value) for name, value in asdict(outcome).items()}
            for outcome in self.outcomes
        ]
        return facts

    def markdown(self) -> str:
        """A table with what is to be known about it.

        Returns
        -------
        str
            Markdown.
        """
        head = (
            "selector",
            self.score,
            "stability",
            "agreement",
            "difference",
            "won",
            "p",
            "ms per batch",
        )
        lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows()]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes())]) + "\n"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table, as text.

        Yields
        ------
        tuple of str
            The cells of one selector, the best first.
        """
        for one in self.outcomes:
            if one.name == self.reference:
                tested = ("reference", "", "")
            else:
                tested = (
                    f"{one.difference:+.3f}",
                    f"{one.won}/{self.n_pieces}",
                    "<0.001" if one.p_value < 0.0005 else _or_dash(one.p_value),
                )
            yield (
                one.name,
                _with_spread(one.score, one.spread),
                _or_dash(one.stability),
                _or_dash(one.agreement),
                *tested,
                f"{one.milliseconds:.2f}",
            )

    def notes(self) -> Iterator[str]:
        """What the numbers say, and how they came about.

        Yields
        ------
        str
            One line.
        """
        others = [one for one in self.outcomes if one.name != self.reference]
        selects = any(not math.isnan(one.stability) for one in self.outcomes)
        tested = [one for one in others if not math.isnan(one.p_value)]
        if tested and selects:
            yield self._verdict(tested)
        yield from self.cautions
        common = max(self.classes.values()) / sum(self.classes.values())
        yield (
            f"{self.n_rows:,} rows of {self.n_features:,} features, {len(self.classes)} classes; "
            f"the most common one makes up {common:.1%}. {_SCALED[self.preprocess]}"
        )
        if self.seeds > 1:
            yield (
                f"± is the standard deviation over {self.seeds} runs. Each leaves out another "
                "tenth of the rows, keeps the order of the rest, and seeds what is random in a "
                "selector."
            )
        else:
            yield "One run over all rows: how much hangs on single rows and on seeds is not known."
        yield (
            f"Differences, pieces won (of {self.n_pieces} consecutive ones) and p are against "
            f"{self.reference}."
        )
        if tested:
            yield (
                "p is of a two-sided t-test with Holm's correction. Its null: on streams like this "
                "one, both are equally good on average. Chance is what differs between runs and "
                "between pieces."
            )
        if self.score == "f1":
            two = len(self.classes) == 2
            yield f"f1 is {f'that of {max(self.classes)}' if two else 'the mean over the classes'}."
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            yield f"Left out: {', '.join(names)}; {why}."

    def _verdict(self, others: list[Outcome]) -> str:
        told = [one for one in others if one.p_value < 0.05]
        parts = {
            f"better than {self.reference}": [one.name for one in told if one.difference > 0],
            f"worse than {self.reference}": [one.name for one in told if one.difference < 0],
            f"no clear difference from {self.reference}": [
                one.name for one in others if one not in told
            ],
        }
        said = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
        return f"At the 5% level, {'; '.join(said)}."


_SCALED = {
    "minmax": "Columns are brought to [0, 1] while the stream flows.",
    "standard": "Columns are standardised while the stream flows.",
    None: "Columns are not scaled.",
}


def _with_spread(value: float, spread: float) -> str:
    return f"{value:.3f}" if math.isnan(spread) else f"{value:.3f} ± {spread:.3f}"


def _or_dash(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return None if isinstance(value, float) and not math.isfinite(value) else value
