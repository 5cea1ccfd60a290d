"""Which of several selectors serves a stream best, and how sure can one be of that?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.randomness import generator
from fires.core.settings import check_choice, check_count
from fires.evaluation.predictors import Perceptron
from fires.evaluation.prequential import prequential
from fires.metrics.stability import stability
from fires.selectors.baselines import AllFeatures, RandomFeatures
from fires.streams.base import Batch, InputError, Schema, Stream, check_batch_size

BASELINES = ("all", "random")
SCORES = ("accuracy", "balanced_accuracy", "f1")
FEWEST_PIECES = 6
"""With fewer, no two-sided signed-rank test falls below 0.05, whatever the differences are."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """How one selector did.

    Parameters
    ----------
    name : str
        What the selector is called.
    score, spread : float
        The mean over the runs, each over all rows tested, and the standard deviation; NaN of one
        run.
    stability, stability_spread : float
        The same of the stability within a run: the mean over its steps.
    agreement : float
        The stability of the last sets of all runs: whether other rows lead to the same choice.
    milliseconds : float
        What the selector takes to learn from a batch, the median over all batches.
    pieces : ndarray
        The score in each piece of the stream, the mean over the runs.
    difference : float
        The mean over the pieces of the score less that of the reference; NaN for itself.
    won, lost : int
        In how many pieces it was better, or worse, than the reference.
    p_value : float
        Of the paired test against the reference, corrected; NaN for the reference itself.
    """

    name: str
    score: float
    spread: float
    stability: float
    stability_spread: float
    agreement: float
    milliseconds: float
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
        Runs of each selector, rows of a batch, pieces that the paired test looks at.
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
        """Everything as JSON values; NaN is None."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        facts["classes"] = {str(label): count for label, count in self.classes.items()}
        facts["cautions"] = list(self.cautions)
        facts["outcomes"] = [
            {name: _plain(value) for name, value in asdict(outcome).items()}
            for outcome in self.outcomes
        ]
        return facts

    def markdown(self) -> str:
        """A table with what is to be known about it."""
        head = ("selector", self.score, "stability", "agreement", *_TESTED, "ms per batch")
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
                    f"{one.difference:+.3f}",
                    f"{one.won}/{self.n_pieces}",
                    "<0.001" if one.p_value < 0.0005 else f"{one.p_value:.3f}",
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
        """What the numbers say, and how they came about, line by line."""
        if self.n_pieces >= FEWEST_PIECES:
            yield self._verdict()
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
            f"Differences, pieces won and p are against {self.reference}, in {self.n_pieces} "
            "consecutive pieces of the stream: Wilcoxon's signed-rank test, two-sided, with Holm's "
            "correction."
        )
        yield from self.cautions
        for why in dict.fromkeys(self.left_out.values()):
            names = [name for name, reason in self.left_out.items() if reason == why]
            yield f"Left out: {', '.join(names)}; {why}."

    def _verdict(self) -> str:
        others = [one for one in self.outcomes if one.name != self.reference]
        told = [one for one in others if one.p_value < 0.05]
        parts = {
            f"better than {self.reference}": [one.name for one in told if one.difference > 0],
            f"worse than {self.reference}": [one.name for one in told if one.difference < 0],
            f"not told from {self.reference}": [one.name for one in others if one not in told],
        }
        said = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
        return f"At the 5% level, {'; '.join(said)}."


_TESTED = ("difference", "won", "p")
_SCALED = {
    "minmax": "Columns are brought to [0, 1] while the stream flows.",
    "standard": "Columns are standardised while the stream flows.",
    None: "Columns are not scaled.",
}


