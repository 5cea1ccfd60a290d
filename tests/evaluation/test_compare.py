import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

import fires
from fires import EFS, FIRES, FSDS, OFS, AllFeatures, FixedFeatures, RandomFeatures, WindowRefit
from fires.evaluation.compare import Comparison, OnePass, Outcome, compare, holm
from fires.evaluation.comparison import p_value
from fires.evaluation.loop import prequential
from fires.metrics import Scores
from fires.predictors import BayesLinear, LinearRegressor, Perceptron
from fires.streams import DriftingFeatures, KnownTruth, from_arrays
from fires.streams.base import InputError

N_ROWS, N_FEATURES = 1_200, 12


def arrays_of(n_rows=N_ROWS, n_classes=2, seed=0):
    """The first two of twelve features decide the class."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    score = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n_rows)
    edges = np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1])
    return X, np.array(["no", "yes", "perhaps"])[np.digitize(score, edges)]


X, Y = arrays_of()


def stream():
    return from_arrays(X, Y)


def good(seed):
    return FixedFeatures([0, 1])


def bad(seed):
    return FixedFeatures([7, 8])


PAIR = {"good": good, "bad": bad}


class Spy(FixedFeatures):
    """Remembers the rows that it was shown."""

    def __init__(self, features=(0,), *, missing="ignore", batch_size=100):
        super().__init__(features, missing=missing, batch_size=batch_size)

    def _learn(self, batch):
        super()._learn(batch)
        SEEN[-1].append(batch.X.copy())


SEEN = []


def spy(seed):
    SEEN.append([])
    return Spy()


# What is run


def test_one_run_is_what_prequential_gives():
    found = compare(stream, {"fires": lambda seed: FIRES(3)}, seeds=1)["fires"]
    steps = list(prequential(stream(), FIRES(3), BayesLinear(), preprocess="minmax"))
    scores = [step.scores["accuracy"] for step in steps]
    assert found.score == pytest.approx(np.mean(scores[1:]))
    assert found.stability == pytest.approx(np.nanmean([step.stability for step in steps]))
    assert np.isnan(found.spread)
    assert np.isnan(found.agreement)


def test_every_run_leaves_out_another_tenth_and_keeps_the_order():
    numbered = np.arange(1_110.0)[:, None] @ np.ones((1, 2))
    y = np.arange(1_110) % 2
    SEEN.clear()
    compare(lambda: from_arrays(numbered, y), {"one": spy, "two": spy}, seeds=2)
    runs = [np.concatenate(seen)[:, 0] for seen in SEEN if seen]
    assert [len(seen[0]) for seen in SEEN if seen] == [100] * 4
    assert [len(run) for run in runs] == [999] * 4
    # Columns are scaled by what came before, so the order within a batch is what is left.
    for seen in SEEN:
        assert all((np.diff(batch[:, 0]) > 0).all() for batch in seen)
    first, second, *others = runs
    np.testing.assert_array_equal(first, others[0])  # both selectors are shown the same rows,
    np.testing.assert_array_equal(second, others[1])
    assert (first != second).any()  # and each run other ones


@given(n_rows=st.integers(1, 400), batch_size=st.integers(1, 60), seed=st.integers(0, 3))
def test_what_is_left_of_a_stream_is_in_order_and_belongs_together(n_rows, batch_size, seed):
    rows = np.arange(float(n_rows))
    source = from_arrays(rows[:, None], rows.astype(int))
    batches = list(OnePass(source, source.schema, seed).batches(batch_size))
    kept = np.concatenate([batch.y for batch in batches])
    assert (np.diff(kept) > 0).all()
    for batch in batches:
        np.testing.assert_array_equal(batch.X[:, 0], batch.y)
        assert 1 <= batch.n_rows <= batch_size
    assert all(batch.n_rows == batch_size for batch in batches[:-1])
    assert len(kept) == n_rows - n_rows // 10
    assert batches[-1].position.rows == n_rows
    whole = np.concatenate([b.y for b in OnePass(source, source.schema, seed).batches(1_000)])
    np.testing.assert_array_equal(kept, whole)  # the size of a batch does not decide on rows


def test_rows_left_out_are_drawn_evenly():
    source = from_arrays(np.zeros((2_000, 1)), np.arange(2_000))
    left_out = np.concatenate(
        [
            np.setdiff1d(
                np.arange(2_000),
                np.concatenate([b.y for b in OnePass(source, source.schema, s).batches(100)]),
            )
            for s in range(5)
        ]
    )
    assert len(left_out) == 5 * 200
    assert (np.bincount(left_out % 10) > 60).all()


def test_sparse_rows_are_left_out_likewise():
    dense = np.where(np.abs(X) > 1.0, X, 0.0)
    parts = [
        OnePass(from_arrays(rows, Y), stream().schema, 3).batches(70)
        for rows in (dense, sp.csr_array(dense))
    ]
    for one, other in zip(*parts, strict=True):
        assert other.X.format == "csr"
        np.testing.assert_array_equal(one.X, other.X.toarray())
        np.testing.assert_array_equal(one.y, other.y)


def test_the_same_comparison_gives_the_same_numbers():
    first, second = (
        compare(stream, {"fires": lambda seed: FIRES(3)}, seeds=2).as_dict() for _ in range(2)
    )
    for facts in (first, second):
        for outcome in facts["outcomes"]:
            del outcome["milliseconds"]
    assert first == second


def test_a_seed_reaches_the_selector():
    seeds = []
    compare(stream, {"one": lambda seed: seeds.append(seed) or good(seed)}, seeds=3)
    assert seeds[-3:] == [0, 1, 2]


def test_all_features_and_random_ones_are_always_beside():
    found = compare(stream, {"ofs": lambda seed: OFS(4)}, seeds=2)
    assert {one.name for one in found.outcomes} == {"ofs", "all", "random", "majority"}
    assert found.reference == "ofs"
    assert np.isnan(found["all"].stability)
    assert found["random"].stability == 1.0


def test_random_features_are_as_many_as_are_selected():
    sizes = []

    class Counting(RandomFeatures):
        def learn(self, batch):
            super().learn(batch)
            sizes.append(self.get_support().sum())
            return self

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fires.evaluation.compare.RandomFeatures", Counting)
        compare(stream, {"ofs": lambda seed: OFS(0.5)}, seeds=1)
    assert set(sizes) == {6}


def test_baselines_of_ones_own_are_kept():
    makers = {"random": lambda seed: good(seed), "all": lambda seed: AllFeatures()}
    found = compare(stream, makers, seeds=1)
    assert found.reference == "random"
    assert len(found.outcomes) == 3  # the majority too
    assert found["random"].score == compare(stream, PAIR, seeds=1)["good"].score


def test_the_best_comes_first():
    found = compare(stream, PAIR, seeds=2)
    scores = [one.score for one in found.outcomes]
    assert scores == sorted(scores, reverse=True)
    assert found["good"].score > found["bad"].score


def test_progress_ends_at_the_end():
    told = []
    compare(stream, PAIR, seeds=2, progress=lambda *now: told.append(now))
    rows = [done for _, done, _ in told]
    assert rows == sorted(rows)
    assert told[-1][1:] == (3 * 2 * N_ROWS, 3 * 2 * N_ROWS)


# The paired test


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_its_definition(p_values):
    corrected = holm(p_values)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    for place, i in enumerate(order):
        steps = [min(1.0, (len(p_values) - j) * p_values[order[j]]) for j in range(place + 1)]
        assert corrected[i] == pytest.approx(max(steps))
    assert (corrected >= p_values).all()
    assert (corrected <= 1.0).all()


def test_what_is_tested_is_the_difference_that_is_shown():
    makers = {"fires": lambda seed: FIRES(2), "ofs": lambda seed: OFS(2), "bad": bad}
    found = compare(stream, makers, seeds=3, batch_size=50)
    assert found.n_pieces == 10
    names = ("ofs", "bad", "all", "random", "majority")
    for name in names:
        one, by_piece = found[name], found[name].pieces - found["fires"].pieces
        assert one.score == pytest.approx(one.runs.mean())
        assert one.difference == pytest.approx(one.score - found["fires"].score)
        assert (one.won, one.lost) == ((by_piece > 0).sum(), (by_piece < 0).sum())
    raw = [p_value(found[name], found["fires"]) for name in names]
    np.testing.assert_allclose([found[name].p_value for name in names], holm(raw))
    assert np.isnan(found["fires"].p_value)


def outcome_of(runs, pieces, agreement):
    runs, pieces = np.asarray(runs, dtype=float), np.asarray(pieces, dtype=float)
    return Outcome("any", runs.mean(), runs.std(ddof=1), 1.0, 0.0, agreement, 1.0, runs, pieces)


RNG = np.random.default_rng(0)
RUNS, PIECES = RNG.normal(0.02, 0.05, 6), RNG.normal(0.02, 0.05, 6)


def test_if_runs_choose_anew_it_is_the_t_test_over_runs():
    """And if all that differs is the rows tested, the t-test over pieces."""
    zero = outcome_of(np.zeros(6), np.zeros(6), 0.0)
    by_run = p_value(outcome_of(RUNS, np.full(6, 0.02), 0.0), zero)
    assert by_run == pytest.approx(ttest_1samp(RUNS, 0.0).pvalue)
    by_piece = p_value(outcome_of(np.full(6, PIECES.mean()), PIECES, 1.0), zero)
    assert by_piece == pytest.approx(ttest_1samp(PIECES, 0.0).pvalue)


def test_the_more_runs_agree_on_a_set_the_less_they_are_independent():
    p_values = [
        p_value(outcome_of(RUNS, PIECES, agreement), outcome_of(np.zeros(6), np.zeros(6), 1.0))
        for agreement in (-0.2, 0.0, 0.5, 1.0, np.nan)
    ]
    assert p_values[0] == p_values[1] < p_values[2] < p_values[3] == p_values[4]


def test_what_never_varies_is_certain():
    good_one, bad_one = (outcome_of([x] * 3, [x] * 3, 1.0) for x in (0.9, 0.6))
    assert p_value(good_one, bad_one) == 0.0
    assert p_value(good_one, good_one) == 1.0


def test_the_same_selector_twice_is_not_told_apart():
    found = compare(stream, {"one": good, "two": good}, seeds=3)
    two = found["two"]
    assert (two.difference, two.won, two.lost, two.p_value) == (0.0, 0, 0, 1.0)


def test_a_real_difference_is_seen():
    found = compare(stream, PAIR, seeds=3)
    assert found["bad"].difference < -0.2
    assert found["bad"].won == 0
    assert found["bad"].p_value < 0.01
    assert "worse than good: " in next(found.notes())


def test_pieces_are_consecutive_batches_after_the_first():
    found = compare(stream, {"good": good}, seeds=1, pieces=11)
    steps = list(prequential(stream(), good(0), BayesLinear(), preprocess="minmax"))
    np.testing.assert_allclose(
        found["good"].pieces, [step.scores["accuracy"] for step in steps[1:]]
    )


def test_a_short_stream_has_fewer_pieces_and_a_caution():
    found = compare(lambda: from_arrays(X[:330], Y[:330]), PAIR, seeds=3)
    assert found.n_pieces == 2
    assert any("takes 3 pieces of the stream, and there are 2;" in note for note in found.cautions)
    assert not any("5% level" in note or "t-test" in note for note in found.notes())
    assert np.isnan(found["bad"].p_value)
    enough = compare(stream, PAIR, seeds=3)
    assert not any("not tested" in note for note in enough.cautions)


@pytest.mark.parametrize(("seeds", "words"), [(1, "there is one."), (2, "there are 2.")])
def test_without_three_runs_there_is_no_test(seeds, words):
    found = compare(stream, PAIR, seeds=seeds)
    assert np.isnan(found["bad"].p_value)
    assert any("takes 3 runs or more, and " + words in note for note in found.cautions)
    assert not any("5% level" in note or "t-test" in note for note in found.notes())
    cells = {row[0]: row for row in found.rows()}
    assert cells["bad"][6] == "-"


def random_pair(trial):
    """Two equal selectors that draw their sets, on a stream where sets differ in worth."""
    source = KnownTruth(3_000, n_features=50, n_relevant=5, random_state=trial)
    return source, {
        "one": lambda seed: RandomFeatures(5, random_state=seed),
        "all": lambda seed: RandomFeatures(5, random_state=seed + 1_000),
    }


def fixed_pair(trial):
    """Two selectors without random numbers, on columns which all tell the same."""
    rng = np.random.default_rng(trial)
    values = rng.normal(size=(3_000, 20))
    y = (values.sum(axis=1) / np.sqrt(20) + rng.normal(size=3_000) > 0).astype(int)
    return from_arrays(values, y), {
        "one": lambda seed: FixedFeatures(range(5)),
        "all": lambda seed: FixedFeatures(range(10, 15)),
    }


class FirstImpression(FixedFeatures):
    """Takes the four columns of a half that correlate most in the first batch, and keeps them."""

    def __init__(self, half=0, *, missing="ignore", batch_size=100):
        super().__init__((), missing=missing, batch_size=batch_size)
        self.half = half

    def _learn(self, batch):
        if not hasattr(self, "_weights_"):
            labels = (batch.y == max(batch.y)).astype(float)
            told = np.abs((batch.X - batch.X.mean(axis=0)).T @ (labels - labels.mean()))
            told[np.arange(len(told)) // (len(told) // 2) != self.half] = 0.0
            self.features = np.argsort(-told)[:4]
        super()._learn(batch)


def learnt_pair(trial):
    """One rule on two halves of exchangeable columns: luck with the first rows lasts for ever."""
    rng = np.random.default_rng(trial)
    values, effects = rng.normal(size=(3_000, 40)), np.r_[np.linspace(0.5, 0.05, 10), np.zeros(10)]
    score = values @ np.r_[effects, effects] + 0.7 * rng.normal(size=3_000)
    return from_arrays(values, (score > 0).astype(int)), {
        "one": lambda seed: FirstImpression(0),
        "all": lambda seed: FirstImpression(1),
    }


PAIRS = [random_pair, fixed_pair, learnt_pair]


def rejected(pair, n_trials, seeds=5):
    p_values = []
    for trial in range(n_trials):
        source, makers = pair(trial)
        # What is tested is the test, which the figures of the pages are of.
        found = compare(lambda s=source: s, makers, predictor=Perceptron, seeds=seeds)
        p_values.append(p_value(found["all"], found["one"]))  # before Holm's correction
    return np.mean(np.array(p_values) < 0.05)


@pytest.mark.parametrize(
    "pair", [learnt_pair, *(pytest.param(p, marks=pytest.mark.slow) for p in PAIRS[:2])]
)
def test_chance_is_seldom_taken_for_a_difference(pair):
    assert rejected(pair, 6, seeds=3) <= 1 / 6


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("pair", PAIRS)
def test_the_level_is_held(pair, seeds):
    """Measured with 3, 5 and 10 runs, in the order of the pairs:

    0.035, 0.015, 0.030; 0.005, 0.005, 0.005; 0.060, 0.050, 0.060.
    """
    assert rejected(pair, 200, seeds) <= 0.08


def test_fires_is_told_from_random_features():
    """Of 200 such streams, with five runs each: all of them."""
    source = KnownTruth(3_000, n_features=50, n_relevant=5, random_state=0)
    found = compare(lambda: source, {"fires": lambda seed: FIRES(5)}, seeds=5)
    assert found["random"].p_value < 0.05
    assert "random" in next(found.notes())


# Spread, stability, agreement


def test_agreement_is_the_stability_of_the_last_sets():
    sets = [[0, 1], [0, 2], [0, 1]]
    found = compare(stream, {"one": lambda seed: FixedFeatures(sets[seed])}, seeds=3)
    masks = np.zeros((3, N_FEATURES), dtype=bool)
    for mask, chosen in zip(masks, sets, strict=True):
        mask[chosen] = True
    assert found["one"].agreement == pytest.approx(fires.stability(masks))
    assert found["one"].stability == 1.0


def test_spread_is_the_deviation_over_runs():
    found = compare(stream, PAIR, seeds=3)
    single = []
    for seed in range(3):
        part = OnePass(stream(), stream().schema, seed)
        steps = list(prequential(part, good(seed), BayesLinear(), preprocess="minmax"))[1:]
        weights = [step.n_rows for step in steps]
        single.append(np.average([step.scores["accuracy"] for step in steps], weights=weights))
    assert found["good"].score == pytest.approx(np.mean(single))
    assert found["good"].spread == pytest.approx(np.std(single, ddof=1))


class Constant:
    """Takes every row for the first class."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.classes_ = np.asarray(classes)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_constant_prediction_has_a_balanced_accuracy_of_one_half(seeds):
    rare = np.where(np.arange(N_ROWS) % 150 == 120, "yes", "no")
    found = compare(lambda: from_arrays(X, rare), {"good": good}, predictor=Constant, seeds=seeds,
                    score="balanced_accuracy")  # fmt: skip
    assert found["good"].score == 0.5


