"""``fires completion``: names and options completed by the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete the names and options of fires.

    For bash, add this line to ~/.bashrc:  eval "$(fires completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root().command
    click.echo(kind(root, {}, "fires", "_FIRES_COMPLETE").source())
