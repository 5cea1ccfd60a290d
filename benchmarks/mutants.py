"""``python -m benchmarks.mutants``: which small changes of the code do the tests notice?

Draws mutations of the code at the commit BASE, always the same ones. Each is looked up in the tree
by function and statement, made in a copy of the tree, and tried by the tests that call the
function, up to the first failure. A mutant whose statement is not there any more is "gone", and
listed: what was renamed goes into RENAMED, what was rewritten into MOVED.

    python -m benchmarks.mutants                     # all, on the working tree
    python -m benchmarks.mutants --base              # and what survives, on BASE with its tests
    python -m benchmarks.mutants --only m03 m17      # some of them, again
    python -m benchmarks.mutants --tree REV          # on another commit, or another folder
    python -m benchmarks.mutants --list              # where they are, and nothing is run

First the fast tests run once, to record which functions each of them calls. This record, the copy
of the tree and the verdicts, one by one, stay in ``~/.cache/fires-mutants``, under a digest of
sources and tests: a run that was ended goes on. A hang counts as caught. If the time for a mutant
is up before all its tests have run, the verdict is "timeout", which is not caught.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

BASE = "5d5bf84"
"""The commit whose code the mutants are drawn from."""
RENAMED: dict[str, str] = {
    "_MOST": "_MAX_FLOAT",
    "reach": "max_abs",
    "winnow_rows": "winnow",
    "FollowedTable": "Follow",
}
"""What identifiers are called now: functions, classes, names in statements; several by spaces."""
MOVED: dict[str, tuple[str, str, str]] = {
    "m01": (
        "WindowRefit._check_weights",
        "can(estimator, 'fit') and (not has_fit_parameter(estimator, 'sample_weight'))",
        "(can(estimator, 'fit') or not has_fit_parameter(estimator, 'sample_weight'))",
    ),
    "m03": ("_Database._plain_errors", "_IN_USE.search(reason)", "False"),
    "m06": ("read_only", "view.setflags(write=False)", "pass"),
    "m13": ("_move", "path.name == _RUN", "(path.name != _RUN)"),
    "m17": ("_Batch._asked", "not self.weighed", "self.weighed"),
    "m18": ("_Counted.__call__", "as_numbers(y, self.model)", "None"),
    "m21": ("FixedColumns.admit", "isinstance(matrix, np.ndarray)", "False"),
    "m24": ("unpacked", "raise Damaged(str(error)) from error", "pass"),
    "m28": ("RedisReader._check", "n_present = added - self._added", "n_present = added"),
    "m36": ("Follow.mark", "return mark", "return None"),
    "m39": ("_ready", "not isinstance(X, np.ndarray) and", "False"),
    "m42": ("Screening._step", "self._xz_, self._within_ = (m.xz, m.within)", "pass"),
    "m44": ("BayesLearner.step", "not leading.holds_all", "leading.holds_all"),
    "m45": ("decided", "return model", "return None"),
    "m46": ("is_utf8", "data.isascii() or data.decode()", "(data.isascii() and data.decode())"),
    "m51": ("SvmlightStream._rows", "wrong[y != np.round(y)] = 2", "pass"),
    "m52": ("BayesLearner._chance", "np.maximum", "np.minimum"),
    "m57": ("_Evaluation.__post_init__", "isinstance(window, StabilityWindow)", "True"),
    "m58": ("cut", "max_wait is not None", "max_wait is None"),
    "m60": ("_check_model", "raise ValueError(", "pass"),
}
"""Mutants of statements that were rewritten: in which function each is now, and what becomes what.