POOLED = {
    "accuracy": accuracy_score,
    "balanced_accuracy": balanced_accuracy_score,
    "f1": lambda y, taken: (
        f1_score(y, taken, pos_label="yes")
        if len(set(y)) == 2
        else f1_score(y, taken, average="macro")
    ),
}


@pytest.mark.parametrize("score", POOLED)
@pytest.mark.parametrize("labels", ["rare", "three", "missing"])
def test_a_score_is_that_of_all_rows_tested_at_once(score, labels):
    taken = []

    class Logged(Perceptron):
        def predict(self, X):
            taken.append(super().predict(X))
            return taken[-1]

    y = {
        "rare": np.where(X[:, 0] > 1.7, "yes", "no"),
        "three": arrays_of(n_classes=3)[1],
        "missing": Y.astype(object),
    }[labels]
    if labels == "missing":  # one row of the third batch has a label, and half of the fifth
        y[200:299] = None
        y[400:450] = np.nan
    found = compare(lambda: from_arrays(X, y), {"all": lambda seed: AllFeatures()}, seeds=1,
                    predictor=Logged, score=score, pieces=3)  # fmt: skip
    lengths = [len(rows) for rows in taken]
    tested = np.array([label for label in y[100:] if isinstance(label, str)])
    predicted = np.concatenate(taken)
    assert found["all"].score == pytest.approx(POOLED[score](tested, predicted))
    ends = np.cumsum(lengths)[[3, 7]]
    for piece, truth, said in zip(
        found["all"].pieces, np.split(tested, ends), np.split(predicted, ends), strict=True
    ):
        assert piece == pytest.approx(POOLED[score](truth, said))


