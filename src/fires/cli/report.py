"""``fires report``: the page of a run as one file."""

from __future__ import annotations

from pathlib import Path

import click

from fires.cli import options
from fires.cli.text import printable

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
@options.shape
@options.debug
def command(runs: tuple[Path, ...], out: Path | None, shape: str | None) -> None:
    """Write the page of a run as one file, which opens in any browser, offline.

    RUN is a folder that fires select --out has made: of a run that has ended, goes on or was
    killed. Several are shown side by side. An earlier file is replaced.
    """
    click.echo(write_report(runs, out, shape))


def write_report(runs: tuple[Path, ...], path: Path | None = None, shape: str | None = None) -> str:
    """Write the page of runs.

    Parameters
    ----------
    runs : tuple of Path
        Their folders.
    path : Path, optional
        The file; by default it is in the first folder.
    shape : str, optional
        Height and width, such as "28x28", if the features are the pixels of a picture.

    Returns
    -------
    str
        A line that says where it is, and how big.
    """
    from fires.evaluation.out_folder import REPORT
    from fires.report.page import write_page

    path = path or runs[0] / REPORT
    n_bytes = write_page(runs, path, options.as_shape(shape))
    return printable(f"written to {path}: {n_bytes / 1000:,.0f} KB, to be opened in a browser")
