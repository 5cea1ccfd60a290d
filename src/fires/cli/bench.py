"""``fires bench`` and ``fires data``: the paper's experiments, run again, and its data sets."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.progress import bars
from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.bench.cells import Cell
    from fires.bench.datasets.catalogue import Info
    from fires.bench.worker import Record


_JOBS = options.option(
    "N",
    "Number of processes, one thread each; by default the number of cores.",
    "-j",
    type=click.IntRange(min=1),
)


def _run(cells: Sequence[Cell], out: Path, jobs: int | None, **options: Any) -> list[Record]:
    """Run what has not been run yet, with bars; say first which cells are run again."""
    from fires.bench.kdd2020 import cores, note_run
    from fires.bench.runner import CELLS, finished, outdated, read_records, run_cells

    jobs, kept = jobs or cores(), read_records(out, options.get("file", CELLS))
    done = finished(cells, kept)
    if len(done) < len(cells):
        note_run(out, _command(), jobs)
    for why, n in outdated(cells, kept).items():
        click.echo(f"{_several(n, 'cell')} {'is' if n == 1 else 'are'} run again: {why}", err=True)
    before = f", {len(done):,} of them done before" if done else ""
    click.echo(f"{_several(len(cells), 'cell')}{before}; results go to {out}", err=True)
    with bars(cells) as progress:
        return run_cells(cells, out, jobs, progress, **options)


def _several(n: int, what: str) -> str:
    """A number of things."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def _finish(records: Sequence[Record], file: Path) -> None:
    """End with code 1 if something failed, and say in which file it stands."""
    if n_failed := sum("error" in record for record in records):
        click.echo(f"{_several(n_failed, 'cell')} failed; {file} has the details", err=True)
        sys.exit(1)


def _say_left_out(lines: Iterable[str]) -> None:
    """Say on standard error what is missing."""
    for line in lines:
        click.echo(printable(f"Left out: {line}"), err=True)


_METHODS = (  # what makes them takes long to import
    "OnlineBoosting, VFDT, FIRES-GLM, FIRES-ANN, FIRES-SDT, FIRES-ANN-authors, "
    "FIRES-SDT-authors, OFS, EFS, FSDS, all-features, random-features"
)


@click.group("bench")
def command() -> None:
    """Run the experiments of the paper (Haug et al., KDD 2020), or all methods on many streams."""


@options.command("kdd2020", group=command)
def _kdd2020(
    quick: bool = options.flag(),
    jobs: int | None = _JOBS,
    out: Path | None = options.out(
        "results, tables and figures.  [default: fires-kdd2020, with --quick fires-kdd2020-quick]",
        file_okay=False,
    ),
    datasets: str | None = options.option("A,B"),
    methods: str | None = options.option("X,Y", f"Only these of {_METHODS}.  [default: all]"),
    protocol: str = options.choice(("both", "as-published", "test-then-train", "honest")),
    batch_sizes: str = options.option("N,M", default="25,50,75,100"),
    fractions: str = options.option("A,B", default="0.1,0.15,0.2"),
    rows: int | None = options.option("N", type=click.IntRange(min=1)),
    no_figures: bool = options.flag(),
    no_run: bool = options.flag(),
) -> None:
    """Run the paper's experiments and compare with its published tables.

    Runs four batch sizes and three fractions of selected features, for each data set and method.
    Every result is saved to DIR/cells.jsonl at once: to continue an interrupted run, repeat the
    command. Boosting and VFDT learn row by row, and take hours.

    The figures, in DIR/figures, are the paper's, with the protocol as published: the pixels that
    distinguish MNIST's 3, 8 and 9; accuracy and stability over time, against each other, and for
    several penalties, on Gisette or, if that is incomplete, on MNIST or Madelon. They include the
    methods that were run, except Boosting and VFDT. They need matplotlib, the extra plot.

    Parameters
    ----------
    quick
        One setting, at most 3,000 rows; takes some minutes.
    datasets
        Only these data sets, see `fires data list`.  [default: all but RBF, which takes longest]
    protocol
        as-published: the paper's order and scaling. honest, or test-then-train: each batch is
        tested before it is learnt from.
    batch_sizes
        Only these batch sizes; not with --quick.
    fractions
        Only these fractions of selected features; not with --quick.
    rows
        Only the first N rows of each data set; not with --quick.
    no_figures
        Tables only.
    no_run
        Only rewrite the tables and figures, from saved results.
    """
    from fires.bench import figures, kdd2020, tables
    from fires.bench.cells import DATASETS, METHODS, PROTOCOLS, TEST_THEN_TRAIN
    from fires.bench.runner import CELLS
    from fires.run.folder import refuse_foreign

    out = out or Path("fires-kdd2020-quick" if quick else "fires-kdd2020")
    refuse_foreign(out, CELLS, kdd2020.RUNS)
    names, chosen = [*kdd2020.USUAL_DATASETS], [*METHODS]
    if datasets is not None:
        names = _names(datasets, "--datasets", DATASETS, "data set")
    if methods is not None:
        chosen = _names(methods, "--methods", METHODS, "method")
    meant = {"both": tuple(PROTOCOLS), "test-then-train": (TEST_THEN_TRAIN,)}
    protocols = meant.get(protocol, (protocol,))
    records: Sequence[Record] = []
    is_drawn = not no_figures and _can_draw()
    if not no_run:
        settings: dict[str, Any] = {
            "batch_sizes": _numbers(batch_sizes, int, "--batch-sizes"),
            "fractions": _numbers(fractions, float, "--fractions"),
            "rows": rows,
        }
        cells = list(dict.fromkeys(kdd2020.plan(names, chosen, protocols, quick=quick, **settings)))
        cells, missing = _at_hand(cells, out)
        if is_drawn:
            names, chosen = ([w for w in words if w not in missing] for words in (names, chosen))
            shown, left_out = figures.plan(names, chosen, protocols, quick=quick)
            _say_left_out(left_out)
            cells, is_drawn = [*cells, *shown], bool(shown)
        records = _run(cells, out, jobs)
    if not len(tables.Summary(out).records):
        raise click.ClickException(f"there are no results in {out}")
    written = tables.write(out)
    drawn, left_out = figures.draw(out) if is_drawn else ([], [])
    _say_left_out(left_out)
    parts = [path.name for path in written if path.suffix == ".md"]
    parts.append(f"{_several(len(written) - len(parts), 'table')} as .csv")
    if drawn:
        parts.append(f"{_several(len(drawn) // 2, 'figure')} as .png and .svg in figures")
    click.echo(f"written to {out}: {', '.join(parts)}")
    _finish(records, out / CELLS)


