"""``fires predict`` and ``fires transform``: new rows go through a saved run."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from fires.cli import options
from fires.cli.interrupts import EndsEarly, let_signals_through, quick_imports
from fires.cli.progress import one_bar, seen
from fires.cli.reading import OF_TEXT, Notices, Reading, rejected_lines
from fires.cli.text import SCORES, message, printable, score_text, tried
from fires.core import files
from fires.core.errors import InputError
from fires.core.output import frame_as_text

if TYPE_CHECKING:
    from io import BytesIO

    import polars as pl

    from fires.columns import Column, Hints
    from fires.columns.schema import Kind
    from fires.columns.target import Target
    from fires.core.types import Labels
    from fires.pipeline import OnlinePipeline
    from fires.run.saved import SavedRun
    from fires.streams.files import RowReader, Rows


_CELLS = 1_000_000  # of rows that are dealt with at once
_NEW_ROWS = options.part(Reading, only=OF_TEXT)


def write_rows(
    reader: RowReader, make: Predict | Reduce, output: RowOutput, *, width: int, quiet: bool
) -> None:
    """Read all rows, and write what is made of them; whatever ends it early, they are whole."""
    let_signals_through()
    notices = Notices(reader, quiet)
    source = EndsEarly(reader.batches(max(1, _CELLS // max(width, 1))), output)
    # A bar would be drawn across the rows.
    hidden = quiet or (output.name == STANDARD and sys.stdout.isatty())
    began = time.perf_counter()
    with source, one_bar("0 rows", total=reader.n_bytes, hidden=hidden) as show:
        for rows in source:
            output.write(make(rows))
            show(partial(seen, output.n_rows, began, rows[2]))
    if source.signal is not None and not output.n_rows:
        raise KeyboardInterrupt
    if isinstance(source.error, BrokenPipeError):  # whoever read the output has seen enough
        raise source.error
    notices.tell()
    unsaved = tried(output.publish)
    told = [] if quiet else [*filter(None, [reader.absent()]), *make.lines()]
    for line in (*rejected_lines(reader.rejected), *told):
        click.echo(printable(line), err=True)
    done = f"{output.n_rows:,} rows are written to {output.name}"
    if unsaved is not None:
        done = f"nothing is saved: {message(unsaved)}"
    if source.reason is not None or unsaved is not None:
        source.tell_end(done, unsaved)
    if output.name != STANDARD and not quiet:
        click.echo(printable(f"{output.n_rows:,} rows written to {output.name}"))


def _saved_run(path: Path) -> SavedRun:
    with quick_imports():
        from fires.run.saved import SavedRun
    return SavedRun(path)


_PREDICTION = "prediction"
_STRONGEST = 3  # contributions that --explain writes


@options.command("predict", options.debug)
def predict(
    run: Path = options.RUN,
    reading: Reading = _NEW_ROWS,
    id_: str | None = options.option("COL", "", "--id"),
    proba: bool = options.flag(),
    explain: bool = options.flag(),
    out: Path | None = options.out_file("the predictions go"),
    overwrite: bool = options.OVERWRITE,
    quiet: bool = options.QUIET,
) -> None:
    """Predict the target of the rows in FILE with the model of RUN.

    RUN is a folder written by fires select --out. FILE is anything that fires select reads;
    its columns are read as they were in the run. Only the selected columns are needed, in any
    order; other columns are ignored. After fires select --columns open, they may be absent too,
    with a notice. The output has the number of each row, starting at 1, and its prediction.
    Rows that cannot be read are numbered too, but skipped and reported.

    If FILE has the target too, the score of the predictions is printed to standard error. If the
    command ends early, all rows processed before that are written completely.

    Parameters
    ----------
    id_
        A column that identifies the rows, in place of their number.
    proba
        Add the probability of each class.
    explain
        Add the three features that contribute most to each row, with their contributions.

    Examples
    --------
    fires predict run/ new.csv > predictions.csv
    fires predict run/ "new/*.parquet" --id customer --out predictions.parquet
    zcat new.csv.gz | fires predict run/ -
    """
    saved = _saved_run(run)
    if proba and not saved.pipeline.gives_probabilities:
        name = type(saved.pipeline.predictor).__name__
        raise InputError(f"{run}: its predictor, a {name}, gives no probabilities")
    if explain and not saved.pipeline.explains:
        raise InputError(f"{run}: contributions need a linear model with update='bayes'")
    if id_ == _PREDICTION:
        raise InputError(f'the column of --id cannot be called "{_PREDICTION}"')
    target = saved.target
    kinds: dict[str, Kind] = {
        column.name: "number" if column.is_plain else "category" for column in saved.selected
    }
    with open_output(out, overwrite=overwrite) as output:
        reader = reading.rows(
            kinds,
            keep=() if id_ is None else (id_,),
            if_present=() if target is None else (target.column.name,),
            may_lack=saved.is_open,
        )
        if target is not None and target.column.name not in reader.names:
            target = None
        predict = Predict(saved.pipeline, id_, target, proba=proba, explain=explain)
        write_rows(reader, predict, output, width=saved.pipeline.n_features_in_, quiet=quiet)


@dataclass
class Predict:
    """Makes the table of predictions, and compares them with the target, where a row has one."""

    pipeline: OnlinePipeline
    id_: str | None = None
    target: Target | None = None
    proba: bool = False
    explain: bool = False

    def __post_init__(self) -> None:
        from fires.metrics.prediction import Scores

        classes = len(self.pipeline.selector.label_index) > 0
        self._scores = Scores(("accuracy", "balanced_accuracy") if classes else ("r2", "mae"))
        self._n_rows, self._why = 0, "it is empty"

    def __call__(self, rows: Rows) -> pl.DataFrame:
        """Predict some rows."""
        import polars as pl

        frame, numbers, _ = rows
        named = pl.Series("row", numbers) if self.id_ is None else frame[self.id_]
        if not len(frame):
            return pl.DataFrame([named, pl.Series(_PREDICTION, [], dtype=pl.String)])
        X = self._encoded(frame)
        predicted = self.pipeline.predict(X)
        table = [named, pl.Series(_PREDICTION, predicted)]
        if self.proba:
            found = self.pipeline.predict_proba(X)
            table += [
                pl.Series(f"probability of {label}", found[:, k])
                for k, label in enumerate(self.pipeline.classes_.tolist())
            ]
        if self.explain:
            table.append(pl.Series("contributions", self._strongest(X)))
        if self.target is not None and self.target.column.name in frame.columns:
            self._compare(self.target, frame, predicted)
        return pl.DataFrame(table)

    def _strongest(self, X: Any) -> list[str]:
        """Of each row, the features that add most to its linear predictor."""
        import numpy as np

        with warnings.catch_warnings():  # of pairs: lines() has them
            warnings.simplefilter("ignore", UserWarning)
            effect = np.asarray(self.pipeline.contributions(X).effect)
        names = self.pipeline.selector.get_feature_names_out().tolist()
        order = np.argsort(-np.abs(effect), axis=1, kind="stable")[:, :_STRONGEST]
        return [
            ", ".join(f"{names[j]} {row[j]:+.3g}" for j in best.tolist())
            for row, best in zip(effect, order, strict=True)
        ]

    def _encoded(self, frame: pl.DataFrame) -> Any:
        """The rows as numbers. What is not selected says nothing, and need not be there."""
        columns = self.pipeline.columns_
        if self.pipeline.open_names is None:
            return columns.transform(frame)
        from fires.core.named import NamedRows

        present = columns.among(frame.columns)
        used = present if present.names else columns  # or all are missing
        return NamedRows(used.transform(frame), used.names)

    def _compare(self, target: Target, frame: pl.DataFrame, predicted: Labels) -> None:
        labels = target.read(frame[target.column.name])
        if labels.usable is not None:
            predicted = predicted[labels.usable]
            self._why = next(iter(labels.reasons.values()), self._why)
        if len(labels.y):
            self._scores.update(labels.y, predicted)
            self._n_rows += len(labels.y)

    def lines(self) -> list[str]:
        """What contributions leave out, and how good the predictions were."""
        pairs = self.pipeline.selector.pairs_ if self.explain else []
        left_out = [f"contributions do not include interactions: {len(pairs)} found"] * bool(pairs)
        if self.target is None:
            return left_out
        if not self._n_rows:
            return [*left_out, f"no score: {self._why}"]
        shown = [
            f"{SCORES[name]} {score_text(name, value)}"
            for name, value in self._scores.total.items()
            if value == value
        ]
        return [*left_out, f"{', '.join(shown)} on {self._n_rows:,} rows with a target"]


@options.command("transform", options.debug)
def transform(
    run: Path = options.RUN,
    reading: Reading = _NEW_ROWS,
    keep: tuple[str, ...] = options.columns(),
    out: Path | None = options.out_file("the rows go"),
    overwrite: bool = options.OVERWRITE,
    quiet: bool = options.QUIET,
) -> None:
    """Reduce FILE to the columns that RUN has selected.

    RUN is a folder written by fires select --out. FILE is anything that fires select reads.
    The values stay as they are in FILE: text is not encoded, nothing is scaled. But where text
    goes to Parquet or Arrow, columns of plain numbers become numbers. Columns to keep come first.
    After fires select --columns open, selected columns may be absent: then they are empty.

    Rows that cannot be read are skipped and reported. If the command ends early, all rows processed
    before that are written completely.

    Parameters
    ----------
    keep
        More columns to keep, such as an id or the target, separated by commas.

    Examples
    --------
    fires transform run/ new.csv --out reduced.parquet
    fires transform run/ "new/*.csv" --keep customer,label > reduced.csv
    """
    saved = _saved_run(run)
    with open_output(out, overwrite=overwrite) as output:
        names = [column.name for column in saved.selected]
        reader = reading.rows(dict.fromkeys(names, "category"), keep, may_lack=saved.is_open)
        kept = [name for name in reader.names if name not in names]
        numbers = [column for column in saved.selected if column.is_plain and output.is_typed]
        reduce = Reduce([*kept, *names], numbers, saved.columns.hints)
        write_rows(reader, reduce, output, width=len(names), quiet=quiet)


class Reduce:
    """Makes the table of the selected columns."""

    def __init__(self, names: list[str], numbers: list[Column], hints: Hints) -> None:
        self._names, self._numbers, self._hints = names, numbers, hints
        self._n_lost = dict.fromkeys((column.name for column in numbers), 0)

    def __call__(self, rows: Rows) -> pl.DataFrame:
        """Reduce some rows."""
        import polars as pl

        from fires.columns.kinds import read_cells

        frame = rows[0]
        lacking = [name for name in self._names if name not in frame.columns]
        frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in lacking)
        frame = frame.select(self._names)
        found = []
        for column in self._numbers:
            if frame[column.name].dtype == pl.String:
                cells = read_cells(frame[column.name], column, self._hints)
                self._n_lost[column.name] += cells.n_unreadable
                found.append(cells.values)
        return frame.with_columns(found)

    def lines(self) -> list[str]:
        """What the user should know of cells that are no numbers."""
        return [
            f'column "{name}": {n_lost:,} cell{"s" * (n_lost > 1)} of text in a numeric column '
            f"{'are' if n_lost > 1 else 'is'} left empty"
            for name, n_lost in self._n_lost.items()
            if n_lost
        ]


# --- where the rows go: standard output, or a file of some kind ----------------------------------

# What messages call it.
STANDARD = "standard output"

_KINDS = {".csv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"}
_KINDS |= {".arrow": "Arrow", ".feather": "Arrow"}
_PART_CELLS = 1_000_000


def open_output(path: Path | None, *, overwrite: bool) -> RowOutput:
    """Make room for rows."""
    if path is None:
        return RowOutput()
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(
            f"{path} does not show its format in its name",
            hint="give a name that ends with .csv, .parquet or .arrow",
        )
    options.refuse_there(path, overwrite=overwrite)
    return RowOutput(path) if kind == "CSV" else TypedFile(path, kind)


class RowOutput(contextlib.AbstractContextManager["RowOutput"]):
    """Rows as CSV, as soon as they are known: on standard output or in a file.

    A file is written beside its place, and moved there when it is whole.
    """

    is_typed = False

    def __init__(self, path: Path | None = None) -> None:
        self.name = STANDARD if path is None else str(path)
        self.n_rows = self._n_bytes = 0
        self._file: BinaryIO = sys.stdout.buffer
        self._path, self._folder = path, Path()
        if path is not None:
            if path.is_dir():
                raise InputError(f"{path} is a directory")
            files.make_folder(path.parent)
            with files.naming(path):
                self._folder = files.draft_folder(".fires-", path.parent)
                self._file = files.open_new(self._folder / "rows.csv")

    def __exit__(self, *error: object) -> None:
        """Leave nothing behind but what was published."""
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            files.remove_tree(self._folder)

    def write(self, frame: pl.DataFrame) -> None:
        """Write some rows, whole."""
        data = _as_csv(frame, header=not self._n_bytes)
        with contextlib.nullcontext() if self._path is None else files.naming(self._path):
            self._file.write(data)
            self._file.flush()
        self._n_bytes += len(data)
        self.n_rows += len(frame)

    def publish(self) -> None:
        """Put what was written into place."""
        if self._path is not None:
            with contextlib.suppress(OSError):  # the disk was full: the last rows are not whole
                self._file.close()
            with files.naming(self._path):
                files.truncate(self._folder / "rows.csv", self._n_bytes)
                files.move(self._folder / "rows.csv", self._path)


class TypedFile(RowOutput):
    """Rows in a Parquet or Arrow file.

    Neither can be written row by row, so that what is there could be read at any time. The rows
    are kept in parts on the disk until the end.
    """

    is_typed = True

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path)
        self._place, self._kind = path, kind
        self._held: list[pl.DataFrame] = []
        self._n_held = 0
        self._parts: list[Path] = []

    def write(self, frame: pl.DataFrame) -> None:
        """See :meth:`RowOutput.write`."""
        self._held.append(frame)
        self._n_held += frame.height * frame.width
        self.n_rows += frame.height
        if self._n_held >= _PART_CELLS:
            self._write_part()

    def _write_part(self) -> None:
        import polars as pl

        rows = pl.concat(self._held, how="vertical_relaxed")
        part = self._folder / f"{len(self._parts):09}.arrow"
        try:
            self._to_disk(rows.write_ipc, part)
        except OSError:
            self.n_rows -= len(rows)
            raise
        finally:
            self._held, self._n_held = [], 0
        self._parts.append(part)

    def publish(self) -> None:
        """See :meth:`RowOutput.publish`."""
        import polars as pl

        if self._held or not self._parts:
            self._write_part()
        rows = pl.concat((pl.scan_ipc(part) for part in self._parts), how="vertical_relaxed")
        draft = self._folder / "rows"
        self._to_disk(rows.sink_parquet if self._kind == "Parquet" else rows.sink_ipc, draft)
        with files.naming(self._place):
            files.move(draft, self._place)

    def _to_disk(self, write: Callable[[Path], BytesIO | pl.LazyFrame | None], path: Path) -> None:
        """Let polars write a file; on a full disk, not all of its errors are of the system."""
        import polars as pl

        with files.naming(self._place):
            try:
                write(path)
            except pl.exceptions.PolarsError as error:
                raise OSError(None, next(iter(str(error).splitlines()), "cannot write")) from error


def _as_csv(frame: pl.DataFrame, *, header: bool) -> bytes:
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    if nested:
        raise InputError(
            f'column "{nested[0]}" holds lists or structures, which CSV cannot',
            hint="give --out a name that ends with .parquet",
        )
    objects = frame.select(pl.col(pl.Binary).cast(pl.String, strict=False))
    return frame_as_text(frame.with_columns(objects)).write_csv(include_header=header).encode()
