"""One definition of significant: command, files, ``fires explain`` and page count the same."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from fires import FIRES
from fires.cli import main
from fires.report.summary import summarise


def fires(*arguments):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(n=3_000, seed=0):
    """A signal in two columns, of which neither is needed beside the other; two more; and noise."""
    rng = np.random.default_rng(seed)
    noise, signal = rng.normal(size=(n, 8)), rng.normal(size=n)
    copies = signal[:, None] + 0.03 * rng.normal(size=(n, 2))
    y = signal + 0.8 * noise[:, 0] + 0.6 * noise[:, 1] + rng.normal(size=n) > 0
    return np.hstack([copies, noise]), y


def suppressors(n=3_000, seed=0):
    """Two columns that predict by their difference only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 10))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    return X, 8.0 * (X[:, 0] - X[:, 1]) + rng.normal(size=n) > 0


@pytest.fixture(scope="module", params=[2, 5, "auto"])
def run(request, tmp_path_factory):
    """Its folder, and what the command says."""
    path, top = tmp_path_factory.mktemp("significant"), request.param
    X, y = rows()
    table = pl.DataFrame({f"x{j}": X[:, j] for j in range(10)}).with_columns(y=pl.Series(y))
    table.write_csv(path / "data.csv")
    shown = fires("select", path / "data.csv", "-t", "y", "-k", top, "--out", path / "run")
    return path / "run", shown


def test_command_files_and_page_count_the_same(run):
    folder, shown = run
    table = pl.read_csv(folder / "features.csv")
    both = table.filter(pl.col("above_noise") & pl.col("selected"))["feature"].to_list()
    n_all, summary = int(table["above_noise"].sum()), summarise(folder)
    assert summary["counts"]["above_noise"] == n_all
    assert summary["counts"]["significant_selected"] == len(both)
    now = pl.DataFrame({name: summary["now"][name] for name in ("name", "above_noise", "selected")})
    assert now.filter(pl.col("above_noise") & pl.col("selected"))["name"].to_list() == both
    said = "".join(summary["sentence"])
    assert said.startswith(f"{n_all} of 10 features predict the target")
    assert (f"target, {len(both)} of them selected" in said) == (len(both) < n_all)
    why = json.loads((folder / "run.json").read_text())["why"]
    assert why in shown.splitlines()
    assert summary["run"]["why"] == why
    n_selected = int(table["selected"].sum())
    of_them = "all" if len(both) == n_selected else len(both)
    if "as requested" in why:
        assert f"as requested: {of_them} of them are significant" in why
        assert (f", and {n_all - len(both)} of the others" in why) == (len(both) < n_all)
    else:  # "auto" selects those that are significant, and no others
        assert why.startswith(f"{n_all} of 10 features are significantly non-zero")
        assert len(both) == n_selected == n_all


def test_that_an_interval_of_a_significant_one_contains_0_is_explained(run):
    folder, shown = run
    table = pl.read_csv(folder / "features.csv").filter(pl.col("above_noise"))
    unsure = table.filter((pl.col("low") <= 0) & (pl.col("high") >= 0), pl.col("selected"))
    assert len(unsure) == 1  # one of the copies
    (name,) = unsure["feature"]
    assert f"significant given the selected features: {name}; given all 10, its interval" in shown
    known = "significant given the selected features; given all features, its interval contains 0"
    assert known in fires("explain", folder, name)
    other = {"x0": "x1", "x1": "x0"}[name]
    assert "not distinguishable from zero" in fires("explain", folder, other)
    assert fires("explain", folder, "x2").splitlines()[1].endswith("; significant")


@pytest.mark.parametrize("top", [2, 5, "auto"])
def test_those_that_matter_only_together_are_significant(top):
    selector = FIRES(top).fit(*suppressors())
    low, high = selector.interval()
    assert ((low > 0.0) | (high < 0.0))[:2].all()
    assert selector.get_support()[:2].all()
    assert selector.is_significant()[:2].all()


@pytest.mark.parametrize("make", [rows, suppressors])
@pytest.mark.parametrize("n", [300, 700, 1_900, 3_000])
def test_auto_selects_what_is_significant(make, n):
    selector = FIRES("auto").fit(*make(n))
    is_alone = "significant alone" in selector.why()
    assert selector.is_significant().tolist() == (selector.get_support() & (not is_alone)).tolist()


def test_a_run_under_way_calls_the_same_significant(run, tmp_path):
    """The last snapshot knows it: the page does not compute it again."""
    folder, _ = run
    ended = summarise(folder)
    (folder / "features.csv").rename(tmp_path / "features.csv")
    try:
        under_way = summarise(folder)
    finally:
        (tmp_path / "features.csv").rename(folder / "features.csv")
    assert under_way["now"]["above_noise"] == ended["now"]["above_noise"]
    for name in ("above_noise", "significant_selected"):
        assert under_way["counts"][name] == ended["counts"][name]
