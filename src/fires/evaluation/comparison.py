r"""What a comparison of selectors found: the numbers, as a table and in words.

**Is a difference between two selectors more than chance?** The runs of a comparison have their own
random numbers and leave out other rows, but share most of them. So chance enters in three ways, and
the variance of the mean difference has three parts. Let
:math:`a_r` and :math:`b_r` be the scores of two selectors in run r of R, :math:`a_i` and
:math:`b_i` those in piece i of P (means over the runs), :math:`s^2` the sample variance, and
:math:`g` the agreement of a selector's runs on their last set, between 0 and 1:

.. math::
    V = \underbrace{\tfrac{1}{R}\, s^2_r(a - b)}_{\text{random numbers}}
      + \underbrace{s^2_r(\sqrt{g_a}\, a - \sqrt{g_b}\, b)}_{\text{rows learnt from}}
      + \underbrace{\tfrac{1}{P}\, s^2_i(a - b)}_{\text{rows tested}}, \qquad
    t = \frac{\bar a - \bar b}{\sqrt V}

t is compared with Student's distribution, with the degrees of freedom of Satterthwaite. The first
part alone is the usual t-test over runs. It is right for sets drawn at random, since every run
draws its own. A selector without random numbers chooses much the same set in all runs, because
they share rows: luck with these rows does not average out, and the spread over its runs counts in
full. The agreement moves between these two cases.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fires.core.output import enumeration
from fires.core.types import Floats, Header, Label
from fires.evaluation.records import plain

# With fewer runs, or pieces of the stream, differences are not tested: of two one cannot tell how
# far they spread.
FEWEST = 3

# What a selection should beat. All of them but one are always there: majority or mean.
BASELINES = {
    "all": "all features",
    "random": "random features",
    "majority": "the most common class",
    "mean": "the mean",
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one selector did."""

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
    low: float = math.nan
    high: float = math.nan
    won: int = 0
    lost: int = 0
    p_value: float = math.nan