@options.command("field", group=command)
def _field(
    quick: bool = options.flag(),
    jobs: int | None = _JOBS,
    out: Path | None = options.out(
        "results, tables and a picture.  [default: fires-field, with --quick fires-field-quick]",
        file_okay=False,
    ),
    streams: str | None = options.option("A,B"),
    methods: str | None = options.option("X,Y"),
    no_run: bool = options.flag(),
) -> None:
    """Run every method on streams with known truth, and on the available data sets.

    Measures recall of the relevant features, recovery after a drift, the accuracy of a linear and
    a tree predictor, stability, stability under noise, and processor time, with paired intervals
    against FIRES. Every result is saved to DIR/field.jsonl at once: to continue an interrupted
    run, repeat the command. A method that needs more than ten minutes of processor time on a
    stream is listed as too slow. The picture needs matplotlib, the extra plot.

    Parameters
    ----------
    quick
        Three seeds, 2,000 rows, 15 seconds per method and stream, no nets and no LightGBM; takes
        some minutes. The full run has five seeds and 10,000 rows.
    streams
        Only these: linear, correlated, drifting, partial drift, rare, wide, text, curves, pairs,
        or data sets.  [default: all available]
    methods
        Only these methods, and FIRES.  [default: all]
    no_run
        Only rewrite the tables and the picture, from saved results.
    """
    from fires.bench import field, kdd2020, leaderboard
    from fires.run.folder import refuse_foreign

    out = out or Path("fires-field-quick" if quick else "fires-field")
    refuse_foreign(out, leaderboard.CELLS, kdd2020.RUNS)
    records: Sequence[Record] = []
    if not no_run:
        chosen, names = field.methods(quick=quick), [*field.STREAMS, *field.DATASETS]
        if methods is not None:
            wanted = _names(methods, "--methods", field.methods(), "method")
            chosen = [*dict.fromkeys([field.REFERENCE, *wanted])]
        if streams is not None:
            names = _names(streams, "--streams", names, "stream")
        missing = field.not_at_hand(names)
        _say_left_out(missing.values())
        names = [name for name in names if name not in missing]
        cells = field.plan(names, chosen, field.QUICK if quick else field.FULL)
        work = {"work": field.run, "file": leaderboard.CELLS}
        records = _run(cells, out, jobs, **work)
    if not leaderboard.Leaderboard(out).cells:
        raise click.ClickException(f"there are no results in {out}")
    written = leaderboard.write(out)
    click.echo(f"written to {out}: {', '.join(path.name for path in written)}")
    _finish(records, out / leaderboard.CELLS)