def test_other_scores_can_be_compared():
    rare = np.where(X[:, 0] > 1.6, "yes", "no")
    found = compare(lambda: from_arrays(X, rare), PAIR, seeds=1, score="f1")
    assert found.score == "f1"
    assert found["good"].score > found["bad"].score
    assert found["all"].pieces.shape == (found.n_pieces,)


def test_where_f1_is_undefined_there_is_no_piece():
    late = np.where(np.arange(N_ROWS) < 700, "no", Y)
    late[:5] = "yes"
    found = compare(lambda: from_arrays(X, late), {"all": lambda seed: AllFeatures()}, seeds=1,
                    score="f1", pieces=11)  # fmt: skip
    assert 0 < found.n_pieces <= 11
    assert not np.isnan(found["all"].pieces).any()


# Who takes part


def test_selectors_of_two_classes_are_left_out_of_three():
    three = arrays_of(n_classes=3)
    makers = {
        "ofs": lambda seed: OFS(2),
        "fires": lambda seed: FIRES(2),
        "efs": lambda seed: EFS(2),
        "fsds": lambda seed: FSDS(2),
    }
    found = compare(lambda: from_arrays(*three), makers, seeds=1)
    assert set(found.left_out) == {"ofs", "efs"}
    assert {one.name for one in found.outcomes} == {"fires", "fsds", "all", "random", "majority"}
    assert found.reference == "fires"
    (line,) = [note for note in found.notes() if "Left out" in note]
    assert line == "Left out: ofs, efs; for two classes only, and there are 3."


