"""``fires report`` and ``fires serve``: the page of runs, as a file or while they go on."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fires.cli import options
from fires.cli.progress import logs
from fires.cli.text import message, printable, say
from fires.core.errors import InputError
from fires.core.optional import require

if TYPE_CHECKING:
    from fires.cli.select_options import Options


@options.command("report", options.debug)
def report(
    runs: tuple[Path, ...] = options.RUNS,
    out: Path | None = options.option("FILE", type=options.PATH),
    overwrite: bool = options.OVERWRITE,
) -> None:
    """Write RUN as one HTML page that opens in any browser, offline.

    RUN is a folder written by fires select --out; the run may have ended, be in progress or have
    been killed. Several are shown side by side. An earlier report.html in RUN is replaced.

    Parameters
    ----------
    out
        The file to write.  [default: report.html in the first RUN]

    Examples
    --------
    fires report run/
    fires report run/ other-run/ --out both.html
    """
    if out is not None:
        options.refuse_there(out, overwrite=overwrite)
    click.echo(write_report(runs, out))


def write_report(runs: tuple[Path, ...], path: Path | None = None) -> str:
    """Write the page of runs."""
    from fires.report.page import write_page
    from fires.run.records import REPORT  # who writes a page needs no model

    path = path or runs[0] / REPORT
    n_bytes = write_page(runs, path)
    return printable(f"written to {path}: {n_bytes / 1000:,.0f} KB; open it in a browser")


def write_wanted(options: Options) -> bool:
    """Write the page of a run, if one is wanted; False if that could not be done."""
    if not options.report or (out := options.folder) is None:
        return True
    try:
        line = write_report((out,))
    except OSError as error:
        say(f"Error: {message(error)}; once this is fixed, run fires report {out}")
        return False
    if not (options.quiet or options.as_json):
        click.echo(line)
    return True


_POLITE = 10
_LONGEST = 60.0


@options.command("serve", options.debug)
def serve(
    runs: tuple[Path, ...] = options.RUNS,
    port: int = options.option(type=click.IntRange(0, 65535), default=8765),
    host: str = options.option(default="127.0.0.1"),
    attached: bool = options.flag(hidden=True),
) -> None:
    """Serve a live page of runs, also while they are in progress.

    RUN is a folder written by fires select --out; several are shown side by side. The page is
    updated about once a second, and shows whether a run is in progress, has ended or was killed.
    The folder is only read.

    Press Ctrl-C to stop.

    Parameters
    ----------
    port
        The port to listen on; 0 for any that is free.
    host
        The address to listen on. If other machines can reach it, viewers need a token: it is part
        of the address that is printed, and FIRES_TOKEN sets it.

    Examples
    --------
    fires serve run/
    fires serve run/ other-run/ --port 0
    FIRES_TOKEN=... fires serve run/ --host 0.0.0.0
    """
    for library in ("uvicorn", "starlette"):
        require(library, "fires serve", extra="serve")
    from fires.report.live import Access, listen, serve

    listener = listen(host, port)
    access = Access.to(listener, host)
    names = ", ".join(map(str, runs))

    def ready() -> None:
        with suppress(OSError, AttributeError):
            os.nice(_POLITE)  # whoever looks must not slow down the run, which may want all cores
        click.echo(printable(f"showing {names} on {access.url} (Ctrl-C to stop)"))
        sys.stdout.flush()

    with ExitStack() as stack:
        stack.enter_context(listener)
        if click.get_current_context().meta.get("fires.debug"):
            stack.enter_context(logs("debug"))
        else:  # names and data are for those who may look, and a terminal is for all
            stack.callback(logging.disable, logging.root.manager.disable)
            logging.disable()
        serve(runs, listener, access, ready=ready, attached=attached)


@contextmanager
def live_page(folder: Path) -> Iterator[None]:
    """``fires serve`` beside a run, in a process of its own: nothing that happens to it matters.

    At its end, those who look are shown how the run has ended.
    """
    # -P: a file in the working folder that has the name of a library is none.
    command = [sys.executable, "-P", "-m", "fires.cli", "serve", "--port", "0", "--attached"]
    process = subprocess.Popen(
        [*command, "--", str(folder)],
        stdin=subprocess.PIPE,  # closed when this process ends, however it ends
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C ends the run, and the run ends the page
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdout as output:
            first_line = output.readline()
        address = re.search(r"http://\S+", first_line)
        if address is None:
            why = first_line.removeprefix("Error: ").strip() or "fires serve exited at once"
            raise InputError(f"--live cannot show the run: {why}")
        say(f"{folder} is shown on {address[0]}")
        yield
    finally:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
