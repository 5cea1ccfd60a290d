import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.bench import runner
from fires.bench.cells import Cell
from fires.bench.datasets.catalogue import CATALOGUE
from fires.bench.runner import finished, outdated, read_records, run_cells
from fires.core import version
from fires.run.locking import FolderLock
from fires.streams.base import InputError

# Processes are spawned, and import what they work on: it must lie in a file.
JOBS = """
import os, signal, time
from dataclasses import dataclass
from pathlib import Path

@dataclass(frozen=True)
class Job:
    name: str
    group: str = "a"
    seconds: float = 0.0

def work(job):
    with (Path(os.environ["LOG"])).open("a") as log:
        log.write(f"{job.name} {os.getpid()}\\n")
    time.sleep(job.seconds)
    if job.name in os.environ.get("NEVER_DONE", "").split():
        time.sleep(3600.0)
    if job.name.startswith("raise"):
        raise RuntimeError("no\\nluck")
    if job.name.startswith("exit"):
        os._exit(3)
    if job.name.startswith("kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    if job.name.startswith("nan"):
        return {"value": float("nan")}
    return {"value": len(job.name), "pid": os.getpid()}

def threads(job):
    import scipy.linalg, numba, torch
    from threadpoolctl import threadpool_info
    pools = {pool["num_threads"] for pool in threadpool_info()}
    return {"threads": sorted(pools | {numba.get_num_threads(), torch.get_num_threads()})}
"""


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    """A module with cells and their work, and a log of what was run."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "jobs_for_tests.py").write_text(JOBS)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    monkeypatch.delitem(sys.modules, "jobs_for_tests", raising=False)
    import jobs_for_tests

    return jobs_for_tests


@pytest.fixture
def log(tmp_path):
    """How often each job was begun."""

    def count():
        path = tmp_path / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return Counter(line.split()[0] for line in lines)

    return count


class Events:
    def __init__(self):
        self.began_, self.ended_ = [], []

    def began(self, cell):
        self.began_.append(cell.name)

    def ended(self, cell, record):
        self.ended_.append((cell.name, record.get("error")))


def lines_of(folder):
    return (folder / runner.CELLS).read_text().splitlines()


def test_every_cell_is_run_and_written_and_not_run_again(jobs, log, tmp_path):
    cells = [jobs.Job(f"job{number}", group=str(number % 2)) for number in range(6)]
    cells.append(cells[0])  # named twice
    events = Events()
    records = run_cells(cells, tmp_path / "out", 2, events, work=jobs.work)
    assert [record["name"] for record in records] == [f"job{number}" for number in range(6)]
    assert all(record["value"] == 4 and record["fires"] for record in records)
    assert sorted(json.loads(line)["name"] for line in lines_of(tmp_path / "out")) == [
        f"job{number}" for number in range(6)
    ]
    assert sorted(events.began_) == sorted(name for name, _ in events.ended_)

    again = Events()
    more = [*cells, jobs.Job("job6")]
    assert run_cells(more, tmp_path / "out", 1, again, work=jobs.work)[:6] == records
    assert (again.began_, len(again.ended_)) == (["job6"], 7)
    assert set(log().values()) == {1}


def test_what_goes_wrong_is_recorded_and_the_others_go_on(jobs, log, tmp_path):
    names = ["raise", "ok1", "exit", "ok2", "kill", "nan", "ok3"]
    cells = [jobs.Job(name) for name in names]
    records = run_cells(cells, tmp_path, 1, work=jobs.work)
    errors = {r["name"]: r.get("error") for r in records}
    assert errors.pop("nan").startswith("ValueError: Out of range float values")
    assert errors == {
        "raise": "RuntimeError: no luck",
        "exit": "its process ended with code 3",
        "kill": "its process was ended by SIGKILL; the memory may have run out",
        "ok1": None,
        "ok2": None,
        "ok3": None,
    }
    assert "raise RuntimeError" in records[0]["traceback"]
    run_cells(cells, tmp_path, 2, work=jobs.work)  # once more what failed, and nothing else
    assert {name: n for name, n in log().items() if n == 1} == dict.fromkeys(
        ["ok1", "ok2", "ok3"], 1
    )


def test_a_process_keeps_to_the_data_it_has_loaded(jobs, tmp_path):
    cells = [jobs.Job(f"{group}{n}", group, 0.05) for group in "abcd" for n in range(4)]
    records = run_cells(cells, tmp_path, 2, work=jobs.work)
    pids = {}
    for record in records:
        pids.setdefault(record["group"], set()).add(record["pid"])
    assert len(set.union(*pids.values())) == 2
    # One may be helped out with the last group; then all others were run by one process each.
    assert sum(len(found) for found in pids.values()) <= 5


def test_a_process_that_has_nothing_to_do_takes_from_the_others(jobs, tmp_path):
    cells = [jobs.Job(f"job{n}", "a", 0.2) for n in range(6)]
    assert len({r["pid"] for r in run_cells(cells, tmp_path, 2, work=jobs.work)}) == 2


@given(groups=st.lists(st.sampled_from("abc")), turns=st.lists(st.sampled_from("abcd")))
def test_whoever_asks_every_cell_is_handed_out_once(groups, turns):
    from types import SimpleNamespace

    cells = [SimpleNamespace(group=group, number=n) for n, group in enumerate(groups)]
    waiting, taken, begun = list(cells), [], set()
    for turn in [*turns, *"a" * len(cells)]:
        left = [c for c in cells if c.number not in taken]
        cell = runner.next_cell(waiting, begun, turn)
        if cell is None:
            assert not left
            break
        if any(c.group == turn for c in left):
            assert cell.group == turn
        taken.append(cell.number)
    if len(taken) == len(cells):
        assert sorted(taken) == list(range(len(cells)))
    assert len(set(taken)) == len(taken)


def test_every_process_computes_with_one_thread(jobs, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    before = dict(os.environ)
    (record,) = run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.threads)
    assert record["threads"] == [1]
    assert dict(os.environ) == before


@pytest.mark.usefixtures("in_threads")
def test_another_version_of_fires_runs_everything_again(jobs, log, tmp_path, monkeypatch):
    run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)
    monkeypatch.setattr(runner, "__version__", "99")
    run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)
    assert log() == {"job": 2}
    assert [record["fires"] for record in read_records(tmp_path)][1] == "99"


def rewrite(folder, change):
    """Change every record of a folder."""
    records = [change(record) for record in read_records(folder)]
    (folder / runner.CELLS).write_text("".join(json.dumps(r) + "\n" for r in records))


@pytest.mark.parametrize("code", ["another", None])
@pytest.mark.usefixtures("in_threads")
def test_other_code_of_the_same_version_runs_everything_again(code, jobs, log, tmp_path):
    cells = [jobs.Job("job")]
    (first,) = run_cells(cells, tmp_path, 1, work=jobs.work)
    assert first["code"] == version.code()
    rewrite(tmp_path, lambda record: record | {"code": code})
    assert outdated(cells, read_records(tmp_path)) == {"the code has changed": 1}
    (again,) = run_cells(cells, tmp_path, 1, work=jobs.work)
    assert again["code"] == version.code()
    assert log() == {"job": 2}
    assert outdated(cells, read_records(tmp_path)) == {}


@pytest.mark.usefixtures("in_threads")
def test_records_from_before_there_was_a_code_are_run_again(jobs, log, tmp_path):
    run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)
    rewrite(tmp_path, lambda record: {n: v for n, v in record.items() if n != "code"})
    run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)
    assert log() == {"job": 2}


@pytest.mark.usefixtures("in_threads")
def test_back_at_the_code_that_ran_them_its_records_are_the_last(jobs, log, tmp_path):
    cells = [jobs.Job("job1"), jobs.Job("job2")]
    ours = run_cells(cells, tmp_path, 1, work=jobs.work)
    with (tmp_path / runner.CELLS).open("a") as file:
        file.writelines(json.dumps(r | {"code": "another", "value": 9}) + "\n" for r in ours)
    assert run_cells(cells, tmp_path, 1, work=jobs.work) == ours
    assert set(log().values()) == {1}
    assert read_records(tmp_path)[-1]["code"] == version.code()
    n_lines = len(lines_of(tmp_path))
    run_cells(cells, tmp_path, 1, work=jobs.work)
    assert len(lines_of(tmp_path)) == n_lines


def test_a_cell_is_run_again_when_the_whole_of_its_data_set_is_there(tmp_path, monkeypatch):
    for name in ("DATA", "CACHE"):
        monkeypatch.setenv(f"FIRES_{name}_DIR", str(tmp_path))
    cell = Cell("Gisette", "OFS", 25, 0.1)
    whole = asdict(cell) | {"fires": runner.__version__, "code": version.code(), "complete": True}
    part = whole | {"complete": False}
    (tmp_path / CATALOGUE["gisette"].part.file).touch()
    assert finished([cell], [part]) == {cell: part}
    (tmp_path / CATALOGUE["gisette"].whole.file).touch()
    assert finished([cell], [part]) == {}
    assert outdated([cell], [part]) == {"the whole data set is available now": 1}
    assert finished([cell], [part, whole]) == {cell: whole}
    assert outdated([cell], [whole, part]) == {}


def test_the_code_is_known_by_the_sources_and_nothing_else(tmp_path):
    def digest(**files):
        for path in tmp_path.iterdir():
            path.unlink()
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return version._digest(tmp_path)

    one = digest(a_py="x = 1", b_py="")
    assert one == digest(a_py="x = 1", b_py="", a_pyc="old", c_json="{}")
    others = [digest(a_py="x = 2", b_py=""), digest(a_py="", b_py="x = 1"), digest(a_py="x = 1")]
    assert len({one, *others}) == 4


def test_other_settings_are_another_cell(jobs, tmp_path):
    record = {"name": "job", "group": "a", "seconds": 0.0}
    record |= {"fires": runner.__version__, "code": version.code()}
    assert list(finished([jobs.Job("job")], [record])) == [jobs.Job("job")]
    assert finished([jobs.Job("job", "b")], [record]) == {}
    assert finished([jobs.Job("job")], [record | {"error": "no"}]) == {}
    assert finished([], [record]) == {}


# --- the file -------------------------------------------------------------------------------------


@given(data=st.data())
def test_wherever_writing_stopped_all_whole_lines_are_read(data):
    values = data.draw(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=4))
    content = b"".join(json.dumps(v, ensure_ascii=False).encode() + b"\n" for v in values)
    end = data.draw(st.integers(0, len(content)))
    records, whole = runner.parse(content[:end], Path("cells.jsonl"))
    assert records == values[: content[:end].count(b"\n")]
    assert content[:whole].count(b"\n") == len(records)


@pytest.mark.usefixtures("in_threads")
def test_a_torn_last_line_is_run_and_written_again(jobs, log, tmp_path):
    cells = [jobs.Job("job1"), jobs.Job("job2")]
    run_cells(cells, tmp_path, 1, work=jobs.work)
    path = tmp_path / runner.CELLS
    path.write_bytes(path.read_bytes()[:-9])
    assert len(read_records(tmp_path)) == 1
    run_cells(cells, tmp_path, 1, work=jobs.work)
    assert [json.loads(line)["name"] for line in lines_of(tmp_path)] == ["job1", "job2"]
    assert log() == {"job1": 1, "job2": 2}


@pytest.mark.parametrize("line", ["[1]", "hello", '{"a": 1'])
def test_a_damaged_file_is_named_with_its_line(line, jobs, tmp_path):
    text = f'{{"a": 1}}\n{line}\n{{"b": 2}}\n'
    (tmp_path / runner.CELLS).write_text(text)
    message = r"cells.jsonl: line 2 is not a result of fires bench"
    with pytest.raises(InputError, match=message):
        run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)
    with pytest.raises(InputError, match=message):
        read_records(tmp_path)
    assert (tmp_path / runner.CELLS).read_text() == text


@pytest.mark.usefixtures("in_threads")
def test_two_runs_do_not_write_to_one_folder(jobs, tmp_path):
    lock = FolderLock(tmp_path)
    with pytest.raises(InputError, match="is in use by"):
        run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)
    lock.release()
    run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)


def test_a_full_disk_ends_the_run_and_names_the_file(jobs, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device.*cells.jsonl"):
        run_cells([jobs.Job("job")], tmp_path, 1, work=jobs.work)


# --- killed in the middle -------------------------------------------------------------------------

SCRIPT = """
if __name__ == "__main__":
    import sys
    from pathlib import Path
    from fires.bench.runner import run_cells
    from jobs_for_tests import Job, work

    cells = [Job(f"job{n}", str(n % 2), 0.15) for n in range(12)]
    run_cells(cells, Path(sys.argv[1]), 2, work=work)