class Failing(AllFeatures):
    def _learn(self, batch):
        super()._learn(batch)
        if getattr(self, "n_samples_seen_", 0) >= 300:
            raise ValueError("the gradient is not finite.")


def test_a_selector_that_fails_is_left_out_and_the_others_run():
    makers = {"failing": lambda seed: Failing(), "good": good}
    found = compare(stream, makers, seeds=2)
    assert found.left_out == {"failing": "the gradient is not finite"}
    assert found.reference == "good"
    assert {one.name for one in found.outcomes} == {"good", "all", "majority"}
    assert any("failing, named first, is left out" in note for note in found.cautions)
    behind = compare(stream, {"good": good, "failing": lambda seed: Failing()}, seeds=1)
    assert not any("named first" in note for note in behind.cautions)


def test_if_all_fail_the_error_is_the_first():
    with pytest.raises(ValueError, match="not finite"):
        compare(stream, {"one": lambda s: Failing(), "all": lambda s: Failing()}, seeds=1)


def test_an_error_of_the_stream_ends_it():
    class Broken:
        schema = stream().schema
        n_passes = 0

        def batches(self, batch_size):
            self.n_passes += 1
            yield from stream().batches(batch_size)
            if self.n_passes > 1:
                raise InputError("the file is damaged")

    broken = Broken()
    with pytest.raises(InputError, match="damaged"):
        compare(lambda: broken, PAIR, seeds=1)


