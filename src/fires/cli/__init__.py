"""The command ``fires``: modules import at their top what is quick, the rest when they run."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import Any

import click

from fires.cli import apply, bench, columns, compare, demo, explain, report, select
from fires.cli.interrupts import EXIT_CODE, no_interrupt_lost
from fires.cli.progress import say_compiling
from fires.cli.text import EXPECTED, message
from fires.core.version import __version__


class _Failure(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Commands that fail with one line and a code for scripts, without a traceback."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does, in groups."""
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                lines = [(str(one.name), one.get_short_help_str(limit=100)) for one in commands]
                formatter.write_dl(lines)

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        """Run as a program, not within another one: the process ends with the command."""
        # Batches are small, and the threads of OpenBLAS only wait for each other on a busy machine.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        return super().__call__(*arguments, obj="program", **settings)

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.obj == "program":
            say_compiling()
        try:
            with no_interrupt_lost():
                return super().invoke(ctx)
        except EXPECTED as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # whoever read the output has seen enough
            if ctx.meta.get("fires.debug"):
                traceback.print_exc()
            raise _Failure(message(error)) from error
        except KeyboardInterrupt:
            # A terminal has just shown ^C, and stays on its line.
            click.echo("\n" * sys.stderr.isatty() + "Interrupted.", err=True)
            ctx.exit(ctx.meta.get(EXIT_CODE, 130))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fires")
def main() -> None:
    """Which features of a data stream matter now, how sure are we, is that stable?

    Start with:  fires demo
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name or a sign that the terminal's encoding lacks must not end a run.
        sys.stdout.reconfigure(errors="replace")


_GROUPS = {
    "Select features": (select.command, compare.command, columns.command, demo.command),
    "Work with a run": (
        *(report.report, report.serve, explain.command, apply.predict, apply.transform),
    ),
    "Reproduce the paper": (bench.command, bench.data),
}
for group in _GROUPS.values():
    for one in group:
        main.add_command(one)
