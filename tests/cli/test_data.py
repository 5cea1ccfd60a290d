import base64
import hashlib
import re
import subprocess
import sys

import polars as pl
import pytest
from click.testing import CliRunner

from fires.bench.datasets.catalogue import CATALOGUE, DataFile, Info, Remote
from fires.bench.datasets.files import digest
from fires.cli import main

BODY = b"3,1\n4,0\n5,1\n"


def read(files):
    return pl.read_csv(files[0], has_header=False, new_columns=["x", "target"])


def run(*arguments):
    return CliRunner().invoke(main, ["data", *arguments])


def rows(output):
    """The cells of each line of the table, under its name."""
    lines = [re.split(r" {2,}", line.strip()) for line in output.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if len(cells) == 6}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """An empty data folder, and an empty cache."""
    for name in ("DATA", "CACHE"):
        (tmp_path / name.lower()).mkdir()
        monkeypatch.setenv(f"FIRES_{name}_DIR", str(tmp_path / name.lower()))
    return tmp_path / "data", tmp_path / "cache"


@pytest.fixture
def toy(folders, monkeypatch):
    """A data set of three rows, at an address that needs no network."""
    url = f"data:text/csv;base64,{base64.b64encode(BODY).decode()}"
    info = Info(
        name="Toy",
        n_rows=3,
        n_features=1,
        kinds="cont.",
        positive=1,
        source="nobody",
        licence="none",
        whole=DataFile("toy.parquet", {0: 1, 1: 2}, digest(read([BODY]))),
        part=DataFile("part.parquet", {0: 1, 1: 1}),
        remotes=(Remote(url, hashlib.sha256(BODY).hexdigest()),),
        read=read,
    )
    monkeypatch.setitem(CATALOGUE, "toy", info)
    return info


def test_the_list_has_every_data_set_with_its_size_source_and_licence(folders):
    result = run("list")
    assert result.exit_code == 0, result.output
    table = rows(result.stdout)
    assert list(table) == ["name", *(info.name for info in CATALOGUE.values())]
    assert table["KDD"] == ["100,000", "41", "UCI", "CC BY 4.0", "no"]
    assert table["MNIST"] == ["70,000", "784", "LeCun et al.", "CC BY-SA 3.0", "no"]
    assert table["RTG"] == ["10,000", "450", "generated", "-", "made when used"]


def test_the_list_says_what_is_at_hand_and_where(toy, folders):
    data, cache = folders
    frame = read([BODY])
    assert rows(run("list").stdout)["Toy"][-1] == "no"
    frame[:2].write_parquet(data / "part.parquet")
    assert rows(run("list").stdout)["Toy"][-1] == "data folder, 2"  # and below it: rows only
    frame.write_parquet(cache / "toy.parquet")
    assert rows(run("list").stdout)["Toy"][-1] == "cache"
    frame.write_parquet(data / "toy.parquet")
    output = run("list").stdout
    assert rows(output)["Toy"][-1] == "data folder"
    assert output.splitlines()[-2:] == [f"data folder: {data}", f"cache: {cache}"]


def test_the_list_works_without_a_data_folder_and_without_river(folders, monkeypatch):
    monkeypatch.delenv("FIRES_DATA_DIR")
    monkeypatch.setitem(sys.modules, "river", None)
    output = run("list").stdout
    assert "data folder: none (FIRES_DATA_DIR is not set)" in output
    assert rows(output)["RBF"][-1] == "needs .[river]"


def test_get_downloads_what_is_nowhere_and_then_says_where_it_is(toy, folders):
    _, cache = folders
    first = run("get", "toy")
    assert first.exit_code == 0, first.output
    where = cache / "toy.parquet"
    assert first.stdout == f"Toy, 3 rows of 1 features, licence none: {where}\n"
    assert first.stderr == f"reading {toy.remotes[0].url}\n"
    assert pl.read_parquet(where).equals(read([BODY]))
    second = run("get", "TOY")
    assert (second.stdout, second.stderr) == (first.stdout, "")


def test_get_wants_the_whole_where_a_part_is_at_hand(toy, folders):
    data, cache = folders
    read([BODY])[:2].write_parquet(data / "part.parquet")
    assert str(cache / "toy.parquet") in run("get", "toy").stdout


def test_get_replaces_a_damaged_file_in_the_cache_only(toy, folders):
    data, cache = folders
    (cache / "toy.parquet").write_bytes(b"PAR1")
    result = run("get", "toy")
    assert result.exit_code == 0
    assert result.stderr.startswith("reading ")
    assert pl.read_parquet(cache / "toy.parquet").height == 3

    (data / "toy.parquet").write_bytes(b"PAR1")
    result = run("get", "toy")
    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {data / 'toy.parquet'} cannot be read: ")
    assert result.output.count("\n") == 1
    assert (data / "toy.parquet").read_bytes() == b"PAR1"


def test_get_has_nothing_to_get_of_what_is_generated(folders):
    result = run("get", "rbf")
    assert result.exit_code == 0
    assert result.output == "RBF is made by river when it is used: there is nothing to get\n"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("usnet", r'there is no data set "usnet"; did you mean Usenet\?'),
        ("usenet", r"Usenet is not at hand: .*data \(FIRES_DATA_DIR\) or .*cache; no server .*"),
    ],
)
def test_get_fails_in_one_line_with_code_2(name, message, folders):
    result = run("get", name)
    assert result.exit_code == 2
    assert re.fullmatch(f"Error: {message}\n", result.output)


def test_without_a_network_get_says_what_to_do(toy, folders, monkeypatch):
    from dataclasses import replace

    remote = Remote("http://nowhere.invalid/toy.csv")
    monkeypatch.setitem(CATALOGUE, "toy", replace(toy, remotes=(remote,)))
    result = run("get", "toy")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "reading http://nowhere.invalid/toy.csv"
    (error,) = result.stderr.splitlines()[1:]
    assert error.startswith("Error: Toy is not at hand: there is no toy.parquet in ")
    assert error.endswith('"fires data get Toy" makes that file where there is a network')
    assert list(folders[1].iterdir()) == []


def test_the_command_is_there_and_loads_nothing_before_it_runs():
    assert "data " in CliRunner().invoke(main, ["--help"]).output
    code = "import sys, fires.cli; print({'numpy', 'polars', 'rich'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert output.strip() == "set()"
