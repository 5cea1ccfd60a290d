"""Runs of ``fires select`` in which the n-th file operation fails, or is the last thing done.

Run as a program, this file tries such faults and prints what went wrong, as JSON. A process is
forked for each run, after the imports and with compiled kernels, but before polars has been used:
the threads of polars do not survive a fork.
"""

import errno
import importlib
import itertools
import json
import os
import shutil
import stat
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tests.cli.durable_runs import facts, lines_of, write_rows

import fires.cli
from fires import FIRES, OnlinePipeline
from fires.core import files
from fires.evaluation import prequential
from fires.streams import from_arrays

KINDS = ("ENOSPC", "EIO", "EMFILE", "EINTR", "killed before", "killed after")
OPERATIONS = ("open", "write", "fsync", "replace", "unlink", "truncate", "mkdir", "rmdir", "chmod")
KILLED, KILLED_AT = 137, 150
OPTIONS = ("--target", "label", "--batch-size", "20", "--top", "3", "--checkpoint", "4")
OPTIONS += ("--transform",)
EMITTED = ("--emit", "told.ndjson", "--emit-every", "batch")
REAL = {name: getattr(os, name) for name in OPERATIONS}


class Faults:
    """Counts the file operations of a process; one of them fails, or ends the process.

    What it leaves is the worst there can be: half of what a failed write had to write, and after a
    failed fsync zeros instead of all that was written since the last one.
    """

    def __init__(self, number=None, kind=None):
        self.number, self.kind, self.seen = number, kind, []
        self._safe = {}

    def install(self):
        for name in OPERATIONS:
            setattr(os, name, self._wrapped(name))

    def _wrapped(self, name):
        def operation(*arguments, **more):
            if not is_ours():
                return REAL[name](*arguments, **more)
            self.seen.append(name)
            fails = len(self.seen) - 1 == self.number
            if fails and self.kind != "killed after":
                if name == "write":
                    REAL["write"](arguments[0], arguments[1][: len(arguments[1]) // 2])
                if self.kind == "killed before":
                    os._exit(KILLED)
                if name == "fsync":
                    self._lose(arguments[0])
                code = getattr(errno, self.kind)
                raise OSError(code, os.strerror(code))
            try:
                result = REAL[name](*arguments, **more)
            finally:
                if fails:
                    os._exit(KILLED)
            if name in ("open", "fsync"):
                file = os.fstat(result if name == "open" else arguments[0])
                if name == "fsync" or not file.st_size or file.st_ino not in self._safe:
                    self._safe[file.st_ino] = file.st_size
            return result

        return operation

    def _lose(self, descriptor):
        file = os.fstat(descriptor)
        if stat.S_ISREG(file.st_mode):
            start = min(self._safe.get(file.st_ino, 0), file.st_size)
            with open(f"/proc/self/fd/{descriptor}", "r+b") as lost:
                lost.seek(start)
                lost.write(bytes(file.st_size - start))


def is_ours():
    """Whether the module that all our writes go through has called."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") == files.__name__:
            return True
        frame = frame.f_back
    return False


# --- processes ----------------------------------------------------------------------------------


def forked(folder, work):
    """What a process of its own gives for the work in a folder, as JSON; and its exit code."""
    report = Path(f"report-{os.getpid()}.json").resolve()
    report.unlink(missing_ok=True)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.chdir(folder)
            report.write_text(json.dumps(work()))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return json.loads(report.read_text()) if report.exists() else None, code


def select(arguments, faults=None):
    """Run ``fires select`` here; returns its exit code and what it wrote to standard error."""
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.02 * next(ticks), perf_counter=time.perf_counter)
    importlib.import_module("fires.run.records").time = clock  # the same operations always
    errors = Path("errors.txt")
    descriptor = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kept = os.dup(1), os.dup(2)
    os.dup2(nowhere, 1)
    os.dup2(descriptor, 2)
    if faults is not None:
        faults.install()
    try:
        fires.cli.main(["select", *map(str, arguments)], prog_name="fires")
        code = 0
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for name in OPERATIONS:
            setattr(os, name, REAL[name])
        for number, before in enumerate(kept, start=1):
            os.dup2(before, number)
    return code, errors.read_text()


def compared(out):
    """All that has to be the same at the end, as text."""
    found = facts(out)
    told = {}
    for record in lines_of(Path("told.ndjson")) if Path("told.ndjson").exists() else ():
        order = int(record.pop("id").rpartition("-")[2])
        del record["time"]
        assert told.setdefault(order, record) == record, f"two records {order} differ"
    found["transformed"] = [  # a file has a column for all that was selected in one of its batches
        {name: value for name, value in row.items() if value is not None}
        for row in found["transformed"]
    ]
    found["told"] = sorted(told.items())
    found["left over"] = sorted(str(path) for path in Path().rglob(".*"))
    return {name: json.dumps(value, sort_keys=True, default=repr) for name, value in found.items()}


# --- one fault ----------------------------------------------------------------------------------


class Scenario:
    """A run that can be disturbed, and what it ends with if it is not.

    Parameters
    ----------
    name : {"begin", "resume", "overwrite"}
        Whether the run is a new one, one that was killed half-way, or takes the place of another.
    """

    def __init__(self, name):
        self.name, self.earlier = name, None
        self.given = Path(f"given-{name}").resolve()
        self.given.mkdir()
        source, before = Path("x.csv").resolve(), Path("before.csv").resolve()
        self.begin = [source, *OPTIONS, *EMITTED, "--out", "out"]
        forked(Path(), lambda: str([write_rows(source, 240), write_rows(before, 80, seed=1)]))
        if name == "resume":
            forked(self.given, lambda: select(self.begin, Faults(KILLED_AT, "killed before")))
        if name == "overwrite":
            forked(self.given, lambda: select([before, *OPTIONS, "--out", "out"]))
            self.begin.append("--overwrite")
            self.earlier, _ = forked(self.given, lambda: compared(Path("out")))
        self.arguments = ["--resume", "out"] if name == "resume" else self.begin
        found, _ = forked(self._copy(), self._undisturbed)
        self.reference, self.operations, modules = found
        for module in modules:
            importlib.import_module(module)

    def _undisturbed(self):
        faults = Faults()
        code, errors = select(self.arguments, faults)
        assert code == 0, errors
        modules = [name for name in sys.modules if name.partition(".")[0] in ("fires", "rich")]
        return compared(Path("out")), faults.seen, modules

    def _copy(self):
        work = Path(f"work-{self.name}").resolve()
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.given, work)
        return work

    def tried(self, number, kind):
        """What is wrong after a fault, if anything is."""
        work = self._copy()
        found, ended = forked(work, lambda: select(self.arguments, Faults(number, kind)))
        code, errors = found if found is not None else (ended, "")
        if code not in ((KILLED,) if kind.startswith("killed") else (0, 2)):
            return f"ended with {code}: {errors}"
        if "Traceback" in errors or errors.count("Error: ") != (code == 2):
            return f"ended with {code} and said: {errors}"
        wrong, ended = forked(work, lambda: self._after(ended_well=code == 0))
        return wrong if ended == 0 else f"broke when it went on, after: {errors}"

    def _after(self, ended_well):
        """Let the run go on, or begin anew if there is none yet."""
        if ended_well and (wrong := difference(self.reference)):
            return f"ended well, but {wrong}"
        options = Path("out/run.toml")
        goes_on = options.exists()
        is_earlier = goes_on and "before.csv" in options.read_text()
        code, errors = select(["--resume", "out"] if goes_on else self.begin)
        if code != 0 or "Traceback" in errors:
            return f"cannot go on, {code}: {errors}"
        if is_earlier:
            return difference(self.earlier | {"told": None})
        return difference(self.reference)


def difference(wanted):
    """How what is there now differs from what should be."""
    found = compared(Path("out"))
    for name, value in wanted.items():
        if value is not None and found[name] != value:
            pairs = enumerate(zip(found[name], value, strict=False))
            at = next((place for place, (a, b) in pairs if a != b), 0)
            part = slice(max(at - 60, 0), at + 100)
            return f"{name} differs: ...{found[name][part]} and not ...{value[part]}"
    return None


def warm_up():
    """Compile what a run needs, without what starts threads."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 9))
    pipeline = OnlinePipeline(FIRES(3))
    list(prequential(from_arrays(X, X[:, 0] > 0), pipeline, batch_size=20))


def threads():
    """The names of all threads: those of a pool would be missing after a fork."""
    return {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}


def main(name, start, step):
    """Try all kinds of faults at every ``step``-th file operation of a scenario."""
    started = time.perf_counter()
    os.fsync = REAL["fsync"] = lambda descriptor: None  # nothing has to outlive a power cut
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        scenario = Scenario(name)
        assert threads() <= {"python", "polars-ooc-clea"}, threads()
        wrong, n_cases = [], 0
        for number in range(int(start), len(scenario.operations), int(step)):
            for kind in KINDS:
                n_cases += 1
                if problem := scenario.tried(number, kind):
                    wrong.append([number, scenario.operations[number], kind, problem])
                    print(*wrong[-1], file=sys.stderr, flush=True)
        os.chdir("/")
    seconds = round(time.perf_counter() - started, 1)
    found = {"points": len(scenario.operations), "cases": n_cases, "wrong": wrong}
    print(json.dumps(found | {"seconds": seconds}))


def environment():
    """What keeps libraries from starting threads as they are imported."""
    root = str(Path(__file__).parents[2])
    more = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    more["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    return os.environ | more | {"_RJEM_MALLOC_CONF": "background_thread:false"}


if __name__ == "__main__":
    main(*sys.argv[1:])
