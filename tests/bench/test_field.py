import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

from fires.bench import field, leaderboard
from fires.bench.field import Data, Effort, data_of, make, methods, plan, run
from fires.cli import main
from fires.rivals import REGISTRY

TINY = Effort(3, 400, 60.0)


def found_in(cell):
    record = run(cell)
    assert "missing" not in record, record
    return record["values"]


@pytest.fixture
def quick(monkeypatch):
    """The command with streams of 400 rows: ``quick(*options)``."""
    monkeypatch.setattr(field, "QUICK", TINY)

    def command(*options):
        return CliRunner().invoke(main, ["bench", "field", "--quick", "--jobs", "1", *options])

    return command


def test_every_method_of_rows_takes_part_and_those_of_arriving_columns_do_not():
    names = methods()
    assert names[0] == "FIRES"
    arriving = {name for name, module in REGISTRY.items() if ".arriving." in module}
    assert {*REGISTRY} - {*names} == arriving | {"FixedFeatures"}
    assert {"FIRES relations", "FIRES as published", "FIRES gradient"} <= {*methods(quick=True)}
    made = {name: make(name, 3, 0).get_params() for name in methods(quick=True)}
    assert made["FIRES as published"]["update"] == made["FIRES gradient"]["update"] == "gradient"
    assert made["OFS"]["n_features_to_select"] == 3
    assert made["FIRES as published"]["scale"] is None


@pytest.mark.parametrize("name", field.STREAMS)
def test_a_stream_is_drawn_anew_with_every_seed_and_knows_what_matters(name):
    one, again, other = (data_of.__wrapped__(name, 200, seed) for seed in (0, 0, 1))
    assert one.X.shape[0] == len(one.y) == 200
    assert (one.X != again.X).sum() == 0
    assert (one.X != other.X).sum() > 0
    assert len(one.truth.relevant_at(199)) == one.n_selected
    assert len(one.truth.drifts) == ("drift" in name)


def test_after_a_partial_drift_some_features_stay_relevant():
    truth = data_of("partial drift", 200, 0).truth
    assert len({*truth.relevant_at(0).tolist()} & {*truth.relevant_at(199).tolist()}) == 3


def test_relevant_features_of_curves_are_not_correlated_with_the_label_but_their_squares_are():
    X, y, truth = data_of("curves", 5_000, 0)
    columns = [*truth.relevant_at(0)]
    z = (X[:, columns] - X[:, columns].mean(axis=0)) / X[:, columns].std(axis=0)
    linear = [abs(np.corrcoef(column, y)[0, 1]) for column in z.T]
    squared = [abs(np.corrcoef(column**2, y)[0, 1]) for column in z.T]
    assert max(linear) < 0.06 < 0.15 < min(squared)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_noise_is_a_hundredth_of_the_spread_and_zeros_of_sparse_rows_stay(form):
    X = np.random.default_rng(0).poisson(1.0, (4_000, 2)) * np.array([1.0, 1_000.0])
    noisy = Data(form(X), np.zeros(4_000), None).perturbed(0).X
    noise = (noisy if form is np.asarray else noisy.toarray()) - X
    stored = X != 0.0 if form is sparse.csr_array else np.full(X.shape, True)
    assert not noise[~stored].any()
    for column in range(2):
        assert noise[stored[:, column], column].std() / X[:, column].std() == pytest.approx(
            0.01, rel=0.05
        )


def test_a_cell_measures_everything_for_every_seed():
    (cell,) = plan(["drifting"], ["FIRES"], replace_rows(2_000))
    found = found_in(cell)
    assert {*found} == {*leaderboard.QUANTITIES}
    assert {len(values) for values in found.values()} == {3}
    assert min(found["recall"]) > 0.8
    assert max(found["rows"]) <= 1_000.0
    assert min(found["linear"] + found["tree"]) > 0.7
    assert min(found["milliseconds"]) > 0.0


def replace_rows(n_rows):
    return TINY._replace(n_rows=n_rows)


def test_a_set_that_never_moves_is_stable_and_never_recovers():
    (cell,) = plan(["drifting"], ["RandomFeatures"], TINY)
    found = found_in(cell)
    assert found["stability"] == found["perturbed"] == [1.0] * 3
    assert max(found["rows"]) == 200.0


def test_all_features_have_no_stability_and_no_recall():
    (cell,) = plan(["pairs"], ["AllFeatures"], TINY)
    assert {*found_in(cell)} == {"linear", "tree", "milliseconds"}


def test_a_cell_out_of_time_is_too_slow_and_one_that_fails_says_why(monkeypatch):
    (cell,) = plan(["linear"], ["OFS"], TINY)
    assert run(replace(cell, limit=0.0))["missing"] == "too slow"

    def fail(*_):
        raise ValueError("no\nluck")

    monkeypatch.setattr(field, "make", fail)
    record = run(cell)
    assert (record["missing"], record["why"]) == ("failed", "no luck")


