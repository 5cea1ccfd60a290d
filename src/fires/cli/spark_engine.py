"""``fires select --engine spark``: the same command, on a cluster."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from fires.cli.options import as_toml, settings_facts, typed_options
from fires.cli.progress import one_bar, seen
from fires.cli.report import write_wanted
from fires.cli.select_options import Options
from fires.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from fires.evaluation.records import Step
    from fires.integrations.spark.running import SparkRun

_TAKEN = {
    *("file", "target", "top", "batch_size", "model", "as_published", "seed", "exclude", "sep"),
    *("no_header", "out", "overwrite", "resume", "report", "as_json", "quiet", "debug", "config"),
    *("engine", "master", "memory", "drift", "groups"),
}
_BATCH_ROWS = 20_000
_FORMATS = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".parquet", ".pq", ""), "parquet"),
    ".orc": "orc",
    **dict.fromkeys((".svm", ".libsvm", ".svmlight"), "libsvm"),
}


def select_on_spark(options: Options) -> None:
    """Rank the features of what Spark reads, and print them."""
    for option in typed_options(click.get_current_context()):  # rather than not to heed it
        if option.name not in _TAKEN:
            raise click.UsageError(f"{option.opts[0]} cannot be used with --engine spark.")
    from fires.cli.tables import print_result
    from fires.integrations.spark import spark_session
    from fires.integrations.spark.select import learn_frame
    from fires.streams.table import Rejected

    if options.target is None:
        if _form(options.reading.file) != "libsvm":
            raise click.UsageError("--engine spark needs --target.")
        options = replace(options, target="label")  # as Spark calls it
    session = spark_session(options.master, spark_ui_showConsoleProgress="false")
    session.sparkContext.setLogLevel("ERROR")
    frame = _read(session, options)
    run = _run(frame, options)
    began = time.perf_counter()
    with one_bar("0 rows", total=None, hidden=options.quiet) as show:

        def on_step(step: Step) -> None:
            show(partial(seen, step.position.rows, began, None))

        learn_frame(frame, run, _batch_rows(options), on_step)
    assert run.run is not None
    left_out = Rejected(run.n_left_out, (), "row")
    print_result(run.run, run.names, run.facts(), left_out, options)
    if not write_wanted(options):
        sys.exit(2)


def _run(frame: DataFrame, options: Options) -> SparkRun:
    from fires.integrations.spark.rows import layout_of
    from fires.integrations.spark.running import SparkRun

    target = options.target
    assert target is not None
    excluded = {name for names in options.reading.exclude for name in names.split(",")}
    if unknown := excluded - set(frame.columns):
        raise InputError(f'there is no column "{min(unknown)}" to exclude')
    features = [name for name in frame.columns if name not in excluded | {target}]
    known = {"file": list(options.reading.file), "batch_size": _batch_rows(options)}
    return SparkRun(
        options.selector(),
        layout_of(frame.schema, target, features=features),
        options.folder,
        overwrite=options.overwrite,
        resume=options.resume is not None,
        settings=settings_facts(**known)["settings"],
        options=as_toml(click.get_current_context(), **known),
    )


def _read(session: SparkSession, options: Options) -> DataFrame:
    """A frame of what Spark reads, by the ending of the name."""
    file = options.reading.file
    form = _form(file)
    if form is None or any(name.split("://")[0] in ("kafka", "redis", "-") for name in file):
        raise InputError(
            f"{file[0]}: fires select --engine spark reads CSV, JSON, Parquet, ORC and libsvm",
            hint="for other sources, make a DataFrame and call fires.integrations.spark",
        )
    reader = session.read.format(form)
    if form == "csv":
        sep = options.reading.sep or ("\t" if _endings(file) == {".tsv"} else ",")
        reader = reader.option("header", not options.reading.no_header).option("inferSchema", True)
        reader = reader.option("sep", sep)
    if form == "libsvm" and options.resume is not None:  # later rows may lack the last columns
        names = json.loads((options.resume / "names.json").read_bytes())
        reader = reader.option("numFeatures", len(names))
    try:
        return reader.load(list(file))
    except Exception as error:  # an AnalysisException of Spark, with pages of a plan
        raise InputError(f"Spark cannot read {file[0]}: {str(error).splitlines()[0]}") from error


def _form(file: tuple[str, ...]) -> str | None:
    """What Spark calls the form of some files; None if it reads no such files."""
    forms = {_FORMATS.get(ending) for ending in _endings(file)}
    if len(forms) > 1:
        raise InputError(
            "Spark reads only files of one format together", hint="give files of one format"
        )
    return forms.pop()


def _endings(file: tuple[str, ...]) -> set[str]:
    return {Path(name.rstrip("/").removesuffix(".gz")).suffix.lower() for name in file}


def _batch_rows(options: Options) -> int:
    source = click.get_current_context().get_parameter_source("batch_size")
    return _BATCH_ROWS if source is ParameterSource.DEFAULT else options.batch_size