An old text is the beginning of what ``ast.unparse`` writes for a node; the least such node counts.
"""

ROOT = Path(__file__).parents[1]
SOURCES = "src/fires"
PARTS = ("core", "kernels", "models", "selectors", "evaluation", "run", "columns", "streams")
"""The folders that they are drawn from."""
SEED, N_MUTANTS = 27, 60
STAGES = (10.0, 60.0, 300.0)
"""Seconds of tests, as long as they usually take: the most telling first, in a process each."""
HANG, START = 10.0, 180.0
"""Tests hang if they take so many times as long, and so many seconds for imports and compiling."""
FAST = 0.5
"""A test that takes longer comes after all that do not."""

Json = dict[str, Any]
Site = tuple[str, Any, str]
"""A kind of mutation, the node it changes, and what takes its place."""


# --- mutations ----------------------------------------------------------------------------------

_OTHER = {"Lt": "LtE GtE", "LtE": "Lt Gt", "Gt": "GtE LtE", "GtE": "Gt Lt", "Eq": "NotEq"}
_OTHER |= {"NotEq": "Eq", "Is": "IsNot", "IsNot": "Is", "In": "NotIn", "NotIn": "In"}
_OTHER |= {"Add": "Sub", "Sub": "Add", "Mult": "Div", "Div": "Mult", "FloorDiv": "Mult"}
_OTHER |= {"Mod": "FloorDiv", "Pow": "Mult", "BitAnd": "BitOr", "BitOr": "BitAnd"}
_OTHER |= {"And": "Or", "Or": "And"}
_EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "nanmin": "nanmax"}
_EXTREMES |= {other: name for name, other in _EXTREMES.items()}
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_UNCHANGED = ("annotation", "targets", "target", "exc", "cause")


def with_other(node: Any, op: ast.AST) -> list[str]:
    """A node with other operators in place of its first one, as text."""
    found = []
    for name in _OTHER.get(type(op).__name__, "").split():
        other, new = copy.copy(node), getattr(ast, name)()
        if isinstance(node, ast.Compare):
            other.ops = [new, *node.ops[1:]]
        else:
            other.op = new
        text = ast.unparse(other)
        found.append(f"({text})" if isinstance(node, ast.expr) else text)
    return found


def variants(node: Any) -> Iterator[tuple[str, list[str]]]:  # noqa: C901 - a table of cases
    """The kinds of mutation that a node admits, and what to put in its place."""
    match node:
        case ast.Compare(ops=[op, *_]):
            yield "compare", with_other(node, op)
        case ast.BinOp(op=op) if not (is_text(node.left) or is_text(node.right)):
            yield "arithmetic", with_other(node, op)
        case ast.AugAssign(op=op) if not is_text(node.value):
            yield "arithmetic", with_other(node, op)
        case ast.BoolOp(op=op):
            yield "and/or", with_other(node, op)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", [f"({ast.unparse(operand)})"]
        case ast.Constant(value=bool(value)):
            yield "constant", [f"{not value}"]
        case ast.Constant(value=int(value)):
            yield "constant", [f"({value + 1})", f"({value - 1})"]
        case ast.Constant(value=float(value)):
            yield "constant", [f"({-value})" if value else "1.0"]
        case ast.Name(id=name) if name in _EXTREMES:
            yield "min/max", [_EXTREMES[name]]
        case ast.Attribute(attr=name) if name in _EXTREMES:
            yield "min/max", [f"{ast.unparse(node.value)}.{_EXTREMES[name]}"]
        case ast.If() | ast.IfExp():
            yield "branch", ["True", "False"]
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return", ["return None"]
    match node:
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "delete", ["pass"]
        case ast.AugAssign() | ast.Raise() | ast.Expr(value=ast.Call()):
            yield "delete", ["pass"]


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def sites(statement: ast.stmt) -> list[Site]:
    """The mutations of a statement, but not of those within it; equal texts have them alike."""
    found, waiting = [], [statement]
    while waiting:
        node = waiting.pop(0)
        for kind, texts in variants(node):
            place = node.test if kind == "branch" else node
            found += [(kind, place, text) for text in texts]
        for name, value in ast.iter_fields(node):
            if name not in _UNCHANGED and not (isinstance(node, ast.stmt) and name in _BODIES):
                parts = value if isinstance(value, list) else [value]
                waiting += [part for part in parts if isinstance(part, ast.AST) and admits(part)]
    return found


def admits(node: ast.AST) -> bool:
    """Whether there may be mutations inside: not in messages, nor in what is logged."""
    is_logged = isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_LOG.")
    return not (is_logged or isinstance(node, ast.JoinedStr))


def header(statement: ast.stmt) -> str:
    """A statement as text, without others in it, and without types."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return f"{ast.unparse(statement.target)} = {ast.unparse(statement.value)}"
    text = ast.unparse(statement)
    return text.split("\n")[0] if hasattr(statement, "body") else text


class Function(NamedTuple):
    """A function of a tree: where it is, what is in it, and the identifiers it uses."""

    file: str
    name: str
    statements: list[ast.stmt]
    words: set[str]
    is_compiled: bool

    @property
    def key(self) -> str:
        """What the record of calls names it."""
        return f"{self.file}:{self.name}"

    @property
    def bare(self) -> str:
        """Its name without that of a class."""
        return self.name.rpartition(".")[2]

    @property
    def module(self) -> str:
        """The last part of the name of its module."""
        path = Path(self.file).with_suffix("")
        return path.parent.name if path.name == "__init__" else path.name