def test_sparse_rows_are_compared():
    from sklearn.linear_model import Perceptron as TakesSparse

    sparse = from_arrays(sp.csr_array(np.where(np.abs(X) > 1.0, np.abs(X), 0.0)), Y)
    found = compare(lambda: sparse, PAIR, predictor=TakesSparse, seeds=2)
    assert {one.name for one in found.outcomes} == {"good", "bad", "all", "majority"}


def test_many_classes_reach_a_predictor_that_must_know_them_beforehand():
    from sklearn.linear_model import SGDClassifier

    def predictor():
        return SGDClassifier(random_state=0)

    values, y = arrays_of(n_classes=3)
    order = np.argsort(y[:300], kind="stable")  # the first batch does not hold them all
    values[:300], y[:300] = values[:300][order], y[:300][order]
    found = compare(lambda: from_arrays(values, y), {"good": good}, predictor=predictor, seeds=2)
    assert found["good"].score > 0.4


def test_rows_without_a_label_do_not_count():
    y = Y.astype(object)
    y[::7] = None
    found = compare(lambda: from_arrays(X, y), PAIR, seeds=1)
    assert found.classes == {"no": (y == "no").sum(), "yes": (y == "yes").sum()}


def test_every_kind_of_missing_label_is_one():
    pd = pytest.importorskip("pandas")
    y = Y.astype(object)
    y[::7], y[1::7], y[2::7] = pd.NA, np.nan, pd.NaT
    none = np.where([isinstance(label, str) for label in y], y, None)
    first, second = (compare(lambda y=y: from_arrays(X, y), PAIR, seeds=2) for y in (y, none))
    assert first.classes == second.classes == {k: (none == k).sum() for k in ("no", "yes")}
    assert first["good"].score == second["good"].score