"""


def start(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    paths = [str(tmp_path / "lib"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    # However late it is killed on a busy machine: it is not done by then.
    environment |= {"NEVER_DONE": "job6 job7 job8 job9 job10 job11"}
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "out")],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_lines(folder, n_lines, process):
    while not (folder / runner.CELLS).exists() or len(lines_of(folder)) < n_lines:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def pids(tmp_path):
    return {int(line.split()[1]) for line in (tmp_path / "log").read_text().splitlines()}


def wait_until_gone(processes):
    deadline = time.monotonic() + 120.0
    while any(Path(f"/proc/{pid}").exists() for pid in processes):
        assert time.monotonic() < deadline, "a process was left behind"
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_kill_9_costs_only_the_cells_that_were_being_run(jobs, log, tmp_path):
    process = start(tmp_path)
    wait_for_lines(tmp_path / "out", 3, process)
    process.kill()
    process.wait()
    process.stderr.close()
    wait_until_gone(pids(tmp_path))  # its processes do not outlive it
    done = {record["name"] for record in read_records(tmp_path / "out")}
    assert 3 <= len(done) < 12
    cells = [jobs.Job(f"job{n}", str(n % 2), 0.15) for n in range(12)]
    records = run_cells(cells, tmp_path / "out", 2, work=jobs.work)
    assert len(records) == 12 == len(lines_of(tmp_path / "out"))
    twice = {name for name, n in log().items() if n > 1}
    assert len(twice) <= 2
    assert twice.isdisjoint(done)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_ctrl_c_stops_all_processes_at_once_and_only_the_first_is_heard(jobs, log, tmp_path):
    process = start(tmp_path)
    wait_for_lines(tmp_path / "out", 2, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (130, -signal.SIGINT)
    assert errors.count("Traceback") == 1
    assert errors.rstrip().endswith("KeyboardInterrupt")
    wait_until_gone(pids(tmp_path))
    assert 2 <= len(read_records(tmp_path / "out")) < 12