def functions_of(file: str, source: str) -> list[Function]:
    """The functions of a file, those of one name as one; also what is set outside of functions."""
    found: dict[str, Function] = {}

    def add(name: str, node: ast.AST, compiled: bool = False) -> Function:
        words = {getattr(n, "id", None) or getattr(n, "attr", "") for n in ast.walk(node)}
        return found.setdefault(name, Function(file, name, [], words, compiled))

    def visit(body: list[Any], prefix: str, inside: Function | None) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.", None)
            elif isinstance(node, ast.FunctionDef):
                name = f"{prefix}{node.name}"
                compiled = any("compiled" in ast.unparse(d) for d in node.decorator_list)
                visit(node.body, f"{name}.", add(name, node, compiled))
            elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
                if inside is not None and not isinstance(node, ast.Assert):
                    inside.statements.append(node)
                elif isinstance(node, ast.Assign):
                    add(f"{prefix}{ast.unparse(node.targets[0])}", node)
                for inner in (inner for part in _BODIES for inner in getattr(node, part, [])):
                    is_case = isinstance(inner, (ast.ExceptHandler, ast.match_case))
                    visit(inner.body if is_case else [inner], prefix, inside)

    visit(ast.parse(source).body, "", None)
    return list(found.values())


@dataclass(frozen=True)
class Mutant:
    """A mutation, named by the function, the statement (which of equal ones) and its site there."""

    id: str
    file: str
    function: str
    statement: str
    nth: int
    site: int
    said: str

    def __str__(self) -> str:
        return f"{self.id} {self.file}:{self.function}: {self.said}"


def draw(functions: list[Function]) -> list[Mutant]:
    """The mutants: every kind as often as the others, and at most one in a function."""
    every: dict[str, list[tuple[Function, int, int]]] = defaultdict(list)
    for function in functions:
        for place, statement in enumerate(function.statements):
            for number, (kind, *_) in enumerate(sites(statement)):
                every[kind].append((function, place, number))
    draws, kinds, mutants = random.Random(SEED), sorted(every), {}
    while len(mutants) < N_MUTANTS:
        kind = kinds[len(mutants) % len(kinds)]
        function, place, number = draws.choice(every[kind])
        if function.key in mutants:
            continue
        texts = list(map(header, function.statements))
        _, node, new = sites(function.statements[place])[number]
        said = f"{kind}: {ast.unparse(node)} -> {new}"
        where = function.file, function.name, texts[place], texts[:place].count(texts[place])
        mutants[function.key] = Mutant(f"m{len(mutants) + 1:02d}", *where, number, said)
    return list(mutants.values())


def is_renamed(old: str, new: str) -> bool:
    """Whether two texts are the same but for names, which are other ones now."""
    ours, theirs = (re.split(r"([^\W\d]\w*)", text) for text in (old, new))
    pairs = list(zip(ours, theirs, strict=False))
    return len(ours) == len(theirs) and all(
        a == b or b in RENAMED.get(a, "").split() for a, b in pairs
    )


# --- trees --------------------------------------------------------------------------------------


def git(*arguments: str, where: Path = ROOT) -> bytes:
    return subprocess.run(["git", *arguments], cwd=where, check=True, capture_output=True).stdout