def test_a_selection_that_is_not_worth_it_is_called_so():
    found = compare(stream, {"bad": bad}, seeds=1)
    assert any("all features have the best accuracy" in note for note in found.cautions)
    noise = np.random.default_rng(0).normal(size=(N_ROWS, 200))
    wide = from_arrays(np.hstack([X, noise]), Y)
    found = compare(lambda: wide, PAIR, seeds=1, preprocess="standard")
    assert not any("best" in note for note in found.cautions)


def test_rows_sorted_by_class_are_called_so():
    order = np.argsort(Y, kind="stable")
    found = compare(lambda: from_arrays(X[order], Y[order]), PAIR, seeds=1)
    assert "in runs of 600 rows on average; by chance it would be 2.0." in found.cautions[0]


@pytest.mark.parametrize("run", [1, 2, 15])
def test_short_runs_of_one_label_are_nothing_to_be_wary_of(run):
    y = np.where(np.arange(N_ROWS) // run % 2, "yes", "no")
    found = compare(lambda: from_arrays(X, y), PAIR, seeds=1)
    assert not any("runs of" in note for note in found.cautions)


def test_a_rare_class_is_not_taken_for_a_sorted_file():
    rare = np.where(np.arange(N_ROWS) % 100 == 50, "yes", "no")
    found = compare(lambda: from_arrays(X, rare), PAIR, seeds=1)
    assert not any("runs of" in note for note in found.cautions)


def test_to_take_all_features_is_called_so():
    found = compare(stream, {"ofs": lambda seed: OFS(50)}, seeds=1)
    assert any("selects all features" in note for note in found.cautions)


# What cannot be compared


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.full(N_ROWS, "same"), ['the target "target"', "one value only, 'same'"]),
        (np.linspace(0, 1, N_ROWS), ["numbers such as"]),
        (np.arange(N_ROWS), ["different values", "too many to be classes"]),
        (np.array([f"id{i}" for i in range(N_ROWS)]), ["different values"]),
        (np.full(N_ROWS, None), ["no label at all"]),
        (np.array([1, "one"] * (N_ROWS // 2), dtype=object), ["such as text and numbers"]),
    ],
    ids=["one class", "numbers", "whole numbers", "names", "none", "mixed"],
)
def test_a_target_without_classes_is_refused_in_one_line(y, words):
    with pytest.raises(ValueError) as caught:
        compare(lambda: from_arrays(X, y), PAIR)
    message = str(caught.value)
    assert "\n" not in message
    assert all(word in message for word in words)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"seeds": 0}, "seeds"),
        ({"pieces": 0}, "pieces"),
        ({"batch_size": 0}, "batch_size"),
        ({"score": "log_loss"}, "score"),
        ({"batch_size": 5_000, "seeds": 1}, "one batch of 5,000"),
    ],
)
def test_what_makes_no_sense_is_refused(options, word):
    with pytest.raises(ValueError, match=word):
        compare(stream, PAIR, **options)


