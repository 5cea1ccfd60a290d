"""Evaluation where columns come and go: records, totals and runs go by one book of names."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires import FIRES, OnlinePipeline, stability
from fires.core.named import NamedRows, RunNames
from fires.core.state import read_state, write_state
from fires.evaluation import prequential
from fires.predictors import Perceptron
from fires.run.features import alarm_rows, feature_rows
from fires.run.folder import RunFolder
from fires.run.run import Run
from fires.run.totals import RunTotals
from fires.streams.base import Batch, Position, Schema


class Changing:
    """Four columns at a time, of which the middle ones matter; one leaves every ten batches."""

    schema = Schema(("c0", "c1", "c2", "c3"), "y")
    is_open = True

    def __init__(self, n_batches=60, first=0, returns=False):
        self.n_batches, self.first, self.returns = n_batches, first, returns

    def batches(self, batch_size=50):
        rng = np.random.default_rng(0)
        for i in range(self.n_batches):
            shift = (i // 10) % 2 if self.returns else i // 10
            names = tuple(f"c{shift + j}" for j in range(4))
            X = rng.normal(size=(batch_size, 4))
            y = np.where(X[:, 1] - X[:, 2] > 0, "up", "down")
            if i >= self.first:
                yield Batch(X, y, Position(rows=(i + 1) * batch_size), names=names)


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=12))
def test_places_in_the_run_go_by_name_whatever_the_selector_forgets(sets):
    names, known = RunNames(), []
    for there in sets:
        # Those that are not there are forgotten now and then; new ones come last.
        known = [name for name in known if name in there or name < "e"]
        known += sorted(there - set(known))
        names.follow(known)
        places = names.of_run(np.arange(len(known)))
        assert [names[place] for place in places.tolist()] == known
        assert_array_equal(names.of_selector(places), np.arange(len(known)))
        gone = [i for i, name in enumerate(names) if name not in known]
        assert (names.of_selector(np.array(gone, dtype=int)) == -1).all()
        assert np.isnan(names.spread(np.ones(len(known)))[gone]).all()


def test_steps_tell_of_names_and_stability_is_over_those_present():
    names = RunNames()
    pipeline = OnlinePipeline(FIRES(2, columns="open", forget_after=800), Perceptron())
    sets, there, scores = [], [], []
    stream = Changing()
    for step, batch in zip(
        prequential(stream, pipeline, batch_size=50, names=names, window=5),
        stream.batches(),
        strict=True,
    ):
        sets.append({names[place] for place in step.selected.tolist()})
        there.append(set(batch.names) | sets[-1])
        assert sets[-1] == set(pipeline.selector.get_feature_names_out())
        union = sorted(set().union(*there[-5:]))
        masks = [[name in one for name in union] for one in sets[-5:]]
        assert_array_equal(step.stability, stability(masks))
        assert step.n_present == len(union)
        assert step.as_row()["present"] == len(union)
        scores.append(step.scores["accuracy"])
    assert list(names) == [f"c{j}" for j in range(9)]
    # Every ten batches others matter; a change within 500 rows of an alarm is followed later.
    assert [sets[i] for i in (29, 39, 49)] == [{"c3", "c4"}, {"c4", "c5"}, {"c5", "c6"}]
    assert len(pipeline.selector.feature_names_in_) < 9
    assert np.nanmean(scores) > 0.7  # what matters changes sides every ten batches


def test_frames_and_dicts_go_through_the_loop_too():
    def rows():
        for batch in Changing(20).batches():
            X = [dict(zip(batch.names, row, strict=True)) for row in batch.X.tolist()]
            yield X, batch.y

    named = list(prequential(Changing(20), FIRES(2, columns="open"), Perceptron(), batch_size=50))
    dicts = list(prequential(rows(), FIRES(2, columns="open"), Perceptron()))
    for one, other in zip(named, dicts, strict=True):
        assert_array_equal(one.selected, other.selected)
        assert one.scores["accuracy"] == other.scores["accuracy"] or one.index == 0
        assert_array_equal(one.stability, other.stability)


def test_weights_are_in_the_order_of_the_run():
    names = RunNames()
    selector = FIRES(2, columns="open", forget_after=600)
    steps = prequential(Changing(), selector, batch_size=50, names=names, keep_weights=True)
    *_, last = steps
    assert len(last.weights) == len(names) == 9
    known = selector.feature_names_in_.tolist()
    assert_array_equal(np.isnan(last.weights), [name not in known for name in names])
    assert_array_equal(last.weights[names.places(known)], selector.weights_)


def test_late_labels_need_fixed_columns():
    with pytest.raises(ValueError, match="label_delay requires fixed columns"):
        prequential(Changing(), FIRES(2, columns="open"), label_delay=1)


def test_totals_grow(tmp_path):
    totals, names = RunTotals(None), RunNames()
    stream = prequential(
        Changing(), FIRES(2, columns="open"), batch_size=50, names=names, window=totals.window
    )
    sets = []
    for step in stream:
        totals.add(step)
        sets.append(step.selected)
        if step.index == 30:
            write_state(tmp_path / "totals", *totals.saved())
            before = RunTotals.from_saved(*read_state(tmp_path / "totals"))
            assert_array_equal(before.share_selected, totals.share_selected)
            assert before.window.value == totals.window.value
    share = [np.mean([place in one for one in sets]) for place in range(len(names))]
    assert_array_equal(totals.share_selected, share[: len(totals.share_selected)])


def made(forget_after):
    selector = FIRES(2, columns="open", forget_after=forget_after)
    return Run(OnlinePipeline(selector, Perceptron()), 4)


@pytest.mark.parametrize("forget_after", [None, 700])
@pytest.mark.parametrize("returns", [False, True])
def test_a_run_goes_on_where_it_was(tmp_path, forget_after, returns):
    whole, half = made(forget_after), made(forget_after)
    steps = list(whole.steps(Changing(returns=returns), 50))
    going = half.steps(Changing(returns=returns), 50)
    for _ in range(33):
        next(going)
    write_state(tmp_path / "run", *half.saved())
    again = Run.from_saved(*read_state(tmp_path / "run"))
    rest = list(again.steps(Changing(first=33, returns=returns), 50))
    for one, other in zip(rest, steps[33:], strict=True):
        row, then = one.as_row(), other.as_row()
        assert {k: v for k, v in row.items() if "seconds" not in k} == {
            k: v for k, v in then.items() if "seconds" not in k
        }
    assert list(again.names) == list(whole.names)
    assert set(again.totals.baselines) == {"majority"}
    rows = feature_rows(again.pipeline.selector, again.names, again.totals)
    assert rows == feature_rows(whole.pipeline.selector, whole.names, whole.totals)
    alarms = alarm_rows(again.pipeline.selector, again.names, again.totals)
    assert all(set(one.get("left", ())) <= set(again.names) for one in alarms)


def test_the_folder_knows_all_names_and_which_are_absent(tmp_path):
    names = RunNames()
    selector = FIRES(2, columns="open", forget_after=1200)
    run = Run(OnlinePipeline(selector, Perceptron()), 4, names)
    with RunFolder(tmp_path / "run") as folder:
        folder.begin("", {"settings": {}})
        folder.start(names)
        assert json.loads((tmp_path / "run" / "names.json").read_text()) == []
        for step in run.steps(Changing(), 50):
            folder.add(step, run.pipeline)
            written = json.loads((tmp_path / "run" / "names.json").read_text())
            assert written == list(names)
        folder.finish(run.pipeline, names, run.totals, {"settings": {}})
    head, *lines = (tmp_path / "run" / "features.csv").read_text().splitlines()
    rows = [dict(zip(head.split(","), line.split(","), strict=True)) for line in lines]
    assert {row["feature"] for row in rows} == set(names)
    by_name = {row["feature"]: row for row in rows}
    assert {name for name in names if by_name[name]["absent"] == "True"} == {
        *selector.absent_,
        *(name for name in names if name not in selector.feature_names_in_),
    }
    forgotten = [row for row in rows if not row["rank"]]
    assert forgotten
    assert all(row["selected"] == "False" and not row["importance"] for row in forgotten)
    assert float(by_name["c1"]["share_selected"]) > 0.1
    steps = list(map(json.loads, (tmp_path / "run" / "steps.jsonl").read_text().splitlines()))
    assert all(len(step["importance"]) == 2 for step in steps)
    last = run.pipeline.selector
    own = [last.feature_names_in_.tolist().index(names[j]) for j in steps[-1]["selected"]]
    np.testing.assert_allclose(steps[-1]["importance"], last.importances_[own], rtol=1e-5)


def test_named_rows_are_what_the_loop_makes_of_named_batches():
    pipeline = OnlinePipeline(FIRES(2, columns="open"), Perceptron())
    for batch in Changing(15).batches():
        pipeline.partial_fit(NamedRows(batch.X, batch.names), batch.y)
    other = OnlinePipeline(FIRES(2, columns="open"), Perceptron())
    *_, _ = prequential(Changing(15), other, batch_size=50)
    assert_array_equal(other.selector.importances_, pipeline.selector.importances_)
    assert_array_equal(other.predictor.coef_, pipeline.predictor.coef_)


def test_a_batch_without_a_label_leaves_everything_as_it_was():
    batches = list(Changing(40).batches())

    def pairs(unlabelled):
        for i, batch in enumerate(batches):
            X = NamedRows(batch.X, batch.names)
            if i in unlabelled:  # with columns that nobody has seen, and others forgotten
                other = NamedRows(batch.X, ("new", *batch.names[1:]))
                yield other, np.full(len(batch.y), None)
            yield X, batch.y

    settings = {"columns": "open", "forget_after": 500}
    plain = list(prequential(pairs(()), FIRES(2, **settings), Perceptron()))
    mixed = list(prequential(pairs((10, 20, 31)), FIRES(2, **settings), Perceptron()))
    learnt = [step for step in mixed if step.scores["accuracy"] == step.scores["accuracy"]]
    for one, other in zip(plain[1:], learnt, strict=True):
        assert_array_equal(one.selected, other.selected)
        assert one.scores == other.scores
