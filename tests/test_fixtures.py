"""What earlier versions have saved is loaded, gives the same answer, and goes on.

``tests/fixtures/make.py`` has made these files with the code of the version they are named after.
How they go on is as it would have been there, but for what later versions have changed in the
answer: alarms by scores, dependent rows and missing cells, weights that are importances, sums in
the units of now, and forward selection from the first look after loading on, for the Bayesian
update; input weights that decay, for nets and trees. What was learnt and selected before is as it
was.
"""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.fixtures.cases import (
    CASES,
    MORE_ROWS,
    N_SAVED,
    RUNS,
    answer,
    file_name,
    recorded,
    teach,
)

import fires
from fires.cli import main
from fires.selectors import REGISTRY

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = ["ea88466"]
STATES = [
    (path.parents[1].name, name)
    for name in CASES
    for path in sorted(FIXTURES.glob(f"*/states/{file_name(name)}"))
]


def assert_same(found, expected, rtol, where="it"):
    """Equal but for the last digits, which depend on the processor."""
    if isinstance(expected, dict):
        assert set(found) >= set(expected), where  # later versions may say more
        for name, value in expected.items():
            assert_same(found[name], value, rtol, f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert_same(ours, theirs, rtol, f"{where}[{i}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=rtol, abs=1e-12, nan_ok=True), where
    else:
        assert found == expected, where


@pytest.mark.parametrize(("version", "name"), STATES)
def test_a_saved_state_is_loaded_and_goes_on(version, name, tmp_path):
    case = CASES[name]
    pytest.importorskip(case.needs)
    packed = FIXTURES / version / "states" / file_name(name)
    expected = json.loads(packed.with_name(f"{packed.name.split('.')[0]}.json").read_bytes())
    path, batches = tmp_path / "state.safetensors", case.batches()
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    thing, X = fires.load(path, **case.passed()), batches[-1][0]
    assert_same(answer(thing, X), expected["saved"], 1e-12)
    assert_same(answer(teach(thing, batches[N_SAVED:]), X), expected["continued"], case.rtol)


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_run_goes_on(version, name, tmp_path, monkeypatch):
    packed = FIXTURES / version / "runs" / f"{name}.tar.xz"
    shutil.unpack_archive(packed, tmp_path, filter="data")
    if RUNS[name].ends_before_more:
        with (tmp_path / "rows.csv").open("a", encoding="utf-8") as file:
            file.writelines(MORE_ROWS)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["select", "--resume", "run"])
    assert done.exit_code == 0, done.output
    expected = json.loads(packed.with_name(f"{name}.json").read_bytes())
    assert_same(json.loads(json.dumps(recorded(tmp_path))), expected, 1e-9)


def test_every_method_is_among_them():
    assert set(REGISTRY) - set(CASES) == {"FIRES"}
    assert {name for _, name in STATES} == set(CASES)