def test_nothing_to_compare_is_refused():
    with pytest.raises(ValueError, match="no selector"):
        compare(stream, {})


# What comes back


@pytest.fixture(scope="module")
def found() -> Comparison:
    return compare(stream, PAIR | {"ofs": lambda seed: OFS(3)}, seeds=3)


def test_json_has_no_nan(found):
    facts = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    by_name = {one["name"]: one for one in facts["outcomes"]}
    assert by_name["all"]["stability"] is None
    assert by_name["good"]["p_value"] is None
    assert by_name["bad"]["p_value"] == found["bad"].p_value
    assert facts["classes"] == {"no": 600, "yes": 600}
    assert facts["reference"] == "good"
    assert (facts["n_rows"], facts["n_features"], facts["seeds"]) == (N_ROWS, N_FEATURES, 3)


def test_markdown_is_a_table_with_notes(found):
    lines = found.markdown().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + len(found.outcomes)
    assert len({line.count("|") for line in table}) == 1
    assert [line.split(" | ")[0] for line in table[2:]] == [f"| {o.name}" for o in found.outcomes]
    assert "± is the standard deviation over 3 runs" in found.markdown()


def test_an_unknown_name_is_no_outcome(found):
    with pytest.raises(KeyError):
        found["nobody"]


def test_a_drifting_stream_is_followed_in_order():
    drifting = DriftingFeatures(4_000, n_features=10, n_relevant=2, random_state=0)
    before = drifting.relevant_at(0).tolist()
    found = compare(lambda: drifting, {"before": lambda seed: FixedFeatures(before)}, seeds=2)
    pieces = found["before"].pieces
    assert pieces[:4].mean() > pieces[6:].mean() + 0.2


@pytest.mark.parametrize("scale", ["minmax", "standard", None])
def test_the_scale_is_the_same_for_all_and_named(scale):
    found = compare(stream, {"good": good}, seeds=1, preprocess=scale)
    steps = list(prequential(stream(), good(0), BayesLinear(), preprocess=scale))
    assert found["good"].score == pytest.approx(np.mean([s.scores["accuracy"] for s in steps[1:]]))
    assert found.preprocess == scale
    assert any("Columns are" in note for note in found.notes())


# What a selection should beat


def test_the_majority_is_that_of_the_rows_before():
    found = compare(stream, PAIR, seeds=1)["majority"]
    said = []
    for start in range(100, N_ROWS, 100):
        seen = Y[:start].tolist()
        said += [max(["no", "yes"], key=seen.count)] * 100
    assert found.score == pytest.approx(np.mean(np.array(said) == Y[100:]))
    assert len(found.pieces) == 10
    assert found.score == pytest.approx(found.pieces.mean(), abs=0.01)