def _names(text: str, option: str, known: Iterable[str] = (), what: str = "") -> list[str]:
    """What an option lists; of what is known, the names."""
    from fires.bench.datasets.loading import named

    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError(f"{option} needs at least one name; separate several with commas.")
    return [named(name, known, what) if known else name for name in names]


def _numbers(text: str, kind: type[int] | type[float], option: str) -> list[Any]:
    try:
        return [kind(name) for name in _names(text, option)]
    except ValueError as error:
        raise click.UsageError(f"{option} takes numbers separated by commas.") from error


def _command() -> str:
    """The command as it was given, but for where the results went."""
    ctx = click.get_current_context()
    words = ctx.command_path.split()
    names = [str(option.name) for option in options.typed_options(ctx)]
    for name, value in ((name, ctx.params[name]) for name in names if name != "out"):
        words.append(f"--{name.replace('_', '-')}")
        words += [] if isinstance(value, bool) else [str(value)]
    return shlex.join(words)


def _at_hand(cells: Sequence[Cell], out: Path) -> tuple[list[Cell], Collection[str]]:
    """The cells that can be run, or were, and what others lack."""
    from fires.bench.kdd2020 import missing
    from fires.bench.runner import finished, read_records

    done = finished(cells, read_records(out))
    lacking = missing([cell for cell in cells if cell not in done])
    _say_left_out(lacking.values())
    cells = [c for c in cells if c in done or not {c.dataset, c.method} & lacking.keys()]
    if not cells:
        why = "" if lacking else ": --quick skips OnlineBoosting where there are many features"
        raise click.ClickException(f"there is nothing to run{why}")
    return cells, lacking.keys()


def _can_draw() -> bool:
    """Whether there is a library that draws figures; says what to install."""
    from fires.core.errors import MissingExtra
    from fires.core.optional import require

    try:
        require("matplotlib", "drawing them", "plot")
    except MissingExtra as error:
        _say_left_out([f"figures: {error}"])
        return False
    return True


# --- the data sets -------------------------------------------------------------------------------


@click.group("data")
def data() -> None:
    """List and download the data sets of the paper.

    Files are searched in the folder named by the environment variable FIRES_DATA_DIR, and in the
    cache for downloads (FIRES_CACHE_DIR).
    """


@data.command("list")
def _list() -> None:
    """List all data sets, and whether they are available here."""
    from fires.bench.datasets.catalogue import CATALOGUE
    from fires.bench.datasets.files import cache_folder, data_folder
    from fires.cli.tables import print_table

    known = CATALOGUE.values()
    columns = {
        "name": [info.name for info in known],
        "rows": [f"{info.n_rows:,}" for info in known],
        "features": [f"{info.n_features:,}" for info in known],
        "source": [info.source for info in known],
        "licence": [info.licence for info in known],
        "available": [_where(info) for info in known],
    }
    words = ("name", "source", "licence", "available")
    print_table(columns.items(), left=words, wrapped=["available"], vertical="top")
    own = data_folder() or "none (FIRES_DATA_DIR is not set)"
    click.echo()
    click.echo(printable(f"data folder: {own}"))
    click.echo(printable(f"cache: {cache_folder()}"))


def _where(info: Info) -> str:
    """In a few words, whether a data set can be used without a network."""
    from importlib.util import find_spec

    from fires.bench.datasets.files import data_folder, find

    if info.whole is None:
        return "generated" if find_spec("river") else "needs .[river]"
    found = find(info)
    if found is None:
        return "no"
    path, file = found
    folder = "data folder" if path.parent == data_folder() else "cache"
    return folder if file is info.whole else f"{folder}, {file.n_rows:,} rows only"


@data.command("get")
@click.argument("name", metavar="NAME")
def _get(name: str) -> None:
    """Print the path of a data set; if necessary, download it to the cache.

    The size, the classes and, if known, the checksums are verified. A damaged file in the cache is
    downloaded again; the data folder is never written to.
    """
    from fires.bench.datasets.files import get
    from fires.bench.datasets.loading import describe

    info = describe(name)
    if info.whole is None:
        click.echo(f"{info.name} is generated by river when used: nothing to download")
        return
    path = get(info, report=lambda url: click.echo(f"reading {url}", err=True))
    size = f"{info.whole.n_rows:,} rows of {info.n_features:,} features"
    click.echo(f"{info.name}, {size}, licence {info.licence}: {printable(str(path))}")