@dataclass(frozen=True, eq=False)
class Comparison:
    """What :func:`compare` found."""

    outcomes: tuple[Outcome, ...]
    reference: str
    score: str
    preprocess: str | None
    seeds: int
    batch_size: int
    n_pieces: int
    n_rows: int
    n_features: int
    classes: dict[Label, int]
    left_out: dict[str, str]
    cautions: tuple[str, ...]
    beaten: dict[str, list[str]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Outcome:
        return {outcome.name: outcome for outcome in self.outcomes}[name]

    def as_dict(self) -> Header:
        """Everything that was found."""
        facts = dict(vars(self))
        facts["classes"] = {str(label): count for label, count in self.classes.items()}
        facts["cautions"] = list(self.cautions)
        facts["outcomes"] = [plain(asdict(outcome)) for outcome in self.outcomes]
        return facts

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Self:
        """The comparison that gave this :meth:`as_dict`."""
        known = {name: facts[name] for name in cls.__dataclass_fields__}
        known["cautions"] = tuple(facts["cautions"])
        known["outcomes"] = tuple(
            Outcome(**{name: _from_plain(value) for name, value in one.items()})
            for one in facts["outcomes"]
        )
        return cls(**known)

    def markdown(self) -> str:
        """A table with what is to be known about it."""
        what = ("stability", "agreement", "difference", "won", "p", "ms per batch")
        head = ("selector", self.score, *what)
        lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows()]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes())]) + "\n"

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table, as text."""
        for one in self.outcomes:
            if one.name == self.reference:
                tested = ("reference", "", "")
            else:
                tested = (
                    f"{one.difference:{'+.3g' if self.score == 'mae' else '+.3f'}}",
                    f"{one.won}/{self.n_pieces}",
                    "<0.001" if one.p_value < 0.0005 else _or_dash(one.p_value),
                )
            yield (
                one.name,
                _with_spread(one.score, one.spread, ".4g" if self.score == "mae" else ".3f"),
                _or_dash(one.stability),
                _or_dash(one.agreement),
                *tested,
                f"{one.milliseconds:.2f}",
            )

    def notes(self) -> Iterator[str]:
        """What the numbers say, and how they came about."""
        others = [one for one in self.outcomes if one.name != self.reference]
        selects = any(not math.isnan(one.stability) for one in self.outcomes)
        tested = [one for one in others if not math.isnan(one.p_value)]
        if tested and selects:
            yield self._verdict(tested)
        if selects and self.beaten:
            yield self._worth(is_tested=bool(tested))
        yield from self.cautions
        rows = f"{self.n_rows:,} rows of {self.n_features:,} features"
        if self.classes:
            common = max(self.classes.values()) / sum(self.classes.values())
            target = f", {len(self.classes)} classes; the most common one makes up {common:.1%}"
        else:
            target = "; the target holds numbers"
        yield f"{rows}{target}. {_SCALED[self.preprocess]}"
        if self.seeds > 1:
            yield (
                f"± is the standard deviation over {self.seeds} runs. Each leaves out another "
                "tenth of the rows, keeps the order of the rest, and seeds what is random in a "
                "selector."
            )
        else:
            yield "One run over all rows: how much depends on single rows and on seeds is unknown."
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
        gains = {one.name: sign_of(self.score) * one.difference for one in told}
        parts = {
            f"better than {self.reference}": [name for name, gain in gains.items() if gain > 0],
            f"worse than {self.reference}": [name for name, gain in gains.items() if gain < 0],
            f"no clear difference from {self.reference}": [
                one.name for one in others if one not in told
            ],
        }
        clauses = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
        return f"At the 5% level, {'; '.join(clauses)}."

    def _worth(self, *, is_tested: bool) -> str:
        """Whether any selection beats what it should."""
        told: dict[tuple[str, ...], list[str]] = {}
        for other, names in self.beaten.items():
            what = BASELINES.get(other, f"{other} (a window refit)")
            told.setdefault(tuple(names), []).append(what)
        clauses = [
            f"{', '.join(names) or 'no selection'} {'beat' if len(names) > 1 else 'beats'} "
            f"{enumeration(what, 'and' if names else 'or')}"
            for names, what in told.items()
        ]
        how = "At the 5% level" if is_tested else "By the score alone"
        return f"{how}, {'; '.join(clauses)}."


def sign_of(score: str) -> float:
    """1 if more of a score is better, -1 if less is."""
    return -1.0 if score == "mae" else 1.0


_SCALED = {
    "minmax": "Columns are scaled to [0, 1] as the stream is read.",
    "standard": "Columns are standardised as the stream is read.",
    None: "Columns are not scaled.",
}


def _with_spread(value: float, spread: float, form: str) -> str:
    shown = f"{value:{form}}"
    return shown if math.isnan(spread) else f"{shown} ± {spread:{form.replace('4', '2')}}"


def _or_dash(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _from_plain(value: Any) -> Any:
    if isinstance(value, list):
        return np.array(value, dtype=np.float64)
    return math.nan if value is None else value


def about_labels(classes: Counter[Label], n_stretches: int) -> Iterator[str]:
    """A caution if one can repeat the last label and be right, whatever the features say."""
    n_rows = classes.total()
    if n_rows == 0:  # numbers
        return
    by_chance = n_rows - sum(count**2 for count in classes.values()) / n_rows
    if by_chance > 10 * n_stretches:
        yield (
            f"Caution: labels come in runs of {n_rows / n_stretches:,.0f} rows on average; by "
            f"chance it would be {n_rows / by_chance:,.1f}. Repeating the last label is enough "
            "here, and scores say little about features: if the rows are sorted by class, shuffle "
            "them."
        )


def about_outcomes(
    outcomes: Mapping[str, Outcome], n_pieces: int, score: str, first: str
) -> Iterator[str]:
    """Cautions about another reference, too few runs or pieces, and baselines that nobody beats."""
    reference = next(iter(outcomes))
    if reference != first:
        yield (
            f"Caution: {first}, named first, is left out; the others are tested against "
            f"{reference} instead."
        )
    n_runs = max(len(one.runs) for one in outcomes.values())
    short = n_pieces, "pieces of the stream", "; use a longer stream or smaller batches."
    n, what, remedy = (n_runs, "runs or more", ".") if n_runs < FEWEST else short
    if n < FEWEST:
        have = f"there {'is one' if n == 1 else f'are {n}'}{remedy}"
        yield f"Caution: differences are not tested, which takes {FEWEST} {what}, and {have}"
    if all(math.isnan(one.stability) for one in outcomes.values()):
        yield "Caution: every selector selects all features; request fewer."
        return
    best = max(outcomes.values(), key=lambda one: sign_of(score) * one.score).name
    if best in BASELINES and not outcomes.keys() <= BASELINES.keys():
        named = score.replace("_", " ")
        have = "have" if best in ("all", "random") else "has"
        yield (
            f"Caution: {BASELINES[best]} {have} the best {named}; a selection may not be worth it."
        )
    if "random" in outcomes:
        yield "random keeps its set for a whole run: its stability is 1 whatever the stream is."


# --- is a difference more than chance? -----------------------------------------------------------


def paired(outcomes: dict[str, Outcome], sign: float = 1.0) -> dict[str, Outcome]:
    """Test all outcomes but the first against the first."""
    # In a piece without the positive class, f1 is undefined.
    defined = ~np.isnan([one.pieces for one in outcomes.values()]).any(axis=0)
    compared = {name: replace(one, pieces=one.pieces[defined]) for name, one in outcomes.items()}
    (first, reference), *others = compared.items()
    single = [p_value(one, reference) for _, one in others]
    p_values, factors = holm(single), _factors(single)
    found = {first: reference}
    for (name, one), p, factor in zip(others, p_values.tolist(), factors.tolist(), strict=True):
        by_piece = sign * (one.pieces - reference.pieces)
        low, high = interval(one, reference, 0.05 / factor)
        found[name] = replace(
            one,
            difference=one.score - reference.score,
            low=low,
            high=high,
            won=int((by_piece > 0).sum()),
            lost=int((by_piece < 0).sum()),
            p_value=p,
        )
    return found


def beaten_baselines(
    outcomes: dict[str, Outcome], baselines: Collection[str], rivals: Collection[str], sign: float
) -> dict[str, list[str]]:
    """Selections against baselines, at the 5 % level.

    The p-values of all these comparisons together are corrected as Holm did. With fewer than three
    runs or pieces, a better score is enough.
    """
    selections = [name for name in outcomes if name not in baselines]
    pairs = [
        (name, other)
        for other in (*baselines, *rivals)
        if other in outcomes
        for name in selections
        if name != other
    ]
    p_values = [p_value(outcomes[name], outcomes[other]) for name, other in pairs]
    found: dict[str, list[str]] = {other: [] for _, other in pairs}
    for (name, other), p in zip(pairs, holm(p_values).tolist(), strict=True):
        is_better = sign * (outcomes[name].score - outcomes[other].score) > 0.0
        if is_better and (math.isnan(p) or p < 0.05):
            found[other].append(name)
    return found


def p_value(one: Outcome, other: Outcome) -> float:
    """How often chance alone makes a difference as great as that of two selectors, or greater."""
    difference, error, freedom = _t_test(one, other)
    if math.isnan(error):
        return math.nan
    if error == 0.0:
        return 0.0 if (one.runs != other.runs).any() else 1.0
    from scipy.stats import t

    return float(2.0 * t.sf(abs(difference) / error, freedom))


def interval(one: Outcome, other: Outcome, alpha: float = 0.05) -> tuple[float, float]:
    """The differences of two selectors that the test of :func:`p_value` does not reject."""
    from scipy.stats import t

    difference, error, freedom = _t_test(one, other)
    half_width = error * float(t.isf(alpha / 2.0, freedom)) if error else error
    return difference - half_width, difference + half_width


def _t_test(one: Outcome, other: Outcome) -> tuple[float, float, float]:
    """The mean difference, its standard error (NaN if not known) and the degrees of freedom."""
    by_run, by_piece = one.runs - other.runs, one.pieces - other.pieces
    n_runs, n_pieces = len(by_run), len(by_piece)
    if min(n_runs, n_pieces) < FEWEST:
        return math.nan, math.nan, math.nan
    shared = math.sqrt(_shared(one)) * one.runs - math.sqrt(_shared(other)) * other.runs
    over_runs = by_run.var(ddof=1) / n_runs + shared.var(ddof=1)
    over_pieces = by_piece.var(ddof=1) / n_pieces
    variance = float(over_runs + over_pieces)
    parts = float(over_runs**2 / (n_runs - 1) + over_pieces**2 / (n_pieces - 1))
    freedom = variance**2 / parts if parts else math.inf
    return float(by_run.mean()), math.sqrt(variance), freedom


def _shared(one: Outcome) -> float:
    """The share of a choice that all runs have in common; to take all features is no choice."""
    return 1.0 if math.isnan(one.agreement) else min(max(one.agreement, 0.0), 1.0)


def holm(p_values: npt.ArrayLike) -> Floats:
    """The p-values of several tests, corrected for their number as Holm did (1979).

    If no difference is real, one of them is below alpha with a probability of alpha at most.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    return np.minimum(1.0, _factors(p_values) * np.asarray(p_values, dtype=np.float64))


def _factors(p_values: npt.ArrayLike) -> Floats:
    """By how much Holm's correction multiplies each p-value: by their number, or by less."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.arange(len(p), 0, -1)
    corrected = np.maximum.accumulate(steps * p[order])
    factors = np.empty_like(p)
    factors[order] = np.divide(corrected, p[order], out=steps.astype(float), where=p[order] > 0.0)
    return factors
