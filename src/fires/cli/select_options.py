"""What ``fires select`` can be told, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options as shared
from fires.cli.progress import LEVELS
from fires.cli.reading import Reading
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.run.emit import Every
    from fires.selectors.fires import FIRES

CLASSES, NUMERIC = ("probit", "logistic"), ("gaussian", "poisson")
_MEMORY = 10_000.0  # rows
# What may be said anew when a run goes on.
_MAY_CHANGE = {
    *("resume", "checkpoint", "max_bad", "max_wait", "until_end", "rate"),
    *("emit", "emit_every", "metrics", "log_level", "as_json", "quiet", "debug"),
    *("report", "live", "shape", "master"),
}


@shared.record
class Options:
    """What the user said: of the files, and of the run.

    Parameters
    ----------
    model
        Kind of target: classes (probit, logistic), numbers (gaussian), counts (poisson).
    max_categories
        Categories of a text column that get a code of their own.
    seed
        Random seed, for models that draw random numbers; the linear ones do not.
    as_published
        Exactly as in the paper: a probit without intercept, nothing scaled, a Perceptron.
    columns
        fixed: all files have the columns of the first. open: columns may come and go.
    absent
        With --columns open: what an absent column means.
    forget_after
        With --columns open: forget a column that has been absent for N rows.
    redundancy
        Accepted for compatibility: of redundant features, one is always selected.
    memory
        Rows, or time (90s, 5m, 12h, 7d, 2w), after which evidence has decayed to 1/e.
    time
        With --memory 7d: the column with the timestamp. It is not used as a feature.
    drift
        Which drift detector to use; an alarm discards most of the evidence.
    relations
        Effects to look for: linear; curves; also pairwise interactions; auto: what predicts best.
    groups
        Columns that are ranked and selected together; repeat for each group. --top counts groups.
    out
        Folder for results, checkpoints and what --resume needs.
    resume
        Resume the run in this folder, with its own FILE and options.
    checkpoint
        How often to save the run: every N batches, or 10s, 5m, ... Saving takes at most 5% of the
        time.
    transform
        Also write the selected columns of all rows to --out, one Parquet file per checkpoint.
    max_bad
        Stop if more rows than this are unusable: a number, or a fraction of all rows.
    max_wait
        Learn from an incomplete batch if no rows arrive for this long.
    engine
        What reads and learns: this process, or Spark.
    master
        With --engine spark: the master URL, such as local[2] or spark://HOST:7077.
    rate
        Process at most this many rows per second.
    emit
        Publish the selected features whenever they change, as JSON lines: to a file, - for
        standard output, redis://... or kafka://...
    emit_every
        When to publish.
    metrics
        Serve Prometheus metrics on this port, by default on localhost only.
    log_level
        Log events of this level and above to standard error, with timestamps.
    report
        Also write the page report.html to --out.
    shape
        The features are the pixels of an image, row by row: its height and width.
    live
        Serve that page during the run.
    """

    target: str | None = shared.target()
    top: int | float | str = shared.TOP
    batch_size: int = shared.batch_size()
    model: str = shared.choice(("auto", *CLASSES, *NUMERIC))
    max_categories: int = shared.count(1000)
    seed: int = shared.count(0, least=0)
    as_published: bool = shared.flag()
    columns: str = shared.choice(("fixed", "open"))
    absent: str = shared.choice(("missing", "zero"))
    forget_after: int | None = shared.option("N", type=click.IntRange(min=1))
    redundancy: str = shared.choice(("ignore", "drop"))
    memory: float | str = shared.option(
        "ROWS|TIME", type=shared.Memory(min=1.0, min_open=True), default=_MEMORY
    )
    time: str | None = shared.option("COL")
    drift: str = shared.choice(("auto", "none", "alarm"))
    relations: str = shared.choice(("linear", "curves", "pairs", "auto"))
    groups: tuple[str, ...] = shared.option("COL,COL", multiple=True)
    reading: Reading = shared.part(Reading)
    out: Path | None = shared.option("DIR", type=shared.PATH)
    overwrite: bool = shared.OVERWRITE
    resume: Path | None = shared.option(
        "DIR",
        type=shared.PATH,
        is_eager=True,
        callback=lambda ctx, option, path: resume_options(ctx, path),
    )
    checkpoint: str = shared.option("N|TIME", default="10s")
    transform: bool = shared.flag()
    max_bad: int | float | None = shared.option(
        "N|SHARE", type=shared.number_or_share(0, "a number of rows nor a share below 1")
    )
    max_wait: float | None = shared.option("SECONDS", type=shared.ABOVE_ZERO)
    engine: str = shared.choice(("fires", "spark"))
    master: str = shared.option("WHERE", default="local[*]")
    rate: float | None = shared.option("ROWS", type=shared.ABOVE_ZERO)
    emit: str | None = shared.option("WHERE")
    emit_every: Every = shared.choice(("change", "batch"))
    metrics: str | None = shared.option("[HOST:]PORT")
    log_level: str | None = shared.option(type=click.Choice(LEVELS))
    report: bool = shared.flag()
    live: bool = shared.flag()
    shape: str | None = shared.option("HxW", type=shared.as_height_and_width)
    as_json: bool = shared.AS_JSON
    quiet: bool = shared.QUIET

    @property
    def folder(self) -> Path | None:
        """Where the run is written down."""
        return self.resume or self.out

    def selector(self) -> FIRES:
        """What learns."""
        from fires.selectors.fires import FIRES

        settings: dict[str, Any] = {"random_state": self.seed}
        if self.engine == "fires":
            settings["batch_size"] = self.batch_size
        if self.groups:
            settings["groups"] = [[part for part in one.split(",") if part] for one in self.groups]
        if self.as_published and not isinstance(self.top, str):
            return FIRES.as_published(self.top, **settings)
        if self.columns == "open":
            settings |= {"columns": "open", "absent": self.absent}
            settings["forget_after"] = self.forget_after
        settings["drift"] = None if self.drift == "none" else self.drift
        for name in ("model", "redundancy", "memory", "time", "relations"):
            settings[name] = vars(self)[name]
        return FIRES(self.top, **settings)


def refuse_what_does_not_go_together(options: Options) -> None:
    """Raise an error for options of which one cannot be heeded."""
    fixed, paper, model = options.columns == "fixed", options.as_published, options.model
    bent, others = options.relations != "linear", {"--as-published": paper}
    others |= {"--columns open": not fixed, "--engine spark": options.engine == "spark"}
    needs_folder = {"transform": options.transform, "report": options.report, "live": options.live}
    for why, is_wrong in {
        "--absent zero requires --columns open.": fixed and options.absent == "zero",
        "--forget-after requires --columns open.": fixed and options.forget_after,
        "--as-published cannot be used with --columns open.": not fixed and paper,
        "--engine spark cannot be used with --columns open.": not fixed
        and options.engine == "spark",
        f"--as-published is a probit; it cannot be used with --model {model}.": paper
        and model not in ("auto", "probit"),
        "--as-published has no significance test: give --top a number.": paper
        and options.top == "auto",
        "--as-published cannot be used with --redundancy drop.": paper
        and options.redundancy == "drop",
        "--as-published forgets nothing: --memory and --drift cannot be used with it.": paper
        and (options.memory != _MEMORY or options.drift != "auto"),
        "--memory 7d and --time COL must be given together.": isinstance(options.memory, str)
        != (options.time is not None),
        "--groups cannot be used with --columns open.": not fixed and options.groups,
        **{f"--relations cannot be used with {one}.": bent and on for one, on in others.items()},
        **{
            f"--{name} needs a folder to write to: give --out.": wanted and options.folder is None
            for name, wanted in needs_folder.items()
        },
    }.items():
        if is_wrong:
            raise click.UsageError(why)
    _refuse_what_is_settled(options)


def _refuse_what_is_settled(options: Options) -> None:
    """Raise an error if the command line says what the run has settled."""
    resume = options.resume
    if resume is None:
        return
    for option in shared.typed_options(click.get_current_context()):
        if option.name not in _MAY_CHANGE:
            given = option.opts[0] if isinstance(option, click.Option) else "FILE"
            raise click.UsageError(
                f"{given} cannot be used with --resume: it is set in {resume / 'run.toml'}."
            )
    if options.engine == "fires" and options.reading.reads_once:
        raise InputError(
            f"{resume} was learnt from {options.reading.name}, which cannot be read again from the "
            "middle",
            hint="what it learnt is in its state.safetensors, for fires.load",
        )


def resume_options(ctx: click.Context, path: Path | None) -> Path | None:
    """Take the options of a run from its folder."""
    if path is None:
        return None
    if not (path / "run.toml").is_file():
        why = "has no run.toml" if path.is_dir() else "is not a folder"
        hint = "give a folder written by fires select --out"
        raise InputError(f"{path} holds no run to resume: it {why}", hint=hint)
    shared.read_config(ctx, path / "run.toml")
    return path