def compare(
    stream_factory: Callable[[], Stream],
    selectors: Mapping[str, Callable[[int], Any]],
    *,
    predictor: Callable[[], Any] = Perceptron,
    batch_size: int = 100,
    seeds: int = 5,
    pieces: int = 10,
    score: str = "accuracy",
    preprocess: str | None = "minmax",
    window: int = 10,
    progress: Callable[[str, int, int], object] | None = None,
) -> Comparison:
    r"""Compare selectors on one stream of two or more classes, each tested before it learns.

    Every selector is run as :func:`fires.evaluation.prequential` runs it, with the same
    predictor, and columns scaled by one online scaler that all of them see. All features, and as
    many at random, are always among them: a selector that is not better than these is not worth
    its time.

    *What changes with the seed.* Most selectors have nothing random in them, and a stream has one
    order: to shuffle it would remove the drift that selectors have to follow. So run s leaves out
    one row in ten, drawn with seed s and the same for all selectors, keeps the others in their
    order, and hands s to the selector. The spread over runs says how much the result hangs on
    single rows and on random numbers; as the runs share most rows, it is no confidence interval.
    One run uses all rows.

    *The paired test.* All batches but the first, which nobody can be tested on, are cut into
    consecutive pieces. With the score :math:`a_i` of a selector and :math:`b_i` of the reference
    in piece i, both the mean over the runs, the differences :math:`a_i - b_i` go into Wilcoxon's
    signed-rank test, two-sided. Pieces are compared with themselves, so their difficulty drops
    out, and runs are averaged, since they are not independent. For m selectors the sorted p-values
    are corrected as Holm did:

    .. math::
        \tilde p_{(i)} = \max_{j \le i} \min\bigl(1, (m - j + 1)\, p_{(j)}\bigr)

    The reference is the first selector named, which is decided before any result is seen.
    Neighbouring pieces are not quite independent: take a p-value just below a limit for what it
    is.

    Parameters
    ----------
    stream_factory : callable () -> Stream
        Called for every pass over the rows, which must be the same each time.
    selectors : mapping of str to callable (seed) -> OnlineSelector
        Names, and what makes a fresh selector. Those that learn two classes only are left out if
        there are more, and so are those that fail; the result says why.
    predictor : callable () -> predictor
        What makes a fresh predictor, see :func:`fires.evaluation.predictors.as_predictor`.
    batch_size : int
        Rows of a batch.
    seeds : int
        Runs of each selector, with the seeds 0, 1, ...
    pieces : int
        How many pieces; fewer if there are not enough batches.
    score : str
        ``"accuracy"``, ``"balanced_accuracy"`` or ``"f1"``, see
        :class:`fires.metrics.prediction.Scores`; of many rows the mean over their batches, as far
        as it is defined there.
    preprocess : {"minmax", "standard", None}
        The scale of the columns. ``"minmax"``, which EFS needs, is fair to all; others may find
        ``"standard"`` easier. It can change who is best.
    window : int
        How many of the last sets make up the stability.
    progress : callable (what, rows, total), optional
        Called after each batch, with the rows of all runs.

    Examples
    --------
    >>> from fires import FIRES, OFS
    >>> from fires.streams import DriftingFeatures
    >>> found = compare(
    ...     lambda: DriftingFeatures(3000, n_features=40, n_relevant=4, random_state=0),
    ...     {"fires": lambda seed: FIRES(4), "ofs": lambda seed: OFS(4)},
    ...     seeds=2,
    ... )
    >>> found.reference, sorted(outcome.name for outcome in found.outcomes)
    ('fires', ['all', 'fires', 'ofs', 'random'])
    >>> found["fires"].score > found["random"].score
    True
    """
    for name, value in (("seeds", seeds), ("pieces", pieces)):
        check_count(name, value)
    check_batch_size(batch_size)
    check_choice("score", score, SCORES)
    schema, classes, n_rows = _look(stream_factory(), batch_size)
    takes, left_out = _takes(selectors, len(classes))
    runs: dict[str, list[_Run]] = {}
    total, first_error = n_rows * len(takes) * seeds, None
    for place, (name, make) in enumerate(takes.items()):
        try:
            for seed in range(seeds):
                run, done = _Run(), n_rows * (place * seeds + seed)
                for step in prequential(
                    _Part(stream_factory(), schema, None if seeds == 1 else seed),
                    make(seed),
                    predictor(),
                    batch_size=batch_size,
                    preprocess=preprocess,
                    scores=(score,),
                    window=window,
                ):
                    run.add(step, score)
                    if progress is not None:
                        progress(f"{name}, run {seed + 1}", done + step.position.rows, total)
                runs.setdefault(name, []).append(run)
        except InputError:
            raise
        except ValueError as error:  # the others may well get to the end
            first_error = first_error or error
            left_out[name] = str(error).rstrip(".")
            runs.pop(name, None)
    if not runs:
        raise first_error or ValueError("there is no selector to compare")
    n_batches = len(next(iter(runs.values()))[0].scores)
    if n_batches < 2:
        raise ValueError(
            f"{n_rows:,} rows are one batch of {batch_size:,}: nothing is left to be tested on"
        )
    outcomes = _tested(
        {name: _outcome(name, found, schema, pieces) for name, found in runs.items()}
    )
    n_pieces = len(next(iter(outcomes.values())).pieces)
    ranked = sorted(outcomes.values(), key=lambda one: (-one.score, one.name))
    return Comparison(
        outcomes=tuple(ranked),
        reference=next(iter(outcomes)),
        score=score,
        preprocess=preprocess,
        seeds=seeds,
        batch_size=batch_size,
        n_pieces=n_pieces,
        n_rows=n_rows,
        n_features=schema.n_features,
        classes=dict(classes),
        left_out=left_out,
        cautions=tuple(_cautions(outcomes, n_pieces, score)),
    )


