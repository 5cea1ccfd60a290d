"""Which of several selectors serves a stream best, and how sure can one be of that?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.core.randomness import generator
from fires.core.settings import check_choice, check_count
from fires.core.validation import is_missing
from fires.evaluation.comparison import Comparison, Outcome, fewest_pieces
from fires.evaluation.paired_test import holm, paired
from fires.evaluation.prequential import prequential
from fires.evaluation.records import Step
from fires.metrics.prediction import Scores
from fires.metrics.stability import stability
from fires.predictors import Perceptron
from fires.selectors.baselines import AllFeatures, RandomFeatures
from fires.streams.base import Batch, InputError, Position, Schema, Stream, check_batch_size

__all__ = ["BASELINES", "SCORES", "Comparison", "Outcome", "compare", "fewest_pieces", "holm"]

BASELINES = ("all", "random")
SCORES = ("accuracy", "balanced_accuracy", "f1")


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
    one of every ten consecutive rows, drawn with seed s and the same for all selectors, keeps the
    others in their order, and hands s to the selector. The spread over runs says how much the
    result hangs on single rows and on random numbers; as the runs share most rows, it is no
    confidence interval. One run uses all rows.

    *The paired test.* All batches but the first, which nobody can be tested on, are cut into
    consecutive pieces. With the score :math:`a_i` of a selector and :math:`b_i` of the reference
    in piece i, both the mean over the runs, the differences :math:`a_i - b_i` go into Wilcoxon's
    signed-rank test, two-sided. Pieces are compared with themselves, so their difficulty drops
    out, and runs are averaged, since they are not independent. For m selectors the sorted p-values
    are corrected as Holm did:

    .. math::
        \tilde p_{(i)} = \max_{j \le i} \min\bigl(1, (m - j + 1)\, p_{(j)}\bigr)

    As no p-value of n pieces is below :math:`m\, 2 / 2^n` then, there is no verdict unless that is
    below 0.05. The reference is the first selector named, which is decided before any result is
    seen; if that one cannot take part, the next is, and a caution says so. Neighbouring pieces are
    not quite independent: take a p-value just below a limit for what it is.

    Parameters
    ----------
    stream_factory : callable () -> Stream
        Called for every pass over the rows, which must be the same each time.
    selectors : mapping of str to callable (seed) -> OnlineSelector
        Names, and what makes a fresh selector. Those that learn two classes only are left out if
        there are more, and so are those that fail; the result says why.
    predictor : callable () -> predictor
        What makes a fresh predictor, see :func:`fires.predictors.as_predictor`.
    batch_size : int
        Rows of a batch.
    seeds : int
        Runs of each selector, with the seeds 0, 1, ...
    pieces : int
        How many pieces; fewer if there are not enough batches.
    score : str
        ``"accuracy"``, ``"balanced_accuracy"`` or ``"f1"``, see
        :class:`fires.metrics.Scores`. That of a run, or of a piece, comes from the counts of all
        rows tested in it, and is not a mean over batches, in most of which a rare class may not
        occur. In a piece, balanced accuracy is the mean over those classes that occur in it.
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
    schema, classes, n_rows, n_runs = _look(stream_factory(), batch_size)
    n_kept = n_rows if seeds == 1 else n_rows - n_rows // 10
    n_tested = math.ceil(n_kept / batch_size) - 1
    if n_tested < 1:
        raise ValueError(
            f"the {n_kept:,} rows of a run are one batch of {batch_size:,}: nothing is left to be "
            "tested on; take smaller batches"
        )
    takes, left_out = _takes(selectors, len(classes))
    runs: dict[str, list[_Run]] = {}
    total, first_error = n_rows * len(takes) * seeds, None
    for place, (name, make) in enumerate(takes.items()):
        try:
            for seed in range(seeds):
                done = n_rows * (place * seeds + seed)
                run = _Run(score, tuple(classes), min(pieces, n_tested), batch_size, n_kept)
                for step in prequential(
                    _Part(stream_factory(), schema, None if seeds == 1 else seed),
                    make(seed),
                    predictor(),
                    batch_size=batch_size,
                    preprocess=preprocess,
                    scores=(run.count,),
                    window=window,
                ):
                    run.add(step)
                    if progress is not None:
                        progress(f"{name}, run {seed + 1}", done + step.position.rows, total)
                run.end()
                runs.setdefault(name, []).append(run)
        except InputError:
            raise
        except ValueError as error:  # the others may well get to the end
            first_error = first_error or error
            left_out[name] = str(error).rstrip(".")
            runs.pop(name, None)
    if not runs:
        raise first_error or ValueError("there is no selector to compare")
    outcomes = paired({name: _outcome(name, found, schema) for name, found in runs.items()})
    n_pieces = len(next(iter(outcomes.values())).pieces)
    ranked = sorted(outcomes.values(), key=lambda one: (-one.score, one.name))
    return Comparison(
        outcomes=tuple(ranked),
        reference=(reference := next(iter(outcomes))),
        score=score,
        preprocess=preprocess,
        seeds=seeds,
        batch_size=batch_size,
        n_pieces=n_pieces,
        n_rows=n_rows,
        n_features=schema.n_features,
        classes=dict(classes),
        left_out=left_out,
        cautions=(
            *_in_runs(classes, n_runs),
            *_other_reference(next(iter(selectors)), reference),
            *_cautions(outcomes, n_pieces, score),
        ),
    )


class _Run:
    """One pass: its score, as a whole and in each piece, what the steps say, and the last set."""

    def __init__(
        self, score: str, classes: tuple[Any, ...], n_pieces: int, n_first: int, n_rows: int
    ) -> None:
        self._whole, *self._pieces = (Scores((score,), classes) for _ in range(n_pieces + 1))
        self._n_first, self._n_rows, self._n_before = n_first, n_rows, 0
        self.stability: list[float] = []
        self.seconds: list[float] = []
        self.selected: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def count(self, y: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> float:
        """Take a tested batch into account, as a score that prequential is given."""
        # The first batch is learnt from only: the rows after it are cut into pieces.
        n_pieces, n_done = len(self._pieces), max(self._n_before - self._n_first, 0)
        piece = min(n_pieces * n_done // (self._n_rows - self._n_first), n_pieces - 1)
        self._pieces[piece].update(y, predicted)
        return _only(self._whole.update(y, predicted))

    def add(self, step: Step) -> None:
        self._n_before += step.n_rows
        self.stability.append(step.stability)
        self.seconds.append(step.seconds_select)
        self.selected = step.selected

    def end(self) -> None:
        """Score what was counted. Counts, which many classes make large, are not kept."""
        self.score = _only(self._whole.total)
        self.pieces = np.array([_only(piece.total) for piece in self._pieces])
        del self._whole, self._pieces


class _Part:
    """A stream whose labels are known, with one row in ten left out if there is a seed."""

    def __init__(self, stream: Stream, schema: Schema, seed: int | None) -> None:
        self._stream, self.schema, self._seed = stream, schema, seed

    def batches(self, batch_size: int) -> Iterator[Batch]:
        if self._seed is None:
            yield from self._stream.batches(batch_size)
            return
        rng = generator(self._seed, "compare")
        X: Any = None
        y, position = np.empty(0), Position()
        # Whole tens are read, of which nine each are left: for one batch at the least.
        for batch in self._stream.batches(10 * math.ceil(batch_size / 9)):
            tens = 10 * np.arange(batch.n_rows // 10)
            kept = np.delete(np.arange(batch.n_rows), tens + rng.integers(10, size=len(tens)))
            rows, labels, position = batch.X[kept], batch.y[kept], batch.position
            if len(y):
                stack = sp.vstack if sp.issparse(rows) else np.vstack
                rows, labels = stack([X, rows]), np.concatenate([y, labels])
            n_whole = len(labels) - len(labels) % batch_size
            for start in range(0, n_whole, batch_size):
                part = slice(start, start + batch_size)
                yield Batch(rows[part], labels[part], position)
            X, y = rows[n_whole:], labels[n_whole:]
        if len(y):
            yield Batch(X, y, position)


def _only(scores: Mapping[str, float]) -> float:
    (value,) = scores.values()
    return value


def _look(stream: Stream, batch_size: int) -> tuple[Schema, Counter[Any], int, int]:
    """Read the labels once: predictors must know all of them, and not every target has some."""
    counts: Counter[Any] = Counter()
    n_rows = n_runs = 0
    last = None
    name = f'the target "{stream.schema.target}"'
    for batch in stream.batches(max(batch_size, 1_000)):
        labels = batch.y.tolist()
        if batch.y.dtype.kind in "fO":  # in others, none can be missing
            labels = [label for label in labels if not is_missing(label)]
        counts.update(labels)
        n_runs += sum(now != before for before, now in pairwise([last, *labels]))
        last = labels[-1] if labels else last
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
    try:
        known = Counter({label: counts[label] for label in sorted(counts)})
    except TypeError:
        raise ValueError(
            f"{name} mixes labels that have no order, such as text and numbers"
        ) from None
    return replace(stream.schema, classes=tuple(known)), known, n_rows, n_runs


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


def _outcome(name: str, runs: list[_Run], schema: Schema) -> Outcome:
    scores = np.array([run.score for run in runs])
    stabilities = np.array([_defined_mean(run.stability) for run in runs])
    supports = np.zeros((len(runs), schema.n_features), dtype=bool)
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
        pieces=np.mean([run.pieces for run in runs], axis=0),
    )


def _in_runs(classes: Counter[Any], n_runs: int) -> Iterator[str]:
    """A caution if one can repeat the last label and be right, whatever the features say."""
    n_rows = classes.total()
    by_chance = n_rows - sum(count**2 for count in classes.values()) / n_rows
    if by_chance > 10 * n_runs:
        yield (
            f"Caution: labels come in runs of {n_rows / n_runs:,.0f} rows on average; by chance it "
            f"would be {n_rows / by_chance:,.1f}. To repeat the last label is enough here, and "
            "scores say little about features: if the rows are sorted by class, shuffle them."
        )


def _other_reference(first: str, reference: str) -> Iterator[str]:
    if reference != first:
        yield (
            f"Caution: {first}, named first, is left out; what the others are tested against is "
            f"{reference} instead."
        )


def _cautions(outcomes: Mapping[str, Outcome], n_pieces: int, score: str) -> Iterator[str]:
    n_comparisons = len(outcomes) - 1
    if n_pieces < (fewest := fewest_pieces(n_comparisons)):
        yield (
            f"Caution: there are only {n_pieces} pieces, and with fewer than {fewest} of them "
            f"{n_comparisons} comparisons cannot tell a difference from chance; take a longer "
            "stream or smaller batches."
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