class Tree:
    """A copy of a folder or a commit, with what its tests call, and the verdicts on it."""

    def __init__(self, what: str, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            copied = Path(scratch, "tree")
            if Path(what).is_dir():
                copy_folder(Path(what), copied)
            else:
                with tarfile.open(fileobj=io.BytesIO(git("archive", what))) as archive:
                    archive.extractall(copied, filter="data")
            self.home = cache / digest(copied)
            self.path, self.verdicts = self.home / "tree", self.home / "verdicts.json"
            if not self.path.exists():
                self.home.mkdir(exist_ok=True)
                copied.rename(self.path)
        say(f"{what} is {self.path}")

    @cached_property
    def functions(self) -> list[Function]:
        """All functions of the sources."""
        top, found = self.path / SOURCES, []
        for file in sorted(top.rglob("*.py")):
            found += functions_of(file.relative_to(top).as_posix(), file.read_text("utf-8"))
        return found

    def find(self, mutant: Mutant) -> tuple[Function, Site] | str:
        """The place of a mutant, in whatever file; or why there is none."""
        bare = mutant.function.rpartition(".")[2]
        near = [f for f in self.functions if is_renamed(bare, f.bare)]
        with_class = [f for f in near if is_renamed(mutant.function, f.name)]
        for functions in ([f for f in with_class if f.file == mutant.file], with_class, near):
            found = []
            for function in functions:
                equal = [s for s in function.statements if is_renamed(mutant.statement, header(s))]
                if len(equal) > mutant.nth:
                    found.append((function, sites(equal[mutant.nth])[mutant.site]))
            if found:
                several = f"its statement is in {len(found)} functions of that name"
                return found[0] if len(found) == 1 else several
        gone = "no such statement" if near else "no such function"
        return self._find_moved(*MOVED[mutant.id]) if mutant.id in MOVED else gone

    def _find_moved(self, name: str, old: str, new: str) -> tuple[Function, Site] | str:
        found = {
            ast.unparse(node): (function, ("moved", node, new))
            for function in (function for function in self.functions if function.name == name)
            for node in (node for part in function.statements for node in ast.walk(part))
            if isinstance(node, (ast.stmt, ast.expr)) and ast.unparse(node).startswith(old)
        }
        return found[min(found, key=len)] if found else "it was moved, and is not there"

    @cached_property
    def tests(self) -> dict[str, tuple[float, frozenset[str]]]:
        """The tests that pass: how long each takes, and the functions that it calls."""
        if not (record := self.home / "calls.json").exists():
            say("recording what the fast tests call: once for a tree")
            with tempfile.TemporaryDirectory() as folder:
                options = ["-n", "2", "--dist", "worksteal", "-m", "not slow"]
                run_pytest(self.path, options, None, MUTANTS_MAP=folder)
                parts = [json.loads(part.read_text()) for part in Path(folder).iterdir()]
            if not any(part["tests"] for part in parts):
                sys.exit(f"no test has passed: see {self.home / 'output.txt'}")
            record.write_text(json.dumps(parts))
        return {
            test: (seconds, frozenset(part["functions"][i] for i in called))
            for part in json.loads(record.read_text())
            for test, (seconds, called) in part["tests"].items()
        }

    @cached_property
    def callers(self) -> dict[str, set[str]]:
        """The tests that call each function, by its key."""
        found: dict[str, set[str]] = defaultdict(set)
        for test, (_, called) in self.tests.items():
            for name in called:
                found[name].add(test)
        return found

    @cached_property
    def words(self) -> dict[str, set[str]]:
        """The words of each file of tests, and of each source."""
        files = {file_of(test): self.path for test in self.tests}
        files |= {function.file: self.path / SOURCES for function in self.functions}
        return {f: set(re.findall(r"\w+", (top / f).read_text())) for f, top in files.items()}

    def covering(self, function: Function) -> set[str]:
        """The tests that call a function, or else those that are likely to."""
        called = set() if function.is_compiled else self.callers[function.key]
        found = called or self.covering_by_name(function) or self.calling_file(function.file)
        folder = f"tests/{function.file.split('/')[0]}/"  # where only other processes call it
        return found or {test for test in self.tests if test.startswith(folder)}

    def covering_by_name(self, function: Function) -> set[str]:
        """The tests of what names a compiled function, or names another one that does."""
        found, done, wanted = set(), set(), [function]
        while wanted:
            done |= {f.key for f in wanted}
            found |= {test for test in self.tests if self.names(file_of(test), wanted)}
            naming = [f for f in self.functions if self.names(f.file, wanted, f.words)]
            for f in naming:  # a table of loops, or one that is set in a class, is not called
                found |= self.callers[f.key] if f.statements else self.calling_file(f.file)
            wanted = [f for f in naming if f.key not in done and (f.is_compiled or not found)]
        return found

    def calling_file(self, file: str) -> set[str]:
        """The tests that call any function of a file."""
        keys = [key for key in self.callers if key.startswith(f"{file}:")]
        return set().union(*(self.callers[key] for key in keys))

    def names(self, file: str, functions: list[Function], words: set[str] | None = None) -> bool:
        """Whether some words, or those of a file, name a function which the file knows."""
        there = self.words[file]
        return any(
            f.bare in (words or there) and (f.file == file or f.module in there) for f in functions
        )

    def stages(self, function: Function) -> tuple[list[list[str]], int]:
        """The tests for a function, cut by time; and how many there is no time for.

        The most telling come first, file by file, and long ones at the end.
        """
        tests, n_called = self.covering(function), defaultdict(list)
        for test in tests:
            n_called[file_of(test)].append(len(self.tests[test][1]))
        part, module = function.file.split("/")[0], function.module

        def rank(test: str) -> tuple[Any, ...]:
            file, seconds = file_of(test), self.tests[test][0]
            near = 0 if module in Path(file).stem else 1 if f"/{part}/" in file else 2
            calls = sum(n_called[file]) / len(n_called[file])
            return seconds > FAST, near, calls, file, seconds, test

        stages: list[list[str]] = [[] for _ in (*STAGES, "too late")]
        total = 0.0
        for test in sorted(tests, key=rank):
            total += self.tests[test][0]
            stages[sum(total > most for most in STAGES)].append(test)
        *stages, late = stages
        return [stage for stage in stages if stage], len(late)


def copy_folder(folder: Path, to: Path) -> None:
    """Copy what git knows, and compiled loops: they are good while the times of files stay."""
    listed = git("ls-files", "-z", "-co", "--exclude-standard", where=folder).decode().split("\0")
    loops = [path.relative_to(folder) for path in folder.glob("src/**/__pycache__/*.nb?")]
    for name in [*filter(None, listed), *loops]:
        if (folder / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(folder / name, to / name)


def digest(folder: Path) -> str:
    """Of sources and tests."""
    found = hashlib.sha256()
    for path in sorted([*(folder / "src").rglob("*"), *(folder / "tests").rglob("*")]):
        if path.is_file() and path.parent.name != "__pycache__":
            found.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def file_of(test: str) -> str:
    return test.split("::")[0]


# --- trials -------------------------------------------------------------------------------------

_DEATHS = {None: "a hang", 2: "an import that fails"}
_DEATHS |= {-n: n.name for n in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE)}
_RUNNING: set[int] = set()
_WRITING = threading.Lock()


def run_pytest(tree: Path, options: list[str], limit: float | None, **more: str) -> int | None:
    """Run pytest in a tree; returns its status, or None if it hangs."""
    with tempfile.TemporaryDirectory() as folder, (tree.parent / "output.txt").open("w") as output:
        shutil.copy(Path(__file__).with_name("mutants_plugin.py"), folder)
        paths = os.pathsep.join([str(tree / "src"), str(tree), folder])
        environment = os.environ | {"PYTHONPATH": paths} | more
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start many processes
        if (data := ROOT.parent / "shared" / "data").is_dir():
            environment.setdefault("FIRES_DATA_DIR", str(data))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants_plugin", *options]
        how: Json = {"stdout": output, "stderr": subprocess.STDOUT, "start_new_session": True}
        child = subprocess.Popen(
            [*command, "-p", "no:cacheprovider"], cwd=tree, env=environment, **how
        )
        _RUNNING.add(child.pid)
        try:
            return child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return None
        finally:
            _RUNNING.discard(child.pid)


def run_tests(tree: Path, tests: list[str], usual: float) -> tuple[int | None, str]:
    """Run tests up to the first failure; returns the status, and the test that failed."""
    with tempfile.TemporaryDirectory() as folder:
        chosen, failed = Path(folder, "chosen.json"), Path(folder, "failed.txt")
        chosen.write_text(json.dumps(tests))
        files = list(dict.fromkeys(map(file_of, tests)))
        more = {"MUTANTS_RUN": str(chosen), "MUTANTS_FAILED": str(failed)}
        status = run_pytest(tree, ["-x", "-m", "not slow", *files], HANG * usual + START, **more)
        return status, failed.read_text() if failed.exists() else ""


def mutate(tree: Path, function: Function, site: Site) -> None:
    """Change one place in a tree, and remove the compiled loops which that may change."""
    path, (_, node, text) = tree / SOURCES / function.file, site
    lines = path.read_bytes().splitlines(keepends=True)
    start = len(b"".join(lines[: node.lineno - 1])) + node.col_offset
    end = len(b"".join(lines[: node.end_lineno - 1])) + node.end_col_offset
    source = b"".join(lines)
    source = source[:start] + text.encode() + source[end:]
    ast.parse(source)
    path.write_bytes(source)
    if b"import compiled" in source or function.file.startswith("kernels/"):
        for loop in (tree / SOURCES).rglob("*.nb?"):  # numba does not look at other files
            loop.unlink()


def trial(tree: Tree, mutant: Mutant) -> Json:
    """Try a mutant; returns the verdict."""
    place = tree.find(mutant)
    if isinstance(place, str):
        return {"verdict": "gone", "by": place}
    stages, n_late = tree.stages(place[0])
    with tempfile.TemporaryDirectory(dir=tree.home) as scratch:
        copied = Path(shutil.copytree(tree.path, Path(scratch, "tree")))
        mutate(copied, *place)
        for stage in stages:
            while stage:
                usual = sum(tree.tests[test][0] for test in stage)
                status, failed = run_tests(copied, stage, usual)
                if status == 0:
                    break
                if status == 1 and failed in stage:
                    if run_tests(tree.path, [failed], tree.tests[failed][0])[0] == 0:
                        return {"verdict": "caught", "by": failed}
                    stage = stage[stage.index(failed) + 1 :]  # it fails without the mutant too
                    continue
                said = (copied.parent / "output.txt").read_text()[-2000:]
                if status == 1 and "ERROR collecting" in said:  # with -x it is 1, otherwise 2
                    status = 2
                if status in _DEATHS:
                    return {"verdict": "caught", "by": _DEATHS[status]}
                return {"verdict": "error", "by": f"pytest ended with {status}", "said": said}
    if n_late:
        return {"verdict": "timeout", "by": f"{n_late:,} tests were not run"}
    return {"verdict": "survived", "by": f"{sum(map(len, stages)):,} tests"}


def try_all(tree: Tree, mutants: list[Mutant], jobs: int, *, again: bool) -> dict[str, Json]:
    """The verdicts on mutants, those that are known too; each is written as it comes."""
    known: dict[str, Json] = {}
    if tree.verdicts.exists():
        known = json.loads(tree.verdicts.read_text())
    sure = {
        mutant.id
        for mutant in mutants
        if known.get(mutant.id, {}).get("mutant") == asdict(mutant)
        and known[mutant.id]["verdict"] not in ("gone", "error")
    }
    left = [mutant for mutant in mutants if again or mutant.id not in sure]
    if any(not isinstance(tree.find(mutant), str) for mutant in left):
        say(f"{len(left)} mutants, {len(tree.tests):,} tests")
        _ = tree.callers, tree.words  # before there are threads

    def one(mutant: Mutant) -> None:
        started = time.perf_counter()
        verdict = {"mutant": asdict(mutant), **trial(tree, mutant)}
        verdict["seconds"] = round(time.perf_counter() - started, 1)
        with _WRITING:
            known[mutant.id] = verdict
            draft = tree.verdicts.with_suffix(".tmp")
            draft.write_text(json.dumps(known, indent=1) + "\n")
            draft.replace(tree.verdicts)
            left.remove(mutant)
            say(f"{line(mutant, verdict)} ({verdict['seconds']} s; {len(left)} left)")

    with ThreadPoolExecutor(jobs) as threads:
        try:
            list(threads.map(one, list(left)))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            for child in list(_RUNNING):
                os.killpg(child, signal.SIGKILL)
            raise
    return {mutant.id: known[mutant.id] for mutant in mutants}


def line(mutant: Mutant, verdict: Json) -> str:
    return f"{mutant}  =>  {verdict['verdict']}: {verdict['by']}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--tree", default=str(ROOT), help="a folder or a commit")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="such as m03; tried again")
    parser.add_argument("--base", action="store_true", help="then what survives, on BASE")
    parser.add_argument("--list", action="store_true", help="only say where they are")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "fires-mutants")
    asked = parser.parse_args()
    base, tree = Tree(BASE, asked.cache), Tree(asked.tree, asked.cache)
    mutants = draw([f for f in base.functions if f.file.split("/")[0] in PARTS])
    mutants = [mutant for mutant in mutants if not asked.only or mutant.id in asked.only]
    if asked.list:
        for mutant in mutants:
            place = tree.find(mutant)
            print(mutant, " => ", f"gone: {place}" if isinstance(place, str) else place[0].key)
        return
    verdicts = try_all(tree, mutants, asked.jobs, again=bool(asked.only))
    for mutant in mutants:
        print(line(mutant, verdicts[mutant.id]))
    counts = Counter(verdict["verdict"] for verdict in verdicts.values())
    print(", ".join(f"{n} {verdict}" for verdict, n in counts.most_common()), tree.verdicts)
    if asked.base:
        survivors = [m for m in mutants if verdicts[m.id]["verdict"] not in ("caught", "gone")]
        before = try_all(base, survivors, asked.jobs, again=False)
        lost = [mutant for mutant in survivors if before[mutant.id]["verdict"] == "caught"]
        print(f"caught before and not after: {len(lost)}")
        for mutant in lost:
            print(line(mutant, before[mutant.id]))
        sys.exit(bool(lost))


if __name__ == "__main__":
    main()
