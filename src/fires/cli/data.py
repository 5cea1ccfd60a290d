"""``fires data``: the data sets of the paper, which there are and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.bench.datasets.catalogue import Info


@click.group("data")
def command() -> None:
    """List and download the data sets of the paper.

    Files are looked for in the folder that the environment variable FIRES_DATA_DIR names, and in
    a cache (FIRES_CACHE_DIR) that downloads go to.
    """


@command.command("list")
def _list() -> None:
    """Show all of them, and what is at hand."""
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
        "at hand": [_at_hand(info) for info in known],
    }
    words = ("name", "source", "licence", "at hand")
    print_table(columns.items(), left=words, wrapped=["at hand"], vertical="top")
    own = data_folder() or "none (FIRES_DATA_DIR is not set)"
    click.echo()
    click.echo(printable(f"data folder: {own}"))
    click.echo(printable(f"cache: {cache_folder()}"))


def _at_hand(info: Info) -> str:
    """In a few words, whether a data set can be used without a network."""
    from importlib.util import find_spec

    from fires.bench.datasets.files import data_folder, find

    if info.whole is None:
        return "made when used" if find_spec("river") else "needs .[river]"
    found = find(info)
    if found is None:
        return "no"
    path, file = found
    folder = "data folder" if path.parent == data_folder() else "cache"
    return folder if file is info.whole else f"{folder}, {file.n_rows:,} rows only"


@command.command("get")
@click.argument("name", metavar="NAME")
def _get(name: str) -> None:
    """Say where a data set is; if it is nowhere, download it into the cache.

    What is there is checked: its size, its classes and, where they are known, its checksums. A
    damaged file in the cache is downloaded again; a data folder is never written to.
    """
    from fires.bench.datasets.files import get
    from fires.bench.datasets.loading import describe

    info = describe(name)
    if info.whole is None:
        click.echo(f"{info.name} is made by river when it is used: there is nothing to get")
        return
    path = get(info, report=lambda url: click.echo(f"reading {url}", err=True))
    size = f"{info.whole.n_rows:,} rows of {info.n_features:,} features"
    click.echo(f"{info.name}, {size}, licence {info.licence}: {printable(str(path))}")
