"""``fires compare``: several selectors on one file, and which of them to believe."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.config import as_toml, run_facts
from fires.cli.progress import one_bar
from fires.cli.reading import Notices, Reading
from fires.cli.text import message, printable, saying_where, tried
from fires.core.errors import InputError, Question, closest
from fires.core.moved import imported
from fires.rivals import REGISTRY

if TYPE_CHECKING:
    from rich.table import Table
    from sklearn.naive_bayes import GaussianNB

    from fires.core.types import Header, Labels, Matrix
    from fires.evaluation.compare import Comparison
    from fires.models.base import BaseModel
    from fires.predictors.base import Predictor
    from fires.selectors.base import OnlineSelector
    from fires.streams.table_stream import TableStream


_CALLED = {
    "WindowRefit": "window",
    "IncrementalPermutation": "permutation",
    "AllFeatures": "all",
    "RandomFeatures": "random",
}
_NOT_COMPARED = {
    *("AlphaInvesting", "FastOSFS", "Grafting", "GroupSAOLA", "LeverageScores", "OSFS", "SAOLA"),
    *("OFSPartial", "PEtrun", "FixedFeatures", "FromModel", "CancelOut", "ChiSquared"),
}  # they take columns one by one, or need more than a number of features
SELECTORS = {
    **{_CALLED.get(name, name.lower()): name for name in REGISTRY if name not in _NOT_COMPARED},
    "fires-ann": "FIRES",
    "fires-sdt": "FIRES",
    "window-lightgbm": "WindowRefit",
}
MODELS = {"fires-ann": "NeuralNet", "fires-sdt": "SoftTree"}


class Selectors(click.ParamType[tuple[str, ...]]):
    """Names of selectors, separated by commas."""

    name = "NAME,..."

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names that a text holds, each once."""
        if not isinstance(value, str):
            return value
        names = [name.strip().lower() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in SELECTORS:
                known = {known: known for known in SELECTORS}
                hint = closest(name, known, f"there are {', '.join(known)}")
                self.fail(f'there is no selector "{printable(name)}"; {hint}', param)
        if not names:
            self.fail(f"name at least one of {', '.join(SELECTORS)}", param)
        return tuple(dict.fromkeys(names))


def maker(name: str, top: int | float, *, numeric: bool = False) -> Callable[[int], OnlineSelector]:
    """What makes a fresh selector."""
    import fires

    kind = imported("fires", SELECTORS[name])
    known = kind._get_param_names()

    def make(seed: int) -> OnlineSelector:
        given: dict[str, float | str | BaseModel] = {
            "n_features_to_select": top,
            "random_state": seed,
        }
        if numeric:
            given |= {"target": "numbers"} | ({"model": "gaussian"} if kind is fires.FIRES else {})
        if name in MODELS:
            given["model"] = imported("fires.models", MODELS[name])()
        if name == "window-lightgbm":
            given["estimator"] = "lightgbm"
        fitting = {setting: value for setting, value in given.items() if setting in known}
        made: OnlineSelector = kind(**fitting)
        return made

    return make


CLASSIFIERS, REGRESSORS = ("perceptron", "nb", "tree"), ("linear",)


def make_predictor(
    name: str, *, numeric: bool = False, sparse: bool = False
) -> tuple[str, Callable[[], Predictor | GaussianNB]]:
    """What makes a fresh predictor.

    Parameters
    ----------
    name : str
        One of :data:`CLASSIFIERS` or :data:`REGRESSORS`, or ``"auto"``: the first of them.
    numeric : bool
        Whether the target holds numbers.
    sparse : bool
        Whether rows are sparse.

    Returns
    -------
    name : str
        Which one it is.
    make : callable () -> predictor
        As :func:`fires.evaluation.compare.compare` takes it.
    """
    from fires.predictors import LinearRegressor, Perceptron, hoeffding_tree

    fitting = REGRESSORS if numeric else CLASSIFIERS
    if name == "auto":
        name = fitting[0]
    if name not in fitting:
        holds, wants = ("numbers", "classes") if numeric else ("classes", "numbers")
        raise ValueError(
            f"the target holds {holds}, and --predictor {name} predicts {wants}: take "
            f"{' or '.join(fitting)}"
        )
    if name == "nb" and sparse:
        raise ValueError("--predictor nb takes no sparse rows: take perceptron or tree")
    makers = {
        "perceptron": Perceptron,
        "nb": _naive_bayes,
        "tree": hoeffding_tree,
        "linear": LinearRegressor,
    }
    return name, makers[name]


def _naive_bayes() -> GaussianNB:
    import numpy as np
    from sklearn.naive_bayes import GaussianNB

    class NaiveBayes(GaussianNB):  # type: ignore[misc]
        def predict(self, X: Matrix) -> Labels:
            with np.errstate(divide="ignore"):  # the logarithm of a class that has yet to come
                predicted: Labels = super().predict(X)
                return predicted

    return NaiveBayes()


_EXAMPLES = """\b
Examples:
  fires compare events.csv --target label
  fires compare events.csv --target label --selectors fires,ofs,screening --top 0.1
  fires compare events.parquet --target label --predictor nb --seeds 10 --out comparison/ --report
"""
_PAGE = "compare.html"
_FILES = ("compare.json", ("compare.md", "compare.toml", _PAGE))
_OF_CLASSES, _OF_NUMBERS = ("accuracy", "balanced_accuracy", "f1"), ("r2", "mae")


@click.command("compare", epilog=_EXAMPLES)
@options.target()
@options.option(
    "--selectors",
    None,
    f"What to compare, out of {', '.join(SELECTORS)}. The first named is what the "
    "others are tested against; all (features), random, and majority or mean are always there.",
    "-s",
    type=Selectors(),
    default="fires,ofs,efs,fsds",
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
    ["auto", *CLASSIFIERS, *REGRESSORS],
    "What uses the features: a Perceptron, Gaussian naive Bayes, a Hoeffding tree, or for numbers "
    "a linear regression.",
)
@options.choice(
    "--score",
    ["auto", *_OF_CLASSES, *_OF_NUMBERS],
    "What is compared: accuracy, but not where one class is rare; r2 or mae of numbers.",
)
@options.choice(
    "--scale",
    ["minmax", "standard"],
    "How columns are scaled while the stream flows, for all alike; efs needs minmax.",
)
@options.reading
@options.out("compare.json, compare.md and compare.toml.")
@options.flag("--report", f"Also write {_PAGE} to --out: a page that opens in any browser.")
@options.overwrite
@options.config
@options.as_json
@options.quiet
@options.debug
def command(
    target: str | None,
    selectors: tuple[str, ...],
    top: int | float | str,
    batch_size: int,
    seeds: int,
    predictor: str,
    score: str,
    scale: str,
    out: Path | None,
    report: bool,
    overwrite: bool,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Compare selectors on FILE: which of them to use, and whether it matters.

    FILE is a table as for fires select, but no pipe: it is read several times. The target holds
    classes or numbers. Each selector learns from its batches in their order; a predictor that
    sees nothing but the selected features is tested on each batch before both learn from it. A
    missing value counts as the mean of its column so far.

    The table shows, for each selector, how well its features predict, with the spread over
    repeated runs; its stability while the stream flows; whether repeated runs agree on the
    features; and whether the difference from the first selector named is more than chance: a
    t-test over runs and pieces of the stream, corrected for the number of comparisons. Below it,
    one line says whether any selection beats all features, random ones, and saying the most
    common class, or the mean, of the rows before.
    """
    started = time.perf_counter()
    if report and out is None:
        raise click.UsageError("--report needs a folder to write to: give --out.")
    if isinstance(top, str):
        raise click.UsageError(
            "--top auto is for fires select: here, all selectors select as many features."
        )
    reading = Reading(**how)
    if reading.reads_once:
        raise ValueError(
            f"{reading.name} can be read only once, and selectors are compared in several passes: "
            "save it to a file first"
        )
    from fires.evaluation.compare import compare
    from fires.run.folder import OutFolder

    with ExitStack() as stack:
        folder = None
        if out is not None:
            folder = stack.enter_context(OutFolder(out, *_FILES, overwrite=overwrite))
        stream = _open(reading, target, score)
        numeric = _is_numeric(stream, score, batch_size)
        if score == "auto":
            score = "r2" if numeric else "accuracy"
        notices = Notices(stream, quiet)
        bar = one_bar(
            "reading the labels",
            "{task.percentage:.0f}%",
            "remaining",
            transient=True,
            hidden=quiet,
        )
        with saying_where(reading.name, stream.schema.target), bar as show:
            predictor, make = make_predictor(
                predictor, numeric=numeric, sparse=stream.columns is None
            )
            found = compare(
                lambda: stream,
                {
                    name: maker(name, top, numeric=numeric)
                    for name in dict.fromkeys([*selectors, "all", "random"])
                },
                predictor=make,
                batch_size=batch_size,
                seeds=seeds,
                score=score,
                preprocess=scale,
                progress=lambda what, rows, total: show(
                    lambda: {"description": what, "completed": rows, "total": total}
                ),
            )
        notices.tell()
        if scale != "minmax" and "efs" in selectors:
            caution = "Caution: efs is made for columns in [0, 1], as --scale minmax gives them."
            found = replace(found, cautions=(*found.cautions, caution))
        known = {"file": reading.files, "predictor": predictor, "score": score}
        facts = run_facts(stream, started, **known)
        document = json.dumps(
            facts | found.as_dict(), indent=2, ensure_ascii=False, allow_nan=False
        )
        files = {
            "compare.json": document + "\n",
            "compare.md": _page(found, facts),
            "compare.toml": as_toml(click.get_current_context(), file=reading.files),
        }
        if report and out is not None:
            files[_PAGE] = _html(facts | found.as_dict(), out)
        unsaved = None if folder is None else tried(partial(folder.publish, files))
    if as_json:
        click.echo(document)
    else:
        _print_table(found, facts, stream.rejected.unit)
        if folder is not None and unsaved is None and not quiet:
            click.echo(f"written to {out}: {', '.join(files)}")
    if unsaved is not None:
        what = f"what was found is shown above, but could not be saved: {message(unsaved)}"
        raise InputError(what) from unsaved


def _open(reading: Reading, target: str | None, score: str) -> TableStream:
    """The rows of the file; a target that may be both is asked about in the words of compare."""
    holds = "classes" if score in _OF_CLASSES else "numbers" if score in _OF_NUMBERS else "auto"
    try:
        return reading.open(target, holds=holds)
    except Question as error:
        if "{model=gaussian}" not in error.hint:
            raise
        hint = "say --score r2 if they are amounts, --score accuracy if they are classes"
        raise InputError(error.what, error.where, hint) from None


def _is_numeric(stream: TableStream, score: str, batch_size: int) -> bool:
    """Whether the target holds numbers, by what is compared or by its first rows."""
    from fires.core.classes import has_fractions

    if score != "auto":
        return score in _OF_NUMBERS
    target = stream.target  # svmlight has none to speak of
    if target is not None and target.is_numeric:
        return True
    batches: Any = stream.batches(batch_size)
    with closing(batches):
        first = next(batches, None)
    return first is not None and has_fractions(first.y)


def _html(facts: Header, out: Path) -> str:
    """The page of the comparison."""
    from fires.report.comparison import comparison_summary
    from fires.report.page import page, page_data

    return page(page_data([], comparison_summary(facts, out.resolve().name)))


def _page(found: Comparison, facts: dict[str, Any]) -> str:
    settings = facts["settings"]
    top, target = settings["top"], settings["target"] or "the first number of a row"
    features = f"{top} features" if isinstance(top, int) else f"{top:.0%} of the features"
    title = f"# Selectors on {printable(', '.join(settings['file']))}"
    about = (
        f"Target {printable(target)}, {features} selected, batches of "
        f"{found.batch_size}, predictor {settings['predictor']}, {facts['started']}, "
        f"fires {facts['fires']}."
    )
    return "\n".join([title, "", about, "", found.markdown()])


def _print_table(found: Comparison, facts: dict[str, Any], unit: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from fires.cli.tables import narrowed, text_table
    from fires.evaluation.compare import BASELINES

    score, against = found.score.replace("_", "\n"), f"against\n{found.reference}"
    agree, won, speed = "runs\nagree", "pieces\nwon", "ms per\nbatch"
    titles = ["selector", score, "stability", agree, against, won, "p", speed]

    def make(left_out: Sequence[str]) -> Table:
        kept = [place for place, title in enumerate(titles) if title not in left_out]
        shown = [titles[place] for place in kept]
        table = text_table(shown, left=["selector"], collapse_padding=True)
        for row in found.rows():
            style = "dim" if row[0] in BASELINES else ""
            table.add_row(*(row[place] for place in kept), style=style)
        return table

    console = Console()
    console.print(narrowed(make, [speed, won, agree, "stability", "p"], console.width))
    click.echo()
    for note in found.notes():
        console.print(Text(printable(note)))
    if n_rejected := facts["rejected_rows"]:
        place, reason = facts["rejected_examples"][0]
        some = f"{n_rejected:,} rows, the first in" if n_rejected > 1 else "One row,"
        console.print(Text(f"{some} {unit} {place}, could not be used: {printable(reason)}"))
