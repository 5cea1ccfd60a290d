"""Run folders on other file systems: the one seam.

A run is written in a local folder. For an address such as ``hdfs://host/run``, a
:class:`HadoopStore` carries it: it brings what is there before the run begins, and takes what is
new after every checkpoint. It uses the file systems that Spark itself knows: what Hadoop reaches,
with its settings.

What keeps every row from counting twice is the order: records first, the checkpoint last, and each
file in one step. A driver that dies in between leaves the checkpoint before, and records beyond
it, which are cut off when the run goes on. There is no lock on the far side: one driver at a time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fires.core import files
from fires.core.errors import InputError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


# The folder in that of the run where Spark keeps how far it has read.
OFFSETS = "spark"
_LEFT_HERE = (".lock", ".replaced", OFFSETS)
_CHECKPOINTS = "checkpoints"


def store_for(run: str, session: SparkSession) -> tuple[Path, HadoopStore | None]:
    """Where a run is written, and what carries it."""
    if "://" not in run:
        return Path(run), None
    folder = files.draft_folder("fires-run-")
    store = HadoopStore(run, session)
    store.fetch(folder)
    return folder, store


class HadoopStore:
    """A folder on any file system that Hadoop reaches.

    Files that grow, such as ``steps.jsonl``, are written whole each time.
    """

    def __init__(self, address: str, session: SparkSession) -> None:
        self._jvm = session.sparkContext._jvm
        self._gateway = session.sparkContext._gateway
        hadoop = self._jvm.org.apache.hadoop
        settings = session.sparkContext._jsc.hadoopConfiguration()
        self._root = hadoop.fs.Path(address)
        self._files = self._root.getFileSystem(settings)
        self._context = hadoop.fs.FileContext.getFileContext(self._root.toUri(), settings)
        self._known: dict[str, tuple[int, int]] = {}

    def fetch(self, folder: Path) -> None:
        """Bring what is there."""
        if not self._files.exists(self._root):
            return
        found = [status.getPath() for status in self._files.listStatus(self._root)]
        existing = {path.getName(): path for path in found}
        others = sorted(existing.keys() - {*_LEFT_HERE})
        if others and not {"run.json", "run.toml"} & existing.keys():
            what = f"{self._root.toString()} holds {others[0]} and no run of fires"
            raise InputError(what, hint="give another folder")
        for name in others:
            local = self._jvm.org.apache.hadoop.fs.Path((folder / name).as_uri())
            self._files.copyToLocalFile(False, existing[name], local, True)
        self._known = _files_in(folder)

    def forget_offsets(self) -> None:
        """Remove how far Spark has read."""
        if self._files.exists(self._path(f"{OFFSETS}/metadata")):
            self._files.delete(self._path(OFFSETS), True)

    def publish(self, folder: Path) -> None:
        """Take what is new or gone, the checkpoints last; each file in one step."""
        now = _files_in(folder)
        fresh = [name for name, facts in now.items() if self._known.get(name) != facts]
        for name in sorted(fresh, key=lambda name: name.startswith(_CHECKPOINTS)):
            self._put(folder / name, name)
        for name in self._known.keys() - now.keys():
            self._files.delete(self._path(name), False)
        self._known = now

    def _put(self, local: Path, name: str) -> None:
        """Write a file under another name, and then replace the old one in one step."""
        hadoop = self._jvm.org.apache.hadoop.fs
        target = self._path(name)
        draft = hadoop.Path(target.getParent(), f".fires-{target.getName()}.tmp")
        self._files.mkdirs(target.getParent())
        self._files.copyFromLocalFile(False, True, hadoop.Path(local.as_uri()), draft)
        rename = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename")
        how = self._gateway.new_array(getattr(hadoop, "Options$Rename"), 1)
        how[0] = rename.getField("OVERWRITE").get(None)
        self._context.rename(draft, target, how)

    def _path(self, name: str) -> JavaObject:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)


def _files_in(folder: Path) -> dict[str, tuple[int, int]]:
    """The files of a run, and when they changed last."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".tmp"]
    facts = {path.relative_to(folder): path.stat() for path in paths}
    kept = {name: one for name, one in facts.items() if name.parts[0] not in _LEFT_HERE}
    return {name.as_posix(): (one.st_mtime_ns, one.st_size) for name, one in kept.items()}