def test_it_is_told_whether_a_selection_beats_them():
    makers = {"good": good, "bad": bad, "refit": lambda seed: WindowRefit(2, window=300)}
    found = compare(stream, makers, seeds=3)
    assert found.beaten["majority"] == ["good", "refit"]
    assert found.beaten["all"] == ["good", "refit"]  # ten columns of noise cost a little
    assert found.beaten["refit"] == []  # which is as good
    assert found.as_dict()["beaten"] == found.beaten
    (line,) = [note for note in found.notes() if "the most common class" in note and "beat" in note]
    assert line.startswith("At the 5% level, ")
    assert "good, refit beat all features and the most common class" in line
    assert "no selection beats random features or refit (a window refit)" in line
    assert line in found.markdown()


def test_without_a_test_the_score_alone_decides():
    found = compare(stream, PAIR, seeds=1)
    assert found.beaten["majority"][0] == "good"
    assert any(note.startswith("By the score alone, ") for note in found.notes())


def test_equal_selections_beat_nothing():
    rng = np.random.default_rng(0)
    noise = from_arrays(rng.normal(size=(1_500, 6)), rng.integers(0, 2, size=1_500))
    found = compare(lambda: noise, {"fires": lambda seed: FIRES(2)}, seeds=3)
    assert set(found.beaten) == {"all", "random", "majority"}
    assert not any(found.beaten.values())
    assert any(
        "no selection beats all features, random features or" in note for note in found.notes()
    )


# Numbers


AMOUNTS = 100.0 + 20.0 * (X[:, 0] - X[:, 1]) + 10.0 * np.random.default_rng(1).normal(size=N_ROWS)


def amounts():
    return from_arrays(X, AMOUNTS)


@pytest.mark.parametrize("score", ["r2", "mae"])
def test_numbers_are_compared_too(score):
    found = compare(amounts, PAIR, predictor=LinearRegressor, seeds=3, score=score)
    best = [one.name for one in found.outcomes]
    assert best[0] == "good"
    assert set(best) == {"good", "bad", "all", "mean"}
    assert found.classes == {}
    assert found.beaten == {"all": ["good"], "mean": ["good"]}
    assert (found["bad"].difference < 0.0) == (score == "r2")
    assert (found["bad"].won, found["bad"].lost) == (0, 10)
    notes = " ".join(found.notes())
    assert "the target holds numbers" in notes
    assert "worse than good: " in notes
    assert "better than" not in notes


def test_one_run_of_numbers_is_what_prequential_gives():
    scores = Scores(("r2", "mae"))
    list(prequential(amounts(), good(0), BayesLinear(), preprocess="minmax", scores=scores))
    for score in ("r2", "mae"):
        found = compare(amounts, PAIR, seeds=1, score=score)
        assert found["good"].score == pytest.approx(scores.total[score])


def test_selectors_of_classes_are_left_out_of_numbers():
    makers = {
        "fires": lambda seed: FIRES(2),
        "ofs": lambda seed: OFS(2),
        "of classes": lambda seed: WindowRefit(2, target="classes"),
    }
    found = compare(amounts, makers, seeds=1, score="r2")
    assert found.left_out["ofs"] == "for two classes only, and the target holds numbers"
    assert "numbers that are not whole" in found.left_out["of classes"]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.full(300, 2.5), "one value only, 2.5"),
        (np.full(300, np.nan), "no number at all"),
        (np.where(np.arange(300) % 2, "a", "b"), "holds labels such as"),
    ],
)
def test_what_is_no_numbers_is_refused_in_one_line(y, words):
    with pytest.raises(ValueError, match=words):
        compare(lambda: from_arrays(X[:300], y), PAIR, score="r2")


def test_rows_without_a_number_do_not_count():
    y = AMOUNTS.copy()
    y[::5] = np.nan
    found = compare(lambda: from_arrays(X, y), PAIR, seeds=1, score="mae")
    assert 0.0 < found["good"].score < found["bad"].score
