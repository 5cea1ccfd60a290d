"""``fires report``: the page of a run as one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from fires.cli import options
from fires.cli.row_output import refuse_there
from fires.cli.text import printable
from fires.core.errors import InputError

_EXAMPLES = """\b
Examples:
  fires report run/
  fires report run/ other-run/ --out both.html
"""


@click.command("report", epilog=_EXAMPLES)
@options.runs
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write.  [default: report.html in the first RUN]",
)
@options.overwrite
@options.shape
@options.debug
def command(runs: tuple[Path, ...], out: Path | None, overwrite: bool, shape: str | None) -> None:
    """Write the page of a run as one file, which opens in any browser, offline.

    RUN is a folder that fires select --out has made: of a run that has ended, goes on or was
    killed. Several are shown side by side. An earlier report.html in RUN is replaced.
    """
    if out is not None:
        refuse_there(out, overwrite=overwrite)
    click.echo(write_report(runs, out, shape))


def write_report(runs: tuple[Path, ...], path: Path | None = None, shape: str | None = None) -> str:
    """Write the page of runs."""
    from fires.report.page import write_page
    from fires.run.folder import REPORT

    path = path or runs[0] / REPORT
    n_bytes = write_page(runs, path, as_shape(shape, features_of(runs)))
    return printable(f"written to {path}: {n_bytes / 1000:,.0f} KB, to be opened in a browser")


def as_shape(text: str | None, n_features: Sequence[int]) -> tuple[int, int] | None:
    """The height and width that ``--shape`` gives, if there is such a picture to show."""
    if text is None:
        return None
    height, width = map(int, text.split("x"))
    if n_features and height * width not in n_features:
        pixels, found = f"{height * width:,}", " and ".join(f"{n:,}" for n in n_features)
        raise InputError(f"--shape {text} has {pixels} pixels, and there are {found} features")
    return height, width


def features_of(runs: Sequence[Path]) -> list[int]:
    """How many features runs have, of those that know."""
    from fires.run.saved import read_names

    counts = []
    for run in runs:
        try:
            counts.append(len(read_names(run)))
        except (OSError, InputError):
            continue
    return counts
