"""Which of several selectors serves a stream best, and how sure can one be of that?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fires.core.errors import InputError
from fires.core.randomness import generator
from fires.core.settings import check_choice, check_count
from fires.core.types import Estimator, Floats, Label, Places
from fires.core.validation import is_missing
from fires.evaluation.comparison import (
    BASELINES,
    Comparison,
    Outcome,
    about_labels,
    about_outcomes,
    beaten_baselines,
    holm,
    paired,
    sign_of,
)
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step, defined_mean
from fires.evaluation.scoring import Baseline
from fires.metrics.prediction import NUMBER_SCORES, Scores, check_numbers
from fires.metrics.stability import stability
from fires.predictors import BayesLinear, Majority, Mean
from fires.predictors.base import Predictor
from fires.rivals.baselines import AllFeatures, RandomFeatures
from fires.rivals.windows.window_refit import WindowRefit
from fires.selectors.base import OnlineSelector
from fires.streams.base import Batch, Schema, Stream, check_batch_size
from fires.streams.table import cut

__all__ = ["BASELINES", "SCORES", "Comparison", "Outcome", "compare", "holm"]

SCORES = ("accuracy", "balanced_accuracy", "f1", *NUMBER_SCORES)


def compare(
    stream_factory: Callable[[], Stream],
    selectors: Mapping[str, Callable[[int], OnlineSelector]],
    *,
    predictor: Callable[[], Predictor | Estimator] | None = None,
    batch_size: int = 100,
    seeds: int = 5,
    pieces: int = 10,
    score: str = "accuracy",
    preprocess: str | None = "minmax",
    window: int = 10,
    progress: Callable[[str, int, int], object] | None = None,
) -> Comparison:
    r"""Compare selectors on one stream of classes or of numbers, each tested before it learns.

    Every selector is run as :func:`fires.evaluation.prequential` runs it, with the same predictor,
    and columns scaled by one online scaler that all of them see. All features, the same number of
    random features, and a prediction without features (the most common class of the earlier rows,
    or their mean) are always included: a selector that does not beat these is not worth its time.
    The result lists the selections that beat each of them.

    *What changes with the seed.* Most selectors are deterministic, and a stream has one order:
    shuffling it would remove the drift that selectors have to follow. So run s leaves out
    one of every ten consecutive rows, drawn with seed s and the same for all selectors, keeps the
    others in their order, and hands s to the selector. The spread over runs shows how much the
    result depends on single rows and on random numbers; as the runs share most rows, it is not a
    confidence interval. One run uses all rows.

    *The test.* Its null hypothesis: on streams like this one, two selectors are equally good on
    average, over their random numbers and over the rows that happen to come. A selector without
    random numbers is subject to the chance of the rows alone; a set drawn at random is good or bad
    luck for a whole run, however long the stream is. So runs are the replicates for what is random
    in a selector; consecutive pieces of the stream, all batches but the first cut into equal
    parts, are those for the rows tested; and as far as the runs of a selector agree on the
    features, because they share most rows, their spread is not divided by their number. These
    three make up the variance of a t-test (:mod:`fires.evaluation.comparison` has the formula). It
    takes three runs and three pieces; with fewer, p is NaN. For m selectors the sorted p-values are
    Holm-adjusted:

    .. math::
        \tilde p_{(i)} = \max_{j \le i} \min\bigl(1, (m - j + 1)\, p_{(j)}\bigr)

    Measured with a Perceptron at the level 0.05, before the correction, on 200 streams of 3,000
    rows each: with 3, 5 and 10 runs, two equal selectors that draw their sets are distinguished on
    0.035, 0.015 and 0.030 of the streams; two given sets of equal worth on 0.005; and one rule that
    keeps the choice of its first batch, on two halves of exchangeable columns, on 0.060, 0.050 and
    0.060. FIRES was distinguished from random features on all 200 with 5 runs, and from OFS on 0.83
    (0.97 with 10).

    The reference is the first selector named, which is decided before any result is seen; if that
    one cannot take part, the next is, and a caution says so.

    Parameters
    ----------
    stream_factory : callable () -> Stream
        Called for every pass over the rows, which must be the same each time.
    selectors : mapping of str to callable (seed) -> OnlineSelector
        Names, and what makes a fresh selector. Those that learn two classes only are left out if
        there are more, or numbers, and so are those that fail; the result says why.
    predictor : callable () -> predictor, optional
        What makes a fresh predictor, see :func:`fires.predictors.as_predictor`. By default a
        :class:`fires.predictors.BayesLinear`.
    batch_size : int
        Rows of a batch.
    seeds : int
        Runs of each selector, with the seeds 0, 1, ... Three or more for a test.
    pieces : int
        How many pieces; fewer if there are not enough batches. Three or more for a test.
    score : str
        ``"accuracy"``, ``"balanced_accuracy"`` or ``"f1"``, or for numbers ``"r2"`` or ``"mae"``,
        see :class:`fires.metrics.Scores`. That of a run, or of a piece, comes from the counts of
        all rows tested in it, and is not a mean over batches, in most of which a rare class may not
        occur. In a piece, balanced accuracy is the mean over those classes that occur in it, and r2
        is measured against the mean of the numbers before in that piece. Of mae, less is better.
    preprocess : {"minmax", "standard", None}
        The scale of the columns. ``"minmax"``, which EFS needs, is fair to all; others may find
        ``"standard"`` easier. It can change who is best.
    window : int
        How many of the last sets make up the stability.
    progress : callable (what, rows, total), optional
        Called after each batch, with the rows of all runs.

    Returns
    -------
    Comparison
        One outcome for each selector, and what to keep in mind when reading them.

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
    ('fires', ['all', 'fires', 'majority', 'ofs', 'random'])
    >>> found["fires"].score > found["random"].score
    True
    >>> found.beaten["majority"]
    ['fires', 'ofs']
    """
    for name, value in (("seeds", seeds), ("pieces", pieces)):
        check_count(name, value)
    check_batch_size(batch_size)
    check_choice("score", score, SCORES)
    numeric, sign = score in NUMBER_SCORES, sign_of(score)
    labels = read_target(stream_factory(), batch_size, numeric)
    make_predictor = predictor or partial(BayesLinear, "gaussian" if numeric else "probit")
    n_rows, n_features = labels.n_rows, labels.schema.n_features
    n_kept = n_rows if seeds == 1 else n_rows - n_rows // 10
    n_tested = math.ceil(n_kept / batch_size) - 1
    if n_tested < 1:
        raise ValueError(
            f"the {n_kept:,} rows of a run are one batch of {batch_size:,}: nothing is left to "
            "test on; use smaller batches"
        )
    makers, left_out, rivals = _that_take_part(selectors, labels)
    passes = [(name, seed) for name in makers for seed in range(seeds)]
    runs: dict[str, list[_Run]] = {}
    without: list[_Run] = []  # of what uses no features
    level = Mean if numeric else Majority
    failures: dict[str, ValueError] = {}
    for place, (name, seed) in enumerate(passes):
        if name in failures:
            continue
        run, beside = (
            _Run(score, labels.schema.classes, min(pieces, n_tested), batch_size, n_kept)
            for _ in range(2)
        )
        # One pass for what needs no features is enough: all selectors see the same rows.
        blind = Baseline(level(), Scores((beside.count,)))
        try:
            steps = prequential(
                OnePass(stream_factory(), labels.schema, None if seeds == 1 else seed),
                makers[name](seed),
                make_predictor(),
                batch_size=batch_size,
                preprocess=preprocess,
                scores=(run.count,),
                window=window,
                baselines={"blind": blind} if name == "all" else {},
            )
            for step in steps:
                run.add(step)
                beside.add(step)
                if progress is not None:
                    done = n_rows * place + step.position.rows
                    progress(f"{name}, run {seed + 1}", done, n_rows * len(passes))
        except InputError:
            raise
        except ValueError as error:  # the others may well get to the end
            failures[name] = error
            runs.pop(name, None)
        else:
            runs.setdefault(name, []).append(run.end())
            without.extend([beside.end()] if name == "all" else [])
    if not runs:
        raise next(iter(failures.values()))
    if "all" in runs:
        runs.setdefault("mean" if numeric else "majority", without)
    outcomes = {name: _outcome(name, found, n_features) for name, found in runs.items()}
    outcomes = paired(outcomes, sign)
    reference = next(iter(outcomes))
    n_pieces = len(outcomes[reference].pieces)
    return Comparison(
        outcomes=tuple(sorted(outcomes.values(), key=lambda one: (-sign * one.score, one.name))),
        reference=reference,
        score=score,
        preprocess=preprocess,
        seeds=seeds,
        batch_size=batch_size,
        n_pieces=n_pieces,
        n_rows=n_rows,
        n_features=n_features,
        classes=dict(labels.counts),
        left_out=left_out | {name: str(why).rstrip(".") for name, why in failures.items()},
        cautions=(
            *about_labels(labels.counts, labels.n_stretches),
            *about_outcomes(outcomes, n_pieces, score, next(iter(selectors))),
        ),
        beaten=beaten_baselines(outcomes, BASELINES, rivals, sign),
    )


class _Run:
    """One pass: its score, as a whole and in each piece, what the steps say, and the last set."""

    def __init__(
        self,
        score: str,
        classes: tuple[Hashable, ...] | None,
        n_pieces: int,
        n_first: int,
        n_rows: int,
    ) -> None:
        self._whole, *self._pieces = (Scores((score,), classes) for _ in range(n_pieces + 1))
        self._name = score
        self._n_first, self._n_rows, self._n_before = n_first, n_rows, 0
        self.stability: list[float] = []
        self.seconds: list[float] = []
        self.selected: Places = np.empty(0, dtype=np.intp)

    def count(self, y: npt.NDArray[np.generic], predicted: npt.NDArray[np.generic]) -> float:
        """Take a tested batch into account, as a score that prequential is given."""
        # The first batch is learnt from only: the rows after it are cut into pieces.
        n_pieces, n_done = len(self._pieces), max(self._n_before - self._n_first, 0)
        piece = min(n_pieces * n_done // (self._n_rows - self._n_first), n_pieces - 1)
        self._pieces[piece].update(y, predicted)
        return self._whole.update(y, predicted)[self._name]

    def add(self, step: Step) -> None:
        self._n_before += step.n_rows
        self.stability.append(step.stability)
        self.seconds.append(step.seconds_select)
        self.selected = step.selected

    def end(self) -> _Run:
        """Score what was counted. Counts, which many classes make large, are not kept."""
        self.score = self._whole.total[self._name]
        self.pieces = np.array([piece.total[self._name] for piece in self._pieces])
        del self._whole, self._pieces
        return self


def _that_take_part(
    selectors: Mapping[str, Callable[[int], OnlineSelector]], labels: LabelCounts
) -> tuple[dict[str, Callable[[int], OnlineSelector]], dict[str, str], list[str]]:
    """Those that can take part with the baselines beside them; those that cannot; window refits."""
    if not selectors:
        raise ValueError("there is no selector to compare")
    n_classes = len(labels.counts)
    examples = {name: make(0) for name, make in selectors.items()}
    tags = {name: one.__sklearn_tags__().classifier_tags for name, one in examples.items()}
    binary = [name for name, of in tags.items() if n_classes != 2 and of and not of.multi_class]
    makers = {name: make for name, make in selectors.items() if name not in binary}
    makers.setdefault("all", lambda seed: AllFeatures())
    settings = (one.get_params(deep=False) for one in examples.values())
    sizes = (given.get("n_features_to_select") for given in settings)
    if k := next(filter(None, sizes), None):
        makers.setdefault("random", lambda seed: RandomFeatures(k, random_state=seed))
    why = f"for two classes only, and there are {n_classes}"
    if n_classes == 0:
        why = "for two classes only, and the target holds numbers"
    rivals = [name for name, one in examples.items() if isinstance(one, WindowRefit)]
    return makers, dict.fromkeys(binary, why), rivals


def _outcome(name: str, runs: list[_Run], n_features: int) -> Outcome:
    scores = np.array([run.score for run in runs])
    stabilities = np.array([defined_mean(run.stability) for run in runs])
    supports = np.zeros((len(runs), n_features), dtype=bool)
    for mask, run in zip(supports, runs, strict=True):
        mask[run.selected] = True
    return Outcome(
        name=name,
        score=float(scores.mean()),
        spread=_deviation(scores),
        stability=float(stabilities.mean()),
        stability_spread=_deviation(stabilities),
        agreement=stability(supports),
        milliseconds=1e3 * float(np.median([s for run in runs for s in run.seconds])),
        runs=scores,
        pieces=np.mean([run.pieces for run in runs], axis=0),
    )


def _deviation(values: Floats) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class LabelCounts:
    """What one pass over the labels of a stream tells."""

    schema: Schema
    counts: Counter[Label]
    n_rows: int
    n_stretches: int


def read_target(stream: Stream, batch_size: int, numeric: bool) -> LabelCounts:
    """Read the target once: predictors must know all labels, and not every target has some."""
    counts: Counter[Label] = Counter()
    n_rows = n_stretches = 0
    last = None
    target = f'the target "{stream.schema.target}"'
    for batch in stream.batches(max(batch_size, 1_000)):
        n_rows += batch.n_rows
        labels = batch.y.tolist()
        if batch.y.dtype.kind in "fO":  # in others, none can be missing
            labels = [label for label in labels if not is_missing(label)]
        if numeric:
            check_numbers(np.array(labels, dtype=batch.y.dtype), target)
            labels = [min(labels), max(labels)] if labels else []  # that they differ is enough
        counts.update(labels)
        n_stretches += sum(now != before for before, now in pairwise([last, *labels]))
        last = [last, *labels][-1]
        if not numeric:
            _check_that_classes(target, counts, n_rows)
    if len(counts) < 2:
        nothing = f"no {'number' if numeric else 'label'} at all"
        only = f"one value only, {next(iter(counts))!r}" if counts else nothing
        raise ValueError(f"{target} holds {only}: there is nothing to predict")
    if numeric:
        return LabelCounts(replace(stream.schema, classes=None), Counter(), n_rows, 0)
    try:
        known = Counter({label: counts[label] for label in sorted(counts)})
    except TypeError:
        raise ValueError(
            f"{target} mixes labels that have no order, such as text and numbers"
        ) from None
    schema = replace(stream.schema, classes=tuple(known))
    return LabelCounts(schema, known, n_rows, n_stretches)


def _check_that_classes(target: str, counts: Counter[Label], n_rows: int) -> None:
    """Raise if what was seen so far are numbers and not classes."""
    broken = (label for label in counts if isinstance(label, float) and label % 1.0)
    if (number := next(broken, None)) is not None:
        raise ValueError(
            f"{target} holds numbers such as {number!r}, not classes: compare by r2 or mae"
        )
    if len(counts) > max(20, n_rows / 2):
        raise ValueError(
            f"{target} has {len(counts):,} different values in {n_rows:,} rows, too many to be "
            "classes; if they are numbers, compare by r2 or mae"
        )


class OnePass:
    """A stream whose labels are known, with one row in ten left out if there is a seed.

    Examples
    --------
    >>> from fires.streams import from_arrays
    >>> stream = from_arrays(np.zeros((20, 1)), np.arange(20))
    >>> (batch,) = OnePass(stream, stream.schema, seed=0).batches(20)
    >>> batch.y
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    """

    def __init__(self, stream: Stream, schema: Schema, seed: int | None) -> None:
        self._stream, self.schema, self._seed = stream, schema, seed

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows that are kept, in their order."""
        if self._seed is None:
            return self._stream.batches(batch_size)
        return cut(self._kept(batch_size), batch_size)

    def _kept(self, batch_size: int) -> Iterator[Batch]:
        """Nine of every ten rows, as they are read."""
        rng = generator(self._seed, "compare")
        for batch in self._stream.batches(10 * math.ceil(batch_size / 9)):  # whole tens
            tens = 10 * np.arange(batch.n_rows // 10)
            kept = np.delete(np.arange(batch.n_rows), tens + rng.integers(10, size=len(tens)))
            yield Batch(batch.X[kept], batch.y[kept], batch.position, batch.columns)
