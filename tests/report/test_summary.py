"""The summary of a run: every number against a plain recomputation from its files."""

import csv
import itertools
import json
import math
import os
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.report import runs

from fires.core.errors import InputError
from fires.core.state import read_state, write_state
from fires.metrics import stability_interval
from fires.report.page import folder_data
from fires.report.records import Follower, read_result, rounded
from fires.report.summary import Summary, summarise
from fires.run.locking import FolderLock
from fires.run.records import read_snapshot, snapshots


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def steps_of(run):
    return lines_of(run / "steps.jsonl")


def facts_of(run):
    return json.loads((run / "run.json").read_bytes())


def near(value, wanted):
    """Whether a number is the one wanted, to four digits; None stands for none."""
    if wanted is None or not math.isfinite(wanted):
        return value is None
    return value is not None and math.isclose(value, wanted, rel_tol=0.6e-3, abs_tol=1e-12)


def all_near(values, wanted):
    return len(values) == len(wanted) and all(map(near, values, wanted))


def spans_of(steps, most):
    """The steps in spans of a power of two."""
    width = 1
    while -(-len(steps) // width) > most:
        width *= 2
    return [steps[start : start + width] for start in range(0, len(steps), width)]


def weighted(pairs):
    """The mean of values that are there, by their weights."""
    known = [(value, weight) for value, weight in pairs if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if known else None


EVERY = pytest.mark.parametrize("make", runs.ALL.values(), ids=runs.ALL)
WITH_STEPS = pytest.mark.parametrize(
    "make",
    [make for name, make in runs.ALL.items() if name != "no step"],
    ids=[name for name in runs.ALL if name != "no step"],
)


@EVERY
def test_every_kind_of_run_is_summed_up_as_json_of_four_digits(make):
    summary = summarise(make())
    json.dumps(summary, allow_nan=False)
    assert list(summary) == [
        *("version", "run", "counts", "sentence", "now", "rank_before_row", "timeline", "members"),
        *("ranks", "relations", "scores", "stability", "alarms", "events", "drift", "picture"),
        *("twins", "groups", "doubts", "health"),
    ]

    def check(value):
        if isinstance(value, float):
            assert value == float(f"{value:.4g}")
        elif isinstance(value, dict):
            list(map(check, value.values()))
        elif isinstance(value, list):
            list(map(check, value))

    check({name: part for name, part in summary.items() if name != "run"})
    assert len({len(column) for column in summary["now"].values()}) == 1
    assert len(summary["now"]["place"]) <= 2_000
    for table in ("members", "ranks"):
        assert len(summary[table]["places"]) == len(summary[table]["names"])


@WITH_STEPS
def test_counts_are_those_of_the_records(make):
    run = make()
    steps, counts = steps_of(run), summarise(run)["counts"]
    assert counts["rows"] == steps[-1]["rows"] == sum(step["n_rows"] for step in steps)
    assert counts["batches"] == len(steps)
    sets = [step["selected"] for step in steps]
    assert counts["changes"] == sum(a != b for a, b in itertools.pairwise(sets))
    assert counts["bad"] == len(lines_of(run / "quarantine.ndjson"))
    assert counts["missing"] == steps[-1].get("missing", 0)
    assert counts["alarms"] == sum(len(step.get("alarms", ())) for step in steps)
    if (run / "features.csv").exists():
        features = rows_of(run / "features.csv")
        assert counts["features"] == len(features)
        assert counts["selected"] == sum(row["selected"] == "True" for row in features)
        above = [row["above_noise"] == "True" for row in features if row["above_noise"]]
        assert counts["above_noise"] == (sum(above) if above else None)


@WITH_STEPS
def test_scores_over_time_keep_least_and_greatest(make):
    run = make()
    summary, steps = summarise(run)["scores"], steps_of(run)
    spans = spans_of(steps, 256)
    assert summary["rows"] == [span[-1]["rows"] for span in spans]
    assert summary["n_rows"] == [sum(step["n_rows"] for step in span) for span in spans]
    name = summary["name"]
    assert name == ("r2" if "r2" in steps[0]["scores"] else "accuracy")
    assert set(summary["series"]) == {"selected", *steps[-1]["baselines"]}
    for who, series in summary["series"].items():
        values = [
            [
                (step["scores"] if who == "selected" else step["baselines"][who])[name]
                for step in span
            ]
            for span in spans
        ]
        known = [[value for value in span if value is not None] for span in values]
        assert all_near(series["min"], [min(span, default=None) for span in known])
        assert all_near(series["max"], [max(span, default=None) for span in known])
        means = [
            weighted((v, step["n_rows"]) for v, step in zip(vs, span, strict=True))
            for vs, span in zip(values, spans, strict=True)
        ]
        assert all_near(series["mean"], means)


@WITH_STEPS
def test_total_scores_are_those_of_the_run_or_the_means_that_are_exact(make):
    run = make()
    summary, facts = summarise(run)["scores"], json.loads((run / "run.json").read_text())
    if "scores" in facts:
        for score, value in facts["scores"].items():
            assert near(summary["total"][score]["selected"], value)
            for who, one in facts["baselines"].items():
                assert near(summary["total"][score][who], one["scores"][score])
                assert summary["beaten"].get(who, {}) == one["beaten"]
    else:
        steps = steps_of(run)
        wanted = weighted((step["scores"]["accuracy"], step["n_rows"]) for step in steps)
        assert near(summary["total"]["accuracy"]["selected"], wanted)
        assert summary["total"]["balanced_accuracy"]["selected"] is None
        assert summary["beaten"] == {}


@WITH_STEPS
def test_stability_has_the_interval_of_the_last_ten_sets(make):
    run = make()
    steps, summary = steps_of(run), summarise(run)["stability"]
    n_features = len(json.loads((run / "names.json").read_text()))
    masks = np.zeros((len(steps), n_features), dtype=bool)
    for mask, step in zip(masks, steps, strict=True):
        mask[step["selected"]] = True
    ends = np.cumsum([len(span) for span in spans_of(steps, 256)])
    wanted = []
    for end in ends:
        window = masks[max(end - 10, 0) : end]
        if "present" in steps[end - 1]:  # columns come and go: over those that were there
            met = window[:, window.any(axis=0)]
            window = np.pad(met, ((0, 0), (0, steps[end - 1]["present"] - met.shape[1])))
        wanted.append(stability_interval(window))
    assert all_near(summary["low"], [one.low for one in wanted])
    assert all_near(summary["high"], [one.high for one in wanted])
    if math.isnan(wanted[-1].value):
        assert summary["now"] is None
    else:
        assert all_near(summary["now"], [wanted[-1].value, wanted[-1].low, wanted[-1].high])
        assert near(summary["now"][0], steps[-1]["stability"])
    assert near(summary["total"], weighted((step["stability"], 1) for step in steps))


@WITH_STEPS
def test_members_are_the_selected_features_and_those_selected_longest(make):
    run = make()
    steps, members = steps_of(run), summarise(run)["members"]
    spans = spans_of(steps, 200)
    assert members["rows"] == [span[-1]["rows"] for span in spans]
    times = Counter(place for step in steps for place in step["selected"])
    now = set(steps[-1]["selected"])
    assert set(members["places"][: len(now)]) == now
    rest = members["places"][len(now) :]
    assert len(members["places"]) == min(len(times), 60)
    assert [times[place] for place in rest] == sorted(
        (n for place, n in times.items() if place not in now), reverse=True
    )[: len(rest)]
    for place, share, importance in zip(
        members["places"], members["share"], members["importance"], strict=True
    ):
        for span, part, mean in zip(spans, share, importance, strict=True):
            n_in = sum(place in step["selected"] for step in span)
            assert part == rounded(n_in / len(span), 2)
            known = [
                dict(zip(step["selected"], step["importance"], strict=True)).get(place)
                for step in span
                if "importance" in step
            ]
            assert near(mean, weighted((value, 1) for value in known))


@WITH_STEPS
def test_the_table_is_the_result_or_the_newest_that_is_known(make):
    run = make()
    summary, steps = summarise(run), steps_of(run)
    now, names = summary["now"], json.loads((run / "names.json").read_text())
    assert now["name"] == [names[place] for place in now["place"]]
    selected = {place for place, is_in in zip(now["place"], now["selected"], strict=True) if is_in}
    assert selected == set(steps[-1]["selected"])
    known = [rank for rank in now["rank"] if rank is not None]
    assert known == sorted(known)
    times = Counter(place for step in steps for place in step["selected"])
    assert all_near(now["share"], [times[place] / len(steps) for place in now["place"]])
    for place, since in zip(now["place"], now["since"], strict=True):
        was_in = [place in step["selected"] for step in steps]
        if was_in[-1]:
            first = len(was_in) - ([*was_in[::-1], False]).index(False)
            assert since == steps[first]["rows"]
        else:
            assert since is None
    alarms = Counter(a["feature"] for step in steps for a in step.get("alarms", ()))
    assert now["alarms"] == [alarms[place] for place in now["place"]]
    if (run / "features.csv").exists() and not summary["groups"]:
        rows = rows_of(run / "features.csv")[: len(now["place"])]
        assert now["name"] == [row["feature"] for row in rows]
        assert now["rank"] == [int(row["rank"]) for row in rows]
        for title in ("importance", "uncertainty", "low", "high"):
            wanted = [float(row[title]) if row[title] else None for row in rows]
            assert all_near(now[title], wanted)
        told = {"True": True, "False": False, "": None}
        assert now["above_noise"] == [told[row["above_noise"]] for row in rows]


def test_before_the_end_the_table_is_the_last_snapshot_and_newer_records():
    run = runs.that_was_killed()
    now = summarise(run)["now"]
    facts, arrays = read_snapshot(list(snapshots(run))[-1][1])
    assert facts["index"] == len(steps_of(run)) - 1
    at = np.argsort(arrays["rank"])
    assert now["place"] == arrays["features"][at].tolist()
    assert all_near(now["importance"], arrays["importance"][at].tolist())
    assert now["above_noise"] == arrays["significant"][at].tolist()
    ended = summarise(runs.of_classes())["now"]
    assert {name: ended[name] for name in now} == now


def test_newer_importances_of_selected_features_come_from_records(tmp_path):
    run = runs.copy_of(runs.that_was_killed(), tmp_path / "run")
    (run / "snapshots" / "000000000019.safetensors").unlink()
    last = steps_of(run)[-1]
    now = summarise(run)["now"]
    table = dict(zip(now["place"], now["importance"], strict=True))
    assert all_near([table[place] for place in last["selected"]], last["importance"])


@WITH_STEPS
def test_the_timeline_is_that_of_the_snapshots(make):
    run = make()
    summary = summarise(run)
    line = summary["timeline"]
    shots = [read_snapshot(path) for _, path in snapshots(run)]
    assert line["rows"] == [facts["rows"] for facts, _ in shots]
    assert line["batches"] == [facts["index"] for facts, _ in shots]
    assert {0, len(shots) - 1} <= set(line["coarse"]) <= set(range(len(shots)))
    n_selected = len(steps_of(run)[-1]["selected"])
    first = [one["place"] for one in line["series"][:n_selected]]
    assert first == [
        place
        for place, is_in in zip(summary["now"]["place"], summary["now"]["selected"], strict=True)
        if is_in
    ]
    n_fine = max(30, 4_000 // max(len(shots), 1))
    assert all(one.get("coarse", False) == (i >= n_fine) for i, one in enumerate(line["series"]))
    for one in [*line["series"][:30], *line["series"][n_fine : n_fine + 10]]:
        for name in ("importance", "uncertainty"):
            values = [
                dict(zip(arrays["features"].tolist(), arrays[name].tolist(), strict=True)).get(
                    one["place"]
                )
                for _, arrays in shots
            ]
            wanted = [values[at] for at in line["coarse"]] if "coarse" in one else values
            assert all_near(one[name], wanted)


@WITH_STEPS
def test_ranks_are_of_those_among_the_best_ten_at_any_time(make):
    run = make()
    summary = summarise(run)["ranks"]
    shots = {
        facts["rows"]: arrays for facts, arrays in (read_snapshot(p) for _, p in snapshots(run))
    }
    assert len(summary["rows"]) == min(len(shots), 40)
    tops = [
        set(shots[row]["features"][np.argsort(shots[row]["rank"])[:10]].tolist())
        for row in summary["rows"]
    ]
    assert set(summary["places"][: len(tops[-1])]) == tops[-1]
    assert set(summary["places"]) <= set.union(*tops)
    assert len(summary["places"]) == min(len(set.union(*tops)), 20)
    for place, line in zip(summary["places"], summary["rank"], strict=True):
        for row, rank in zip(summary["rows"], line, strict=True):
            ranks = dict(
                zip(shots[row]["features"].tolist(), shots[row]["rank"].tolist(), strict=True)
            )
            assert rank == ranks.get(place)


def test_the_rank_before_is_that_of_a_tenth_of_the_run_ago():
    run = runs.of_drift()
    summary = summarise(run)
    row = summary["rank_before_row"]
    _, arrays = next(
        shot for shot in map(read_snapshot, dict(snapshots(run)).values()) if shot[0]["rows"] == row
    )
    assert 0.8 * summary["counts"]["rows"] < row <= 0.9 * summary["counts"]["rows"]
    ranks = dict(zip(arrays["features"].tolist(), arrays["rank"].tolist(), strict=True))
    assert summary["now"]["rank_before"] == [ranks[place] for place in summary["now"]["place"]]
    assert summarise(runs.of_one_step())["rank_before_row"] is None


def test_drift_is_how_far_columns_moved_between_two_snapshots():
    run = runs.of_drift()
    summary = summarise(run)
    drift = summary["drift"]
    shots = [read_snapshot(path) for _, path in snapshots(run)]
    then = next(shot for shot in shots if shot[0]["rows"] >= 2_000)
    assert (drift["from_row"], drift["to_row"]) == (then[0]["rows"], shots[-1][0]["rows"])
    assert drift["name"][0] == "x7"
    assert sorted(drift["drift"], reverse=True) == drift["drift"]
    for i, place in enumerate(drift["place"]):
        (m0, s0), (m1, s1) = (
            (a["mean"][place], a["deviation"][place]) for _, a in (then, shots[-1])
        )
        moved = (m1 - m0) / math.sqrt((s0**2 + s1**2) / 2)
        assert near(drift["moved"][i], moved)
        assert near(drift["spread"][i], s1 / s0)
        assert near(drift["drift"][i], max(abs(moved), abs(math.log(s1 / s0))))
    table = dict(zip(summary["now"]["place"], summary["now"]["drift"], strict=True))
    assert [table[place] for place in drift["place"]] == drift["drift"]
    assert summarise(runs.of_one_step())["drift"] is None
    assert summarise(runs.of_many_features())["drift"] is None  # rows that are nearly empty


def test_alarms_have_names_and_what_came_after_them():
    run = runs.of_drift()
    summary = summarise(run)
    told = json.loads((run / "run.json").read_text())["alarms"]
    assert [alarm["row"] for alarm in summary["alarms"]] == [alarm["row"] for alarm in told]
    for alarm, wanted in zip(summary["alarms"], told, strict=True):
        assert alarm["feature"] == wanted["feature"]
        assert near(alarm["strength"], wanted["strength"])
        assert {name for name in wanted if name in ("came", "left", "before", "after")} <= set(
            alarm
        )


def test_alarms_about_one_event_are_one_and_the_strongest_comes_first(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs.of_drift(), run)
    lines = (run / "steps.jsonl").read_text().splitlines()
    steps = [json.loads(line) for line in lines]
    alarms = {5: (None, 15.0), 9: (3, 5.5), 30: (2, 12.0)}
    told = []
    for place, one in enumerate(steps):
        one.pop("alarms", None)
        if place in alarms:
            feature, strength = alarms[place]
            row = {"row": one["rows"], "batch": place, "feature": feature, "strength": strength}
            one["alarms"] = [row]
            told.append(row | {"feature": feature and f"x{feature}"})
    (run / "steps.jsonl").write_text("".join(json.dumps(one) + "\n" for one in steps))
    facts = json.loads((run / "run.json").read_text())
    told[2] |= {"came": ["x1"], "left": [], "flipped": ["x2"]}
    (run / "run.json").write_text(json.dumps(facts | {"alarms": told}))
    first, second = summarise(run)["events"]
    assert (first["severity"], first["features"], first["n_alarms"]) == ("strong", ["x2"], 1)
    assert (first["came"], first["left"], first["flipped"]) == (["x1"], [], ["x2"])
    assert (second["severity"], second["features"], second["n_alarms"]) == ("weak", ["x3"], 2)
    assert (second["row"], second["last_row"]) == (steps[5]["rows"], steps[9]["rows"])
    assert "came" not in second


def test_twins_that_the_run_has_left_out_are_told(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs.of_three_classes(), run)
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(facts | {"twins": {"x0": ["x1", "x3"]}}))
    told = [(twin["feature"], twin["of"]) for twin in summarise(run)["twins"]]
    assert told == [("copy", "x2"), ("x1", "x0"), ("x3", "x0")]


def test_a_column_of_several_features_is_a_group_and_a_copy_is_a_twin():
    run = runs.of_three_classes()
    summary = summarise(run)
    (group,) = summary["groups"]
    assert group["name"] == "town"
    assert all(name.startswith("town (") for name in group["features"])
    assert summary["twins"] == [{"feature": "copy", "of": "x2", "why": 'is "x2" on another scale'}]
    assert {"column": "copy", "kind": "copy", "why": 'is "x2" on another scale'} in summary[
        "doubts"
    ]
    now = summary["now"]
    kinds = dict(zip(now["name"], now["kind"], strict=True))
    assert kinds["x2"] == "number"
    assert {kinds[name] for name in group["features"]} == {"category"}
    assert set(now["class"]) <= {"low", "mid", "high"}
    assert summary["run"]["classes"] == ["high", "low", "mid"]


def test_beside_a_group_a_column_has_the_numbers_of_the_end_and_not_of_the_last_snapshot(tmp_path):
    run = runs.copy_of(runs.of_three_classes(), tmp_path / "run")
    whole = summarise(run)["now"]
    for path in sorted((run / "snapshots").iterdir())[-10:]:
        path.unlink()
    now = summarise(run)["now"]
    assert now["name"] == whole["name"]
    assert now["rank"] == whole["rank"] == list(range(1, len(now["rank"]) + 1))
    single = [i for i, name in enumerate(now["name"]) if not name.startswith("town (")]
    for key in ("importance", "uncertainty", "low", "high"):
        assert [now[key][i] for i in single] == [whole[key][i] for i in single]


def test_snapshots_of_earlier_versions_do_not_say_what_is_significant(tmp_path):
    run = runs.copy_of(runs.that_was_killed(), tmp_path / "run")
    for _, path in snapshots(run):
        facts, arrays = read_snapshot(path)
        write_state(path, facts, {name: of for name, of in arrays.items() if name != "significant"})
    whole, now = summarise(runs.that_was_killed()), summarise(run)
    assert set(whole["now"]["above_noise"]) == {True, False}
    assert set(now["now"]["above_noise"]) == {now["counts"]["above_noise"]} == {None}
    assert now["now"]["low"] == whole["now"]["low"]


def test_columns_are_told_apart_from_groups_whose_names_they_could_have(tmp_path):

    (tmp_path / "columns.csv").write_text(
        "name,kind,missing\na,number,0\na (b),number,0\nc,category,0.5\n"
    )
    result = read_result(tmp_path, ["a", "a (b)", "c (x)", "c (y)"], {})
    assert result.groups == {"c": [2, 3]}
    assert result.columns == ["a", "a (b)", "c", "c"]


def test_curves_and_pairs_over_time_are_those_of_snapshots_and_of_the_end():
    run = runs.of_relations()
    found, end = summarise(run)["relations"], facts_of(run)["relations"]
    assert [one["name"] for one in found["curves"]] == [one["feature"] for one in end["curves"]]
    for one, then in zip(found["curves"], end["curves"], strict=True):
        assert len(one["rows"]) == len(one["values"]) == len(one["effect"]) == 6
        assert one["rows"] == sorted(set(one["rows"]))
        assert one["rows"][-1] == 3_000
        assert all_near(one["effect"][-1], then["effect"])
        assert all_near(one["low"], then["low"])
        shots = {int(read_state(path)[0]["rows"]): path for _, path in snapshots(run)}
        first = read_state(shots[one["rows"][0]])[0]["relations"]["curves"]
        (before,) = [curve for curve in first if curve["feature"] == one["name"]]
        assert all_near(one["effect"][0], before["effect"])
    (pair,) = found["pairs"]
    found_in = [
        facts["rows"]
        for facts in (read_state(path)[0] for _, path in snapshots(run))
        if facts.get("relations", {}).get("pairs")
    ]
    assert pair["since"] == min(found_in)
    assert len(found_in) == (3_000 - pair["since"]) // 100 + 1  # it has never left
    now = summarise(run)["now"]
    low = dict(zip(now["name"], now["low"], strict=True))
    assert all(low[name] >= 0.0 for name in found["unsigned"])


def test_a_run_that_goes_on_shows_the_curves_of_its_last_snapshot(tmp_path):
    run = runs.copy_of(runs.of_relations(), tmp_path / "run")
    facts = facts_of(run)
    del facts["relations"]
    (run / "run.json").write_text(json.dumps(facts | {"status": "running"}))
    last = [read_state(path)[0] for _, path in snapshots(run)][-1]
    found = summarise(run)["relations"]
    assert [one["name"] for one in found["curves"]] == [
        one["feature"] for one in last["relations"]["curves"]
    ]
    assert {one["rows"][-1] for one in found["curves"]} == {last["rows"]}


def test_relations_of_another_form_are_damaged(tmp_path):
    run = runs.copy_of(runs.of_relations(), tmp_path / "run")
    _, path = [*snapshots(run)][-1]
    facts, arrays = read_state(path)
    facts["relations"]["curves"][0]["effect"] = "steep"
    write_state(path, facts, arrays)
    with pytest.raises(InputError, match="damaged: its relations"):
        summarise(run)


def test_a_picture_is_there_if_its_shape_fits(tmp_path):
    run = runs.of_pixels()
    summary = summarise(run)
    picture = summary["picture"]
    rows = {row["feature"]: float(row["importance"]) for row in rows_of(run / "features.csv")}
    assert all_near(picture["importance"], [rows[f"p{j}"] for j in range(784)])
    assert picture["selected"] == steps_of(run)[-1]["selected"]
    assert picture["shape"] == summary["run"]["shape"] == [28, 28]
    other = runs.copy_of(run, tmp_path / "run")
    for shape in (None, "28x27"):
        facts = json.loads((other / "run.json").read_text())
        facts["settings"]["shape"] = shape
        (other / "run.json").write_text(json.dumps(facts))
        assert summarise(other)["picture"] is None


def test_health_counts_bad_rows_by_their_reasons():
    run = runs.of_bad_rows()
    health = summarise(run)["health"]
    told = lines_of(run / "quarantine.ndjson")
    assert health["bad"]["count"] == len(told)
    counts = Counter(row["reason"] for row in told)
    assert [one["count"] for one in health["bad"]["reasons"]] == sorted(
        counts.values(), reverse=True
    )
    for one in health["bad"]["reasons"]:
        first = next(row for row in told if row["reason"] == one["reason"])
        assert one == {
            "reason": first["reason"],
            "count": counts[first["reason"]],
            "line": first["line"],
            "raw": first["raw"][:200],
        }
    facts = json.loads((run / "run.json").read_text())
    assert near(health["rows_per_second"], 2_000 / facts["seconds"])
    assert all(
        near(health["latency"][name], facts["latency"][name]) for name in ("p50", "p99", "max")
    )


def test_before_the_end_latency_is_that_of_the_records():
    run = runs.that_was_killed()
    took = [step["seconds_select"] + step["seconds_train"] for step in steps_of(run)]
    health = summarise(run)["health"]
    assert near(health["latency"]["max"], max(took))
    assert math.isclose(health["latency"]["p50"], sorted(took)[9], rel_tol=0.011)
    assert all_near(health["speed"]["seconds"], took)
    assert all_near(health["speed"]["max"], took)


def test_bytes_that_are_no_text_are_shown_as_they_are_written(tmp_path):
    run = runs.copy_of(runs.of_bad_rows(), tmp_path / "run")
    with (run / "quarantine.ndjson").open("a") as file:
        file.write('{"line": 9, "reason": "odd", "raw": "\\udcff"}\n')
    names = json.loads((run / "names.json").read_text())
    (run / "names.json").write_text(json.dumps(["\udcff", *names[1:]]))
    summary = summarise(run)
    json.dumps(summary, ensure_ascii=False).encode()
    assert summary["health"]["bad"]["reasons"][-1]["raw"] == "\\udcff"


# --- what state a run is in -----------------------------------------------------------------------


def test_the_state_of_a_run_is_told(tmp_path):
    assert summarise(runs.of_classes())["run"]["status"] == "ended"
    early = summarise(runs.that_ended_early())["run"]
    assert early["status"] == "ended early"
    assert "--max-bad" in early["reason"]
    for make, held in ((runs.that_was_killed, "running"), (runs.without_a_step, "waiting")):
        run = runs.copy_of(make(), tmp_path / held)
        assert summarise(run)["run"]["status"] == "killed"
        lock = FolderLock(run)
        try:
            assert summarise(run)["run"]["status"] == held
        finally:
            lock.release()


def test_what_is_known_of_the_run_itself():
    run = summarise(runs.of_numbers())["run"]
    assert (run["kind"], run["classes"], run["target"], run["model"]) == (
        "numbers",
        None,
        "label",
        "gaussian",
    )
    assert run["intervals"]
    assert not summarise(runs.as_published())["run"]["intervals"]
    killed = summarise(runs.that_was_killed())["run"]
    assert (killed["kind"], killed["classes"], killed["model"]) == ("classes", None, None)
    assert killed["sources"] == killed["settings"]["file"]
    assert summarise(runs.without_a_step())["run"]["kind"] is None


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"holds no run: it has no run\.json"):
        summarise(tmp_path)
    with pytest.raises(InputError, match="holds no run: it is not a folder"):
        summarise(tmp_path / "nothing")


def test_a_damaged_line_is_named(tmp_path):
    run = runs.copy_of(runs.that_was_killed(), tmp_path / "run")
    lines = (run / "steps.jsonl").read_text().splitlines(keepends=True)
    for damage in ("x\n", '{"rows": 4\n', "null\n", "[]\n"):
        (run / "steps.jsonl").write_text("".join([*lines[:4], damage, *lines[4:]]))
        summary = Summary(run)
        for _ in range(2):
            with pytest.raises(InputError, match=r"steps\.jsonl is damaged in line 5"):
                summary.refresh()


def test_files_of_two_runs_are_refused(tmp_path):
    run = runs.copy_of(runs.that_was_killed(), tmp_path / "run")
    (run / "names.json").write_text('["one"]')
    with pytest.raises(InputError, match="belong to different runs"):
        summarise(run)


def test_earlier_versions_of_the_records_are_read(tmp_path):
    run = runs.copy_of(runs.that_was_killed(), tmp_path / "run")
    for _, path in snapshots(run):
        facts, arrays = read_state(path)
        write_state(
            path, facts, {n: arrays[n] for n in arrays if n not in ("rank", "mean", "deviation")}
        )
    steps = [{n: v for n, v in step.items() if n != "missing"} for step in steps_of(run)]
    (run / "steps.jsonl").write_text("".join(json.dumps(step) + "\n" for step in steps))
    summary = summarise(run)
    assert summary["drift"] is None
    sizes = [abs(value) for value in summary["now"]["importance"]]
    assert sizes == sorted(sizes, reverse=True)
    assert summary["now"]["rank"] == list(range(1, len(sizes) + 1))


# --- following a run ------------------------------------------------------------------------------


def begun(make, path):
    """A copy of a run without its records, and these."""
    run = runs.copy_of(make(), path)
    text = (run / "steps.jsonl").read_bytes()
    (run / "steps.jsonl").unlink()
    return run, text


def steady(summary):
    """A summary but for the time that its files were written at."""
    told = summary.as_dict()
    run = {n: v for n, v in told["run"].items() if n not in ("updated", "seconds", "name")}
    health = {n: v for n, v in told["health"].items() if n != "rows_per_second"}
    return told | {"run": run, "health": health}


@pytest.fixture(scope="module")
def a_run_to_cut(tmp_path_factory):
    def killed():
        run = runs.copy_of(runs.of_drift(), tmp_path_factory.mktemp("cut") / "killed")
        facts = json.loads((run / "run.json").read_text())
        facts = {n: facts[n] for n in ("records", "fires", "started", "versions", "settings", "id")}
        (run / "run.json").write_text(json.dumps({"status": "running"} | facts))
        return run

    whole = killed()
    run, text = begun(lambda: whole, tmp_path_factory.mktemp("cut") / "run")
    summary = Summary(whole)
    summary.refresh()
    return run, text, steady(summary)


@settings(max_examples=8)
@given(cuts=st.lists(st.floats(0.0, 1.0), max_size=5))
def test_reading_in_pieces_gives_what_reading_at_once_gives(a_run_to_cut, cuts):
    run, text, wanted = a_run_to_cut
    (run / "steps.jsonl").unlink(missing_ok=True)
    summary = Summary(run)
    summary.refresh()
    for cut in [*sorted(cuts), 1.0]:
        (run / "steps.jsonl").write_bytes(text[: int(cut * len(text))])
        summary.refresh()
        json.dumps(summary.as_dict(), allow_nan=False)
    assert steady(summary) == wanted
    assert not summary.refresh()


@settings(max_examples=4)
@given(size=st.integers(4_000, 40_000))
def test_the_size_of_blocks_does_not_matter(a_run_to_cut, size):

    run, text, wanted = a_run_to_cut
    (run / "steps.jsonl").write_bytes(text)
    summary = Summary(run)
    summary._steps = Follower(run / "steps.jsonl", size)
    summary.refresh()
    assert steady(summary) == wanted


def test_a_last_line_that_is_not_whole_is_left_for_later(tmp_path):
    run, text = begun(runs.that_was_killed, tmp_path / "run")
    (run / "steps.jsonl").write_bytes(text[:-5])
    summary = Summary(run)
    assert summary.refresh()
    assert summary.as_dict()["counts"]["batches"] == 19
    with (run / "steps.jsonl").open("ab") as file:
        file.write(text[-5:])
    assert summary.refresh()
    assert summary.as_dict()["counts"]["batches"] == 20


def test_a_run_that_was_taken_up_again_is_read_anew(tmp_path):
    """Its file is cut back and written again, with other timings, maybe longer than it was."""
    run, text = begun(runs.that_was_killed, tmp_path / "run")
    lines = text.splitlines(keepends=True)
    again = [line.replace(b'"seconds_select": ', b'"seconds_select": 1') for line in lines]
    for then in (lines[:5], lines[:3] + again[3:8], lines[:3] + again[3:]):
        summary = Summary(run)
        (run / "steps.jsonl").write_bytes(b"".join(lines[:8]))
        summary.refresh()
        (run / "steps.jsonl").write_bytes(b"".join(then))
        assert summary.refresh()
        fresh = Summary(run)
        fresh.refresh()
        assert summary.as_dict() == fresh.as_dict()
        assert summary.as_dict()["counts"]["batches"] == len(then)


def test_another_run_in_the_folder_is_read_anew(tmp_path):
    run = runs.copy_of(runs.of_classes(), tmp_path / "run")
    summary = Summary(run)
    summary.refresh()
    shutil.rmtree(run)
    assert summary.as_dict()["counts"]["rows"] != 0
    runs.copy_of(runs.of_numbers(), run)
    assert summary.refresh()
    assert summary.as_dict() == summarise(run)


def test_snapshots_that_the_run_has_removed_are_forgotten(tmp_path):
    run = runs.copy_of(runs.that_was_killed(), tmp_path / "run")
    summary = Summary(run)
    summary.refresh()
    for index, path in snapshots(run):
        if index % 2:
            path.unlink()
    assert summary.refresh()
    assert summary.as_dict() == summarise(run)


def test_a_snapshot_ahead_of_the_records_waits_for_them(tmp_path):
    run, text = begun(runs.that_was_killed, tmp_path / "run")
    (run / "steps.jsonl").write_bytes(b"".join(text.splitlines(keepends=True)[:10]))
    assert max(summarise(run)["timeline"]["batches"]) == 9


def test_nothing_is_written_into_the_folder(tmp_path):
    run = runs.copy_of(runs.of_drift(), tmp_path / "run")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in run.rglob("*")}
    summarise(run)
    assert before == {
        path: (path.stat().st_mtime_ns, path.stat().st_size) for path in run.rglob("*")
    }
    assert not os.path.exists(run / ".lock")