def test_the_command_runs_nothing_twice_and_writes_tables_and_a_picture(quick, tmp_path):
    options = ("--streams", "linear,pairs", "--methods", "ofs", "--out", str(tmp_path / "out"))
    result = quick(*options)
    assert result.exit_code == 0, result.output
    assert "4 cells; results go to" in result.stderr
    out = tmp_path / "out"
    lines = (out / "field.jsonl").read_text().splitlines()
    assert [json.loads(line)["method"] for line in lines] == ["FIRES", "OFS"] * 2
    page = (out / "leaderboard.md").read_text()
    assert "| FIRES | " in page
    assert "| OFS | " in page
    assert "--streams linear,pairs --methods ofs`" in page
    assert str(tmp_path) not in page
    assert (out / "leaderboard.png").read_bytes().startswith(b"\x89PNG")

    assert "4 cells, 4 of them done before" in quick(*options).stderr
    assert (out / "field.jsonl").read_text().splitlines() == lines
    (out / "leaderboard.md").unlink()
    assert quick("--no-run", "--out", str(out)).exit_code == 0
    assert (out / "leaderboard.md").read_text() == page

    (out / "field.jsonl").write_text("\n".join(lines[:-1]) + "\n")  # it was stopped
    assert "4 cells, 3 of them done before" in quick(*options).stderr


def test_data_sets_that_are_not_at_hand_are_left_out(quick, tmp_path, cache_dir, nothing_at_hand):
    result = quick("--streams", "Madelon", "--out", str(tmp_path / "out"))
    assert "Left out: Madelon is not available" in result.stderr
    assert result.exit_code == 1


# --- tables -------------------------------------------------------------------------------------


@pytest.fixture
def board(tmp_path):
    """A leaderboard of given values: ``board({(stream, method): {quantity: values}})``."""

    def board(cells):
        with (tmp_path / leaderboard.CELLS).open("w") as file:
            for (stream, method), found in cells.items():
                found = found if "missing" in found else {"values": found}
                line = {"dataset": stream, "method": method, "seeds": 3, "fires": "1", "code": "a"}
                file.write(json.dumps(line | found) + "\n")
        return leaderboard.Leaderboard(tmp_path)

    return board


def test_means_go_by_differences_from_fires_on_the_streams_that_both_have(board):
    found = board(
        {
            ("linear", "FIRES"): {"linear": [0.9, 0.9, 0.9], "milliseconds": [2.0, 1.0, 3.0]},
            ("wide", "FIRES"): {"linear": [0.5, 0.5, 0.5], "milliseconds": [1.0, 1.0, 1.0]},
            ("linear", "OFS"): {"linear": [0.8, 0.8, 0.8], "milliseconds": [4.0, 5.0, 6.0]},
            ("wide", "OFS"): {"missing": "too slow"},
        }
    )
    value, difference, half = found.overall("linear", "OFS")
    assert (value, difference) == (pytest.approx(0.6), pytest.approx(-0.1))
    assert np.isnan(half)
    first, second = leaderboard.overall_table(found).rows
    assert (first[0], first[1], first[-1]) == ("FIRES", "0.700", "2 of 2")
    assert (second[0], second[1], second[-1]) == ("OFS", "0.600 (-0.100)", "1 of 2")
    assert second[-2] == "4.00 (×4)"
    table = leaderboard.quantity_table(found, "linear")
    assert [*table.columns] == ["method", "linear", "wide"]
    assert table.rows[1] == ["OFS", "0.800 ▼", "too slow"]


def test_intervals_are_paired_and_only_clear_differences_are_marked(board):
    cells = {}
    for place, stream in enumerate(("linear", "wide", "rare")):
        level = 0.5 + 0.1 * place
        cells[stream, "FIRES"] = {"rows": [100.0, 200.0, 300.0], "linear": [level] * 3}
        cells[stream, "OFS"] = {"rows": [90.0, 190.0, 290.0], "linear": [level + 0.02 * place] * 3}
        cells[stream, "EFS"] = {"rows": [90.0, 210.0, 300.0], "linear": [level - 0.1] * 3}
    found = board(cells)
    assert found.overall("linear", "OFS").half == pytest.approx(
        leaderboard.half_width(np.array([0.0, 0.02, 0.04]))
    )
    assert found.overall("linear", "EFS").half == pytest.approx(0.0, abs=1e-12)
    rows = {row[0]: row[1:] for row in leaderboard.quantity_table(found, "rows").rows}
    assert rows["OFS"] == ["190 ▲"] * 3
    assert rows["EFS"] == ["200"] * 3
