import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from fires.core.state import read_state, write_state
from fires.metrics import Scores

BUILT_IN = ("accuracy", "balanced_accuracy", "f1")
KINDS = {
    "numbers": [3, -1, 7, 0, 2],
    "floats": [4.0, -1.0, 2.0, 7.0, 3.0],
    "flags": [False, True],
    "text": ["spam", "ham", "a much longer label", "b", ""],
}


def labels_of(kind, codes):
    return np.array(KINDS[kind])[codes]


@st.composite
def runs(draw):
    """Batches of labels and predictions, in which classes arrive as they like."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    n_classes = draw(st.integers(1, len(KINDS[kind])))
    codes = st.lists(st.tuples(*[st.integers(0, n_classes - 1)] * 2), min_size=0, max_size=12)
    return kind, [
        tuple(labels_of(kind, np.array(batch, dtype=int).reshape(-1, 2).T))
        for batch in draw(st.lists(codes, min_size=1, max_size=4))
    ]


def expected(y, predicted, classes):
    """What scikit-learn says, and NaN where it has to be asked not to."""
    if not len(y):
        return dict.fromkeys(BUILT_IN, np.nan)
    f1 = np.nan
    if len(classes) == 2:
        options = {"labels": [classes[-1]], "average": None}
        f1 = reference.f1_score(y, predicted, zero_division=np.nan, **options)[0]
    elif len(classes) > 2:
        f1 = reference.f1_score(y, predicted, average="macro", zero_division=np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are only predicted
        balanced = reference.balanced_accuracy_score(y, predicted)
    return {
        "accuracy": reference.accuracy_score(y, predicted),
        "balanced_accuracy": balanced,
        "f1": f1,
    }


def assert_same(found, wanted):
    assert list(found) == list(wanted)
    np.testing.assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-12)


@given(runs())
def test_each_batch_and_all_of_them_are_scored_as_by_scikit_learn(run):
    _, batches = run
    scores = Scores(BUILT_IN)
    seen = [np.concatenate(batches[: n + 1], axis=1) for n in range(len(batches))]
    for (y, predicted), so_far in zip(batches, seen, strict=True):
        classes = np.unique(so_far)
        assert_same(scores.update(y, predicted), expected(y, predicted, classes))
        assert_same(scores.total, expected(*so_far, classes))
    if len(classes):
        np.testing.assert_array_equal(scores.classes_, classes)
        y, predicted = so_far
        wanted = [[((y == k) & (predicted == taken)).sum() for taken in classes] for k in classes]
        np.testing.assert_array_equal(scores.matrix, wanted)


@given(runs(), st.randoms(use_true_random=False))
def test_the_total_depends_neither_on_the_cut_nor_on_when_a_class_came(run, random):
    _, batches = run
    y, predicted = np.concatenate(batches, axis=1)
    order = list(range(len(y)))
    random.shuffle(order)
    whole, rows = Scores(BUILT_IN), Scores(BUILT_IN)
    whole.update(y, predicted)
    for i in order:
        rows.update(y[i : i + 1], predicted[i : i + 1])
    assert_same(rows.total, whole.total)
    np.testing.assert_array_equal(rows.matrix, whole.matrix)


@given(runs())
def test_classes_given_beforehand_only_say_which_are_positive(run):
    kind, batches = run
    classes = KINDS[kind]
    scores = Scores(BUILT_IN, classes=classes)
    for y, predicted in batches:
        assert_same(scores.update(y, predicted), expected(y, predicted, sorted(classes)))
    assert_same(scores.total, expected(*np.concatenate(batches, axis=1), sorted(classes)))


@given(runs(), st.integers(0, 4))
def test_saved_and_read_back_it_goes_on_to_the_last_bit(run, cut):
    _, batches = run
    names = (*BUILT_IN, "log_loss")

    def feed(scores, batches):
        out = []
        for y, predicted in batches:
            classes = np.unique(np.concatenate([y, predicted]))
            P = np.full((len(y), len(classes)), 1.0 / max(len(classes), 1))
            out.append(list(scores.update(y, predicted, P, classes).values()))
        return out

    scores, through = Scores(names), Scores(names)
    feed(scores, batches)
    feed(through, batches[:cut])
    again = Scores.from_state(through.state(), names)
    through.matrix[:] = -1  # what was handed out is a copy
    feed(again, batches[cut:])
    np.testing.assert_array_equal(list(again.total.values()), list(scores.total.values()))
    np.testing.assert_array_equal(again.matrix, scores.matrix)
    if scores.classes_ is not None:
        np.testing.assert_array_equal(again.classes_, scores.classes_)
        assert again.classes_.dtype == scores.classes_.dtype


@pytest.mark.parametrize("classes", [None, ["ja", "nein", "vielleicht"], [1, 2]])
def test_its_state_lives_in_a_file(tmp_path, classes):
    scores = Scores(("accuracy", "f1", "matthews_corrcoef"), classes=classes)
    y = np.array(["nein", "ja", "ja", "nein"]) if classes != [1, 2] else np.array([1, 2, 2, 1])
    scores.update(y, np.roll(y, 1))
    write_state(tmp_path / "scores", {}, scores.state())
    _, arrays = read_state(tmp_path / "scores")
    again = Scores.from_state(arrays, ("accuracy", "f1", "matthews_corrcoef"))
    assert again.total == scores.total
    for one in (scores, again):
        if classes is None:
            one.update(np.array(["oder"]), np.array(["ja"]))
        else:
            with pytest.raises(ValueError, match=r"not in classes="):
                one.update(np.array([9]), y[:1])
    assert again.total == scores.total


def test_a_state_of_other_scores_is_refused():
    state = Scores(("accuracy", "log_loss")).state()
    with pytest.raises(ValueError, match="Not the state of the scores accuracy: it has 1 sums"):
        Scores.from_state(state, ("accuracy",))
    with pytest.raises(ValueError, match=r"matrix of shape \(2, 3\) for 0 classes"):
        Scores.from_state(Scores().state() | {"matrix": np.zeros((2, 3))})


# --- probabilities ------------------------------------------------------------------------------


@given(
    n_classes=st.integers(2, 5),
    n_rows=st.integers(1, 20),
    seed=st.integers(0, 2**16),
    sure=st.booleans(),
)
def test_log_loss_is_scikit_learn_s_with_certainties_too(n_classes, n_rows, seed, sure):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    P = np.eye(n_classes)[rng.integers(n_classes, size=n_rows)] if sure else None
    P = rng.dirichlet(np.ones(n_classes), n_rows) if P is None else P
    scores = Scores(("log_loss",), classes=range(n_classes))
    assert scores.needs_probabilities
    halves = [slice(None, n_rows // 2), slice(n_rows // 2, None)]
    for rows in halves:
        found = scores.update(y[rows], y[rows], P[rows])["log_loss"]
        if len(y[rows]):
            wanted = reference.log_loss(y[rows], P[rows], labels=range(n_classes))
            np.testing.assert_allclose(found, wanted, rtol=1e-12)
        else:
            assert np.isnan(found)
    wanted = reference.log_loss(y, P, labels=range(n_classes))
    np.testing.assert_allclose(scores.total["log_loss"], wanted, rtol=1e-12)


def test_the_columns_are_those_of_the_predictor_in_its_order():
    scores = Scores(("accuracy", "log_loss"))
    y = np.array(["c", "a", "b"])
    P = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    found = scores.update(y, np.array(["a", "c", "c"]), P, columns=["c", "a"])["log_loss"]
    # The predictor has never heard of b.
    wanted = -np.log([0.9, 0.8, np.finfo(float).eps]).mean()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_probabilities_are_asked_for_where_they_are_needed():
    assert not Scores(BUILT_IN).needs_probabilities
    assert not Scores(("f1_macro", reference.hamming_loss)).needs_probabilities
    assert Scores(("accuracy", "roc_auc")).needs_probabilities
    for name in ("log_loss", "roc_auc"):
        with pytest.raises(ValueError, match=f"{name} needs probabilities"):
            Scores((name,)).update([0, 1], [0, 1])


@pytest.mark.parametrize(
    ("P", "message"),
    [
        ([[0.5, 0.5]], "2 rows and 2 classes have the shape"),
        ([[0.5, 0.5], [0.5, np.nan]], "between 0 and 1"),
        ([[0.5, 0.5], [-0.5, 1.5]], "between 0 and 1"),
    ],
)
def test_what_are_no_probabilities_of_these_rows_is_refused(P, message):
    scores = Scores(("log_loss",))
    with pytest.raises(ValueError, match=message):
        scores.update([0, 1], [0, 1], P)
    assert scores.classes_ is None
    assert scores.matrix.size == 0


# --- what is not built in -----------------------------------------------------------------------


def two_classes(seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1.0, 1.0], n_rows)
    return rng.integers(2, size=n_rows), P.argmax(axis=1), P


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("matthews_corrcoef", lambda y, p, P: reference.matthews_corrcoef(y, p)),
        ("f1_weighted", lambda y, p, P: reference.f1_score(y, p, average="weighted")),
        ("roc_auc", lambda y, p, P: reference.roc_auc_score(y, P[:, 1])),
        ("neg_log_loss", lambda y, p, P: -reference.log_loss(y, P)),
        ("average_precision", lambda y, p, P: reference.average_precision_score(y, P[:, 1])),
        (reference.cohen_kappa_score, lambda y, p, P: reference.cohen_kappa_score(y, p)),
        (
            reference.make_scorer(reference.fbeta_score, beta=2.0),
            lambda y, p, P: reference.fbeta_score(y, p, beta=2.0),
        ),
        (lambda y, p: np.mean(y + p), lambda y, p, P: np.mean(y + p)),
    ],
)
def test_scorers_of_scikit_learn_and_functions_are_taken_as_they_are(metric, wanted):
    y, predicted, P = two_classes()
    scores = Scores(["accuracy", metric])
    values = []
    for rows in (slice(0, 20), slice(20, 60)):
        found = list(scores.update(y[rows], predicted[rows], P[rows]).values())
        values.append(wanted(y[rows], predicted[rows], P[rows]))
        np.testing.assert_allclose(found[1], values[-1], rtol=1e-12)
    assert found[0] == (y == predicted)[20:].mean()
    total = list(scores.total.values())[1]
    np.testing.assert_allclose(total, (20 * values[0] + 40 * values[1]) / 60, rtol=1e-12)


def test_batches_in_which_a_scorer_says_nothing_are_left_out_of_its_mean():
    y, predicted, P = two_classes()
    scores = Scores(["roc_auc"])
    value = scores.update(y, predicted, P)["roc_auc"]
    assert np.isnan(scores.update([1, 1], [1, 1], P[:2])["roc_auc"])
    assert scores.total["roc_auc"] == value


def test_a_function_does_not_pass_for_a_built_in_score():
    def f1(y, predicted):
        return 7.0

    with pytest.raises(ValueError, match="'f1' is a built-in score"):
        Scores([f1])


def test_names_go_by_the_order_given_and_functions_by_their_own():
    scores = Scores(("f1", reference.zero_one_loss, "accuracy"))
    assert scores.names == ("f1", "zero_one_loss", "accuracy")
    assert list(scores.update([0, 1], [0, 1])) == ["f1", "zero_one_loss", "accuracy"]
    assert list(scores.total) == ["f1", "zero_one_loss", "accuracy"]


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ("accuracy", TypeError, r"a single one is \('accuracy',\)"),
        (("acuracy",), ValueError, "There is no score 'acuracy'"),
        (("f1", "f1"), ValueError, "Two scores have the same name: f1, f1"),
    ],
)
def test_scores_that_cannot_be_are_refused(names, error, message):
    with pytest.raises(error, match=message):
        Scores(names)


# --- labels -------------------------------------------------------------------------------------


def test_nothing_is_known_before_the_first_batch():
    assert np.isnan(list(Scores((*BUILT_IN, "log_loss")).total.values())).all()
    assert Scores().classes_ is None


@pytest.mark.parametrize(
    ("y", "predicted", "message"),
    [
        ([0, 1], [0], r"shapes are \(2,\) and \(1,\)"),
        ([[0, 1]], [[0, 1]], "one length"),
        ([0.0, np.nan], [0.0, 1.0], "y holds a missing label"),
        ([0.0, 1.0], [np.nan, 1.0], "predicted holds a missing label"),
        (np.array(["a", None]), np.array(["a", "b"]), "y holds a missing label"),
        ([0, 1], ["0", "1"], "text and numbers"),
    ],
)
def test_a_batch_that_cannot_be_scored_changes_nothing(y, predicted, message):
    scores = Scores(BUILT_IN)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            scores.update(y, predicted)
        assert scores.classes_ is None or len(scores.classes_) == 2
        before = scores.matrix.copy()
        scores.update([0, 1, 1], [0, 1, 0])
    assert scores.matrix.sum() == before.sum() + 3 == 6


def test_a_missing_label_of_pandas_is_one_too():
    pd = pytest.importorskip("pandas")
    for missing in (pd.NA, pd.NaT):
        with pytest.raises(ValueError, match="y holds a missing label"):
            Scores().update(np.array(["a", missing], dtype=object), ["a", "a"])


@pytest.mark.parametrize("side", ["y", "predicted"])
def test_another_label_than_the_given_ones_is_an_error(side):
    scores = Scores(classes=["no", "yes"])
    batch = {"y": ["no"], "predicted": ["no"], side: ["maybe"]}
    with pytest.raises(ValueError, match=rf"{side} holds the label 'maybe', which is not in clas"):
        scores.update(**batch)


def test_what_the_caller_passed_stays_as_it_was():
    y, predicted, P = two_classes()
    copies = y.copy(), predicted.copy(), P.copy()
    for array in (y, predicted, P):
        array.flags.writeable = False
    Scores((*BUILT_IN, "log_loss")).update(y, predicted, P)
    for array, copy in zip((y, predicted, P), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_hundred_classes_and_labels_as_objects():
    rng = np.random.default_rng(0)
    y, predicted = (np.array([f"c{i}" for i in rng.integers(100, size=500)]) for _ in range(2))
    scores = Scores(BUILT_IN)
    scores.update(y.astype(object), predicted)
    assert_same(scores.total, expected(y, predicted, np.unique([y, predicted])))
