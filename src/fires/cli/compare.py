"""``fires compare``: several selectors on one file, and which of them to believe."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import contestants, options
from fires.cli.progress import one_bar
from fires.cli.run_facts import run_facts
from fires.cli.text import printable, saying_where

if TYPE_CHECKING:
    from fires.evaluation.compare import Comparison

_EXAMPLES = """\b
Examples:
  fires compare events.csv --target label
  fires compare events.csv --target label --selectors fires,ofs,screening --top 0.1
  fires compare events.parquet --target label --predictor nb --seeds 10 --out comparison/
"""
_SCORES = ("accuracy", "balanced_accuracy", "f1")


@click.command("compare", epilog=_EXAMPLES)
@click.argument("file", metavar="FILE")
@options.target(": classes")
@click.option(
    "--selectors",
    "-s",
    type=contestants.Selectors(),
    default="fires,ofs,efs,fsds",
    show_default=True,
    help=f"What to compare, out of {', '.join(contestants.SELECTORS)}. The first named is what the "
    "others are tested against; all (features) and random are always there.",
)
@options.top
@options.batch_size("test on and to learn from")
@options.count(
    "--seeds",
    5,
    "Runs of each selector; each leaves out another tenth of the rows, and has its own random "
    "numbers. One uses all rows; it takes three to test differences.",
)
@options.choice(
    "--predictor",
    ["perceptron", "nb", "tree"],
    "What uses the features: a Perceptron, Gaussian naive Bayes, or a Hoeffding tree.",
)
@options.choice("--score", _SCORES, "What is compared; not accuracy where one class is rare.")
@options.choice(
    "--scale",
    ["minmax", "standard"],
    "How columns are scaled while the stream flows, for all alike; efs needs minmax.",
)
@options.exclude
@options.out("compare.json and compare.md.")
@options.as_json
@options.debug
def command(
    file: str,
    target: str,
    selectors: tuple[str, ...],
    top: int | float,
    batch_size: int,
    seeds: int,
    predictor: str,
    score: str,
    scale: str,
    exclude: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Compare selectors on FILE: which of them to use, and whether it matters.

    FILE is a CSV, TSV or Parquet file as for fires select, and is read several times. Each
    selector learns from its batches in their order; a predictor that sees nothing but the
    selected features is tested on each batch before both learn from it. A missing value counts
    as the mean of its column so far.

    The table shows, for each selector, how well its features predict, with the spread over
    repeated runs; its stability while the stream flows; whether repeated runs agree on the
    features; and whether the difference from the first selector named is more than chance: a
    t-test over runs and pieces of the stream, corrected for the number of comparisons.
    """
    started = time.perf_counter()
    _refuse_pipes(file)
    from fires.core.state import replace_file
    from fires.evaluation.compare import BASELINES, compare
    from fires.evaluation.run_folder import make_folder, naming
    from fires.streams.files import from_file

    if out is not None:
        make_folder(out)
    stream = from_file(file, target, exclude=[name for name in exclude.split(",") if name])
    shown = one_bar("reading the labels", "{task.percentage:.0f}%", "remaining", transient=True)
    with saying_where(file, target), shown as show:
        found = compare(
            lambda: stream,
            {
                name: contestants.maker(name, top)
                for name in dict.fromkeys([*selectors, *BASELINES])
            },
            predictor=contestants.predictor(predictor),
            batch_size=batch_size,
            seeds=seeds,
            score=score,
            preprocess=scale,
            progress=lambda what, rows, total: show(
                lambda: {"description": what, "completed": rows, "total": total}
            ),
        )
    if scale != "minmax" and "efs" in selectors:
        caution = "Caution: efs is made for columns in [0, 1], as --scale minmax gives them."
        found = replace(found, cautions=(*found.cautions, caution))
    facts = run_facts(stream, started)
    document = json.dumps(facts | found.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    if out is not None:
        for name, content in (
            ("compare.json", document + "\n"),
            ("compare.md", _page(found, facts)),
        ):
            with naming(out / name):
                replace_file(out / name, content.encode())
    if as_json:
        click.echo(document)
        return
    _print_table(found, facts, stream.rejected.unit)
    if out is not None:
        click.echo(f"written to {out}: compare.json, compare.md")


def _refuse_pipes(file: str) -> None:
    """What can be read only once cannot be compared on."""
    if file == "-" or Path(file).is_fifo() or Path(file).is_char_device():
        name = "standard input" if file == "-" else file
        raise ValueError(
            f"{name} can be read only once, and selectors are compared in several passes: save it "
            "to a file first"
        )


def _page(found: Comparison, facts: dict[str, Any]) -> str:
    settings = facts["settings"]
    top = settings["top"]
    features = f"{top} features" if isinstance(top, int) else f"{top:.0%} of the features"
    title = f"# Selectors on {printable(settings['file'])}"
    about = (
        f"Target {printable(settings['target'])}, {features} selected, batches of "
        f"{found.batch_size}, predictor {settings['predictor']}, {facts['started']}, "
        f"fires {facts['fires']}."
    )
    return "\n".join([title, "", about, "", found.markdown()])


def _print_table(found: Comparison, facts: dict[str, Any], unit: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from fires.cli.tables import text_table
    from fires.evaluation.compare import BASELINES

    score, against = found.score.replace("_", "\n"), f"against\n{found.reference}"
    titles = ["selector", score, "stability", "runs\nagree", against, "pieces\nwon", "p"]
    table = text_table([*titles, "ms per\nbatch"], left=["selector"], collapse_padding=True)
    for row in found.rows():
        table.add_row(*row, style="dim" if row[0] in BASELINES else "")
    console = Console()
    console.print(table)
    click.echo()
    for note in found.notes():
        console.print(Text(printable(note)))
    if n_rejected := facts["rejected_rows"]:
        place, reason = facts["rejected_examples"][0]
        some = f"{n_rejected:,} rows, the first in" if n_rejected > 1 else "One row,"
        console.print(Text(f"{some} {unit} {place}, could not be used: {printable(reason)}"))
