"""``fires compare``: several selectors on one file, and which of them to believe."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.bench.variants import make
from fires.cli import options
from fires.cli.progress import one_bar
from fires.cli.reading import OF_SOURCES, Notices, Reading
from fires.cli.text import message, printable, saying_where, tried
from fires.core.errors import InputError, Question, closest
from fires.rivals import REGISTRY

if TYPE_CHECKING:
    from sklearn.naive_bayes import GaussianNB

    from fires.evaluation.compare import Comparison
    from fires.predictors.base import Predictor
    from fires.streams.table_stream import TableStream


_CALLED = {
    "WindowRefit": "window",
    "IncrementalPermutation": "permutation",
    "AllFeatures": "all",
    "RandomFeatures": "random",
}
# They take columns one by one, or need more than a number of features.
_NOT_COMPARED = {
    *("AlphaInvesting", "FastOSFS", "Grafting", "GroupSAOLA", "LeverageScores", "OSFS", "SAOLA"),
    *("GFSFS", "OGFS", "OFSPartial", "PEtrun", "FixedFeatures", "FromModel", "CancelOut"),
    "ChiSquared",
}
SELECTORS = {
    **{_CALLED.get(name, name.lower()): name for name in REGISTRY if name not in _NOT_COMPARED},
    "fires-relations": "FIRES relations",
    "fires-variational": "FIRES variational",
    "screening-t": "Screening t",
    "adpredictor": "AdPredictor",
    "fires-ann": "FIRES net",
    "fires-sdt": "FIRES soft tree",
    "window-lightgbm": "WindowRefit lightgbm",
}


def as_selectors(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """The names of selectors, separated by commas, that a text holds, each once."""
    if not isinstance(value, str):
        return value
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in SELECTORS:
            known = {known: known for known in SELECTORS}
            hint = closest(name, known, f"there are {', '.join(known)}")
            raise click.BadParameter(f'there is no selector "{printable(name)}"; {hint}')
    if not names:
        raise click.BadParameter(f"name at least one of {', '.join(SELECTORS)}")
    return tuple(dict.fromkeys(names))


CLASSIFIERS, REGRESSORS = ("bayes", "perceptron", "nb", "tree"), ("bayes", "linear")


def make_predictor(
    name: str, *, numeric: bool, sparse: bool
) -> tuple[str, Callable[[], Predictor | GaussianNB]]:
    """The name of a predictor, and what makes a fresh one; ``"auto"`` is the first that fits."""
    from sklearn.naive_bayes import GaussianNB

    from fires.predictors import BayesLinear, LinearRegressor, Perceptron, hoeffding_tree

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
        raise ValueError("--predictor nb does not take sparse rows: use bayes, perceptron or tree")
    bayes = partial(BayesLinear, "gaussian" if numeric else "probit")
    makers = {"bayes": bayes, "perceptron": Perceptron, "nb": GaussianNB, "tree": hoeffding_tree}
    return name, makers.get(name, LinearRegressor)


_PAGE = "compare.html"
_FILES = ("compare.json", ("compare.md", "compare.toml", _PAGE))
_OF_CLASSES, _OF_NUMBERS = ("accuracy", "balanced_accuracy", "f1"), ("r2", "mae")


@options.record
class _Options:
    """What the user said.

    Parameters
    ----------
    seeds
        Runs of each selector; each leaves out another tenth of the rows. One uses all rows; tests
        need three.
    predictor
        What is trained on the selected features: FIRES's Bayesian linear model, a Perceptron,
        Gaussian naive Bayes, a Hoeffding tree, or for numbers a linear regression.
    score
        What is compared. auto: accuracy for classes, R2 for numbers.
    scale
        How columns are scaled, for all selectors alike; efs needs minmax.
    report
        Also write compare.html to --out: one page, opens in any browser.
    """

    target: str | None = options.target()
    selectors: tuple[str, ...] = options.option(
        "NAME,...",
        f"Out of {', '.join(SELECTORS)}. The others are tested against the first; all (features), "
        "random, and majority or mean are always included.",
        "-s",
        type=as_selectors,
        default="fires,ofs,efs,fsds",
    )
    top: int | float | str = options.TOP
    batch_size: int = options.batch_size("test on and to learn from")
    seeds: int = options.count(5)
    predictor: str = options.choice(["auto", *dict.fromkeys(CLASSIFIERS + REGRESSORS)])
    score: str = options.choice(["auto", *_OF_CLASSES, *_OF_NUMBERS])
    scale: str = options.choice(["minmax", "standard"])
    reading: Reading = options.part(Reading, without=OF_SOURCES)
    out: Path | None = options.out("compare.json, compare.md and compare.toml.")
    report: bool = options.flag()
    overwrite: bool = options.OVERWRITE
    as_json: bool = options.AS_JSON
    quiet: bool = options.QUIET


@options.command("compare", options.debug, options.config)
def command(given: _Options = options.part(_Options)) -> None:
    """Compare selectors on FILE: which one to use, and whether it matters.

    FILE is a table as for fires select, but no pipe: it is read several times. Each selector learns
    batch by batch; a predictor that sees only the selected features is tested on each batch before
    both learn from it. The table shows how well the features predict, with the spread over repeated
    runs; how stable the selected set is; and whether the difference from the first selector is
    significant (t-test, corrected for the number of comparisons).

    Examples
    --------
    fires compare events.csv --target label
    fires compare events.csv --target label --selectors fires,ofs,screening --top 0.1
    fires compare events.parquet --target label --predictor nb --seeds 10 --out found/ --report
    """
    started, reading = time.perf_counter(), given.reading
    if given.report and given.out is None:
        raise click.UsageError("--report needs a folder to write to: give --out.")
    if isinstance(given.top, str):
        raise click.UsageError(
            "--top auto is for fires select: here, all selectors select equally many features."
        )
    if reading.reads_once:
        raise ValueError(
            f"{reading.name} can be read only once, and selectors are compared in several passes: "
            "save it to a file first"
        )
    from fires.run.folder import OutFolder

    facts = options.settings_facts(file=reading.files)
    with ExitStack() as stack:
        folder, unsaved = None, None
        if given.out is not None:
            folder = stack.enter_context(OutFolder(given.out, *_FILES, overwrite=given.overwrite))
        stream = _open(reading, given.target, given.score)
        notices = Notices(stream, given.quiet)
        found, predictor = _compared(given, stream, given.top)
        notices.tell()
        facts["settings"] |= {"predictor": predictor, "score": found.score}
        facts |= options.stream_facts(stream, time.perf_counter() - started)
        document = json.dumps(
            facts | found.as_dict(), indent=2, ensure_ascii=False, allow_nan=False
        )
        files = {
            "compare.json": document + "\n",
            "compare.md": _page(found, facts),
            "compare.toml": options.as_toml(click.get_current_context(), file=reading.files),
        }
        if given.report and given.out is not None:
            from fires.report.page import comparison_summary, page, page_data

            name = given.out.resolve().name
            summary = comparison_summary(facts | found.as_dict(), name)
            files[_PAGE] = page(page_data([], summary))
        if folder is not None:
            unsaved = tried(partial(folder.publish, files))
    if given.as_json:
        click.echo(document)
    else:
        _print_table(found, facts, stream.rejected.unit)
        if folder is not None and unsaved is None and not given.quiet:
            click.echo(f"written to {given.out}: {', '.join(files)}")
    if unsaved is not None:
        what = f"the results are shown above, but could not be saved: {message(unsaved)}"
        raise InputError(what) from unsaved


def _open(reading: Reading, target: str | None, score: str) -> TableStream:
    """The rows of the file; a target that may be both is asked about in the words of compare."""
    holds = "classes" if score in _OF_CLASSES else "numbers" if score in _OF_NUMBERS else "auto"
    try:
        return reading.open(target, holds=holds)
    except Question as error:
        if "{model=gaussian}" not in error.hint:
            raise
        hint = "use --score r2 if they are amounts, --score accuracy if they are classes"
        raise InputError(error.what, error.where, hint) from None


def _compared(given: _Options, stream: TableStream, top: int | float) -> tuple[Comparison, str]:
    """What is found, and by which predictor."""
    import numpy as np

    from fires.evaluation.compare import compare

    score, name = given.score, given.reading.name
    numeric = _is_numeric(stream, score, given.batch_size)
    if score == "auto":
        score = "r2" if numeric else "accuracy"
    first = "reading the labels"
    bar = one_bar(first, "{task.percentage:.0f}%", "remaining", transient=True, hidden=given.quiet)
    # Naive Bayes takes the logarithm of the share of a class that has yet to come.
    quiet = np.errstate(divide="ignore")
    with saying_where(name, stream.schema.target), bar as show, quiet:
        predictor, trained = make_predictor(
            given.predictor, numeric=numeric, sparse=stream.columns is None
        )
        found = compare(
            lambda: stream,
            {
                name: partial(make, SELECTORS[name], top, numeric=numeric)
                for name in dict.fromkeys([*given.selectors, "all", "random"])
            },
            predictor=trained,
            batch_size=given.batch_size,
            seeds=given.seeds,
            score=score,
            preprocess=given.scale,
            progress=lambda what, rows, total: show(
                lambda: {"description": what, "completed": rows, "total": total}
            ),
        )
    if given.scale != "minmax" and "efs" in given.selectors:
        caution = "Caution: efs is made for columns in [0, 1], as --scale minmax gives them."
        found = replace(found, cautions=(*found.cautions, caution))
    return found, predictor


def _is_numeric(stream: TableStream, score: str, batch_size: int) -> bool:
    """Whether the target holds numbers, by what is compared or by its first rows."""
    from fires.core.classes import has_fractions

    if score != "auto":
        return score in _OF_NUMBERS
    if stream.target is not None and stream.target.is_numeric:  # svmlight has none to speak of
        return True
    batches: Any = stream.batches(batch_size)
    with closing(batches):
        first = next(batches, None)
    return first is not None and has_fractions(first.y)


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

    from fires.cli.tables import print_table
    from fires.evaluation.compare import BASELINES

    score, against = found.score.replace("_", "\n"), f"against\n{found.reference}"
    agree, won, speed = "runs\nagree", "pieces\nwon", "ms per\nbatch"
    titles = ["selector", score, "stability", agree, against, won, "p", speed]
    rows = list(found.rows())
    print_table(
        zip(titles, zip(*rows, strict=True), strict=True),
        left=["selector"],
        spare=dict.fromkeys((speed, won, agree, "stability", "p"), ()),
        dim=[place for place, row in enumerate(rows) if row[0] in BASELINES],
        collapse_padding=True,
    )
    notes = ["", *found.notes()]
    if n_rejected := facts["rejected_rows"]:
        place, reason = facts["rejected_examples"][0]
        some = f"{n_rejected:,} rows, the first in" if n_rejected > 1 else "One row,"
        notes.append(f"{some} {unit} {place}, could not be used: {reason}")
    console = Console()
    for note in notes:
        console.print(Text(printable(note)))