class _Run:
    """One pass: what the steps say, and the last set."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.rows: list[int] = []
        self.stability: list[float] = []
        self.seconds: list[float] = []
        self.selected: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def add(self, step: Any, score: str) -> None:
        self.scores.append(step.scores[score])
        self.rows.append(step.n_rows)
        self.stability.append(step.stability)
        self.seconds.append(step.seconds_select)
        self.selected = step.selected

    def mean(self, steps: slice | npt.NDArray[np.intp] = slice(None)) -> float:
        """The score over all rows of some steps, as far as it is defined."""
        scores, rows = np.array(self.scores)[steps], np.array(self.rows)[steps]
        defined = ~np.isnan(scores)
        if not defined.any():
            return math.nan
        return float(np.average(scores[defined], weights=rows[defined]))


class _Part:
    """A stream whose labels are known, with one row in ten left out if there is a seed."""

    def __init__(self, stream: Stream, schema: Schema, seed: int | None) -> None:
        self._stream, self.schema, self._seed = stream, schema, seed

    def batches(self, batch_size: int) -> Iterator[Batch]:
        if self._seed is None:
            yield from self._stream.batches(batch_size)
            return
        rng = generator(self._seed, "compare")
        # Read a ninth more than is asked for, so that batches have the size asked for.
        size = batch_size + max(1, round(batch_size / 9))
        for batch in self._stream.batches(size):
            n_kept = max(1, round(batch.n_rows * batch_size / size))
            kept = np.sort(rng.permutation(batch.n_rows)[:n_kept])
            yield Batch(batch.X[kept], batch.y[kept], batch.position)


def _look(stream: Stream, batch_size: int) -> tuple[Schema, Counter[Any], int]:
    """Read the labels once: predictors must know all of them, and not every target has some."""
    counts: Counter[Any] = Counter()
    n_rows = 0
    name = f'the target "{stream.schema.target}"'
    for batch in stream.batches(max(batch_size, 1_000)):
        counts.update(label for label in batch.y.tolist() if label is not None and label == label)
        if any(isinstance(label, float) and label % 1.0 for label in counts):
            part = next(label for label in counts if label % 1.0)
            raise ValueError(
                f"{name} holds numbers such as {part!r}: selectors are compared by how well "
                "classes are told apart"
            )
        n_rows += batch.n_rows
        if len(counts) > max(20, n_rows / 2):
            raise ValueError(
                f"{name} has {len(counts):,} different values in {n_rows:,} rows: these are no "
                "classes to tell apart"
            )
    if len(counts) < 2:
        only = f"one value only, {next(iter(counts))!r}" if counts else "no label at all"
        raise ValueError(f"{name} holds {only}: there is nothing to tell apart")
    labels = sorted(counts)
    known = Counter({label: counts[label] for label in labels})
    return replace(stream.schema, classes=tuple(labels)), known, n_rows


def _takes(
    selectors: Mapping[str, Callable[[int], Any]], n_classes: int
) -> tuple[dict[str, Callable[[int], Any]], dict[str, str]]:
    """The selectors that can take part with the baselines beside them, and those that cannot."""
    if not selectors:
        raise ValueError("there is no selector to compare")
    takes, left_out, k = {}, {}, None
    for name, make in selectors.items():
        one = make(0)
        k = k or getattr(one, "n_features_to_select", None)
        tags = one.__sklearn_tags__().classifier_tags
        if n_classes > 2 and tags is not None and not tags.multi_class:
            left_out[name] = f"for two classes only, and there are {n_classes}"
        else:
            takes[name] = make
    takes.setdefault("all", lambda seed: AllFeatures())
    if k is not None:
        takes.setdefault("random", lambda seed: RandomFeatures(k, random_state=seed))
    return takes, left_out


def _outcome(name: str, runs: list[_Run], schema: Schema, pieces: int) -> Outcome:
    means = np.array([run.mean() for run in runs])
    stabilities = np.array([_defined_mean(run.stability) for run in runs])
    supports = np.zeros((len(runs), schema.n_features), dtype=bool)
    for mask, run in zip(supports, runs, strict=True):
        mask[run.selected] = True
    steps = np.arange(1, len(runs[0].scores))  # the first batch is learnt from only
    parts = np.array_split(steps, min(pieces, max(len(steps), 1)))
    return Outcome(
        name=name,
        score=float(means.mean()),
        spread=_deviation(means),
        stability=float(stabilities.mean()),
        stability_spread=_deviation(stabilities),
        agreement=stability(supports),
        milliseconds=1e3 * float(np.median([s for run in runs for s in run.seconds])),
        pieces=np.array([np.mean([run.mean(part) for run in runs]) for part in parts]),
    )


def _tested(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """The same with a paired test of all but the first against the first."""
    # In a piece without the positive class, f1 is undefined.
    defined = ~np.isnan([one.pieces for one in outcomes.values()]).any(axis=0)
    compared = {name: replace(one, pieces=one.pieces[defined]) for name, one in outcomes.items()}
    (first, reference), *others = compared.items()
    p_values = holm([_signed_rank(one.pieces - reference.pieces) for _, one in others])
    found = {first: reference}
    for (name, one), p in zip(others, p_values.tolist(), strict=True):
        difference = one.pieces - reference.pieces
        found[name] = replace(
            one,
            difference=float(difference.mean()) if len(difference) else math.nan,
            won=int((difference > 0).sum()),
            lost=int((difference < 0).sum()),
            p_value=p,
        )
    return found


def _signed_rank(difference: Floats) -> float:
    if not difference.any():
        return 1.0  # there is nothing to rank
    from scipy.stats import wilcoxon

    return float(wilcoxon(difference).pvalue)


def holm(p_values: npt.ArrayLike) -> Floats:
    """The p-values of several tests, corrected for their number as Holm did (1979).

    If no difference is real, one of them is below alpha with a probability of alpha at most.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    factors = np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return corrected