def test_what_was_read_of_a_run_stays_when_its_folder_is_removed(tmp_path):
    run = runs.copy_of(runs.of_classes(), tmp_path / "run")
    summary = Summary(run)
    summary.refresh()
    before = summary.as_dict()
    shutil.rmtree(run)
    assert summary.refresh()
    assert not summary.refresh()
    after = summary.as_dict()
    assert after["run"].pop("status") == "gone"
    assert before["run"].pop("status") == "ended"
    assert after == before
    runs.copy_of(runs.of_drift(), run)
    assert summary.refresh()
    assert summary.as_dict() == summarise(run)


def test_runs_of_one_name_are_told_apart_by_where_they_are(tmp_path):
    folders = [
        runs.copy_of(runs.of_one_step(), tmp_path / day / "run") for day in ("monday", "tuesday")
    ]
    names = [run["run"]["name"] for run in folder_data(folders)["runs"]]
    assert names == ["monday/run", "tuesday/run"]
    assert [run["run"]["name"] for run in folder_data(folders[:1])["runs"]] == ["run"]
    assert [run["run"]["name"] for run in folder_data([folders[0]] * 2)["runs"]] == ["run"] * 2


def test_names_that_come_while_a_run_goes_on_are_followed(tmp_path):
    run, text = begun(runs.of_changing_columns, tmp_path / "run")
    facts = json.loads((run / "run.json").read_text())
    kept = ("records", "fires", "started", "versions", "settings", "id")
    facts = {"status": "running"} | {name: facts[name] for name in kept}
    (run / "run.json").write_text(json.dumps(facts))
    lines = text.splitlines(keepends=True)
    names = json.loads((run / "names.json").read_text())
    shots = dict(snapshots(run))
    for path in shots.values():
        path.rename(path.with_suffix(".later"))
    (run / "names.json").write_text("[]")
    summary = Summary(run)
    assert not summary.as_dict()["now"]["name"]
    n_met = 0
    for index, line in enumerate(lines):
        # Names are written first, then the snapshot, and records last.
        places = [*json.loads(line)["selected"]]
        if index in shots:
            later = shots[index].with_suffix(".later")
            places += read_snapshot(later)[1]["features"].tolist()
        n_met = max(n_met, *places, 6) + 1 if max(places) >= n_met else n_met
        (run / "names.json").write_text(json.dumps(names[:n_met]))
        if index in shots:
            later.rename(shots[index])
        with (run / "steps.jsonl").open("ab") as file:
            file.write(line)
        assert summary.refresh()
        told = summary.as_dict()
        assert told["counts"]["features"] == n_met
        assert set(told["now"]["name"]) <= set(names[:n_met])
    assert n_met == len(names)


def test_features_that_the_names_do_not_know_are_refused_where_columns_change(tmp_path):
    run = runs.copy_of(runs.of_changing_columns(), tmp_path / "run")
    names = json.loads((run / "names.json").read_text())
    (run / "names.json").write_text(json.dumps(names[:8]))
    with pytest.raises(InputError, match="belong to different runs"):
        summarise(run)


def test_the_command_that_writes_the_page_loads_no_model(tmp_path):
    code = (
        "import sys, fires.cli\n"
        "fires.cli.main(sys.argv[1:], standalone_mode=False)\n"
        "print({'sklearn', 'scipy', 'numba', 'pandas'} & set(sys.modules))"
    )
    wanted = ["report", str(runs.of_classes()), "--out", str(tmp_path / "page.html")]
    done = subprocess.run(
        [sys.executable, "-c", code, *wanted], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"
