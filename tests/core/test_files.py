"""All that changes a file goes through one module."""

import ast
import errno
import os
from pathlib import Path

import pytest

import fires
from fires.core import files

SOURCES = Path(fires.__file__).parent
OF_OS = {"write", "pwrite", "fsync", "fdatasync", "replace", "rename", "renames", "unlink"}
OF_OS |= {"remove", "truncate", "ftruncate", "mkdir", "makedirs", "rmdir", "removedirs", "link"}
OF_OS |= {"symlink", "chmod", "fchmod", "mkfifo", "sendfile", "copy_file_range"}
OF_SHUTIL = {"rmtree", "move", "copy", "copy2", "copyfile", "copytree", "copyfileobj"}
OF_TEMPFILE = {"mkdtemp", "mkstemp", "NamedTemporaryFile", "TemporaryFile"}
OF_TEMPFILE |= {"TemporaryDirectory", "SpooledTemporaryFile"}
OF_PATHS = {"write_text", "write_bytes", "unlink", "rename", "mkdir", "rmdir", "touch", "truncate"}
OF_PATHS |= {"symlink_to", "hardlink_to", "chmod"}
OF_TABLES = {"sink_parquet", "sink_ipc", "sink_csv", "sink_ndjson", "write_ipc", "savefig"}

ELSEWHERE = {
    ("core/files.py", "*"): "the module",
    ("checks/selectors.py", "TemporaryDirectory"): "a check of the user's selector",
    ("cli/interrupts.py", "write"): "to standard output and standard error",
    ("cli/interrupts.py", "open"): "the null device",
    ("streams/columnar.py", "write"): "to standard error",
    ("streams/columnar.py", "TemporaryFile"): "holds standard error for so long",
    ("core/output.py", "rename"): "the columns of a frame",
    ("run/locking.py", "open"): "to read",
    ("run/locking.py", "chmod"): "a lock whose mode stays as it is locks too",
    ("integrations/spark/store.py", "rename"): "Hadoop writes it",
    ("rivals/rows/second_order.py", "truncate"): "a setting: which weights are kept",
    ("report/figures.py", "savefig"): "into memory",
    ("cli/apply.py", "sink_parquet"): "polars itself writes the draft",
    ("cli/apply.py", "sink_ipc"): "polars itself writes the draft",
    ("cli/apply.py", "write_ipc"): "polars itself writes the draft",
}


def changes_files(node):
    """Whether a name that is used, or a call, may change a file."""
    if isinstance(node, ast.Attribute):
        of = node.value.id if isinstance(node.value, ast.Name) else None
        known = {"os": OF_OS, "shutil": OF_SHUTIL, "tempfile": OF_TEMPFILE, "files": ()}
        return node.attr in known.get(of, OF_PATHS | OF_TABLES)
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", None))
    if name == "replace":  # of a text, it takes two
        return len(node.args) == 1 and not node.keywords
    if name == "open" and getattr(getattr(node.func, "value", None), "id", None) == "os":
        return ast.unparse(node.args[1]) != "os.O_RDONLY"
    if name in ("open", "fdopen"):
        given = [*node.args[:2], *(word.value for word in node.keywords if word.arg == "mode")]
        modes = [one.value for one in given if isinstance(one, ast.Constant)]
        return any(isinstance(mode, str) and set("wax+") & set(mode) for mode in modes)
    return name in OF_TEMPFILE


def test_no_other_module_changes_files():
    found = set()
    for path in SOURCES.rglob("*.py"):
        name = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if changes_files(node):
                function = getattr(node, "func", node)
                call = getattr(function, "attr", getattr(function, "id", ""))
                found.add((name, call if name != "core/files.py" else "*"))
    assert found == set(ELSEWHERE)


def test_a_file_that_is_not_to_survive_a_crash_is_replaced_whole_too(tmp_path):
    files.replace_file(tmp_path / "x", b"1", sync=False)
    files.replace_file(tmp_path / "x", b"2", sync=False)
    assert (os.listdir(tmp_path), (tmp_path / "x").read_bytes()) == (["x"], b"2")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors")
def test_a_file_whose_name_cannot_be_flushed_is_not_left_open(tmp_path, monkeypatch):
    def fails(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError):
        files.open_to_append(tmp_path / "x")
    assert len(os.listdir("/proc/self/fd")) == before