def _cautions(outcomes: Mapping[str, Outcome], n_pieces: int, score: str) -> Iterator[str]:
    if n_pieces < FEWEST_PIECES:
        yield (
            f"Caution: there are only {n_pieces} pieces, and with fewer than {FEWEST_PIECES} no "
            "difference can be told from chance; take a longer stream or smaller batches."
        )
    if all(math.isnan(one.stability) for one in outcomes.values()):
        yield "Caution: every selector takes all features; ask for fewer of them."
        return
    best = max(outcomes.values(), key=lambda one: one.score)
    if best.name in BASELINES and not outcomes.keys() <= set(BASELINES):
        what = "all features" if best.name == "all" else "features at random"
        named = score.replace("_", " ")
        yield f"Caution: {what} have the best {named}; a selection may not be worth it."
    if "random" in outcomes:
        yield "random keeps its set for a whole run: its stability is 1 whatever the stream is."


def _defined_mean(values: list[float]) -> float:
    defined = [value for value in values if value == value]
    return float(np.mean(defined)) if defined else math.nan


def _deviation(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def _with_spread(value: float, spread: float) -> str:
    return f"{value:.3f}" if math.isnan(spread) else f"{value:.3f} ± {spread:.3f}"


def _or_dash(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return None if isinstance(value, float) and not math.isfinite(value) else value
