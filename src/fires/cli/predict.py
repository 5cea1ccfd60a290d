"""``fires predict``: what a saved run says about new rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.applying import write_rows
from fires.cli.reading import Reading
from fires.cli.row_output import open_output
from fires.cli.startup import quick_imports
from fires.core.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from fires.columns.schema import Kind
    from fires.columns.target import Target
    from fires.core.types import Label, Labels
    from fires.pipeline import OnlinePipeline
    from fires.streams.rows import Rows

_EXAMPLES = """\b
Examples:
  fires predict run/ new.csv > predictions.csv
  fires predict run/ "new/*.parquet" --id customer --out predictions.parquet
  zcat new.csv.gz | fires predict run/ -
"""
_PREDICTION = "prediction"
_SCORES = {
    "accuracy": "accuracy {:.3f}",
    "balanced_accuracy": "balanced accuracy {:.3f}",
    "r2": "R2 {:.3f}",
    "mae": "MAE {:.4g}",
}


@click.command("predict", epilog=_EXAMPLES)
@options.new_rows
@click.option("--id", "id_", metavar="COL", help="A column to name the rows by, not their number.")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@options.out_file("the predictions go")
@options.overwrite
@options.quiet
@options.debug
def command(
    run: Path,
    id_: str | None,
    proba: bool,
    out: Path | None,
    overwrite: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Predict the target of the rows in FILE by what RUN has learnt.

    RUN is a folder that fires select --out has made. FILE is anything that fires select reads;
    its columns are read as they were in the run. Only the selected columns are needed, in any
    order, and others are not looked at. After fires select --columns open, they may be absent too,
    which is told. Each row has its number, from 1 on, and its prediction.
    Rows that cannot be read have a number too; they are counted, shown and left out.

    If FILE has the target too, the predictions are compared with it, and the score is told on
    standard error. Whatever ends the command early: the rows before are written, and whole.
    """
    reading = Reading(**how)
    with quick_imports():
        from fires.run.saved import SavedRun
    saved = SavedRun(run)
    if proba and not saved.pipeline.gives_probabilities:
        name = type(saved.pipeline.predictor).__name__
        raise InputError(f"{run}: its predictor, a {name}, gives no probabilities")
    if id_ == _PREDICTION:
        raise InputError(f'the column of --id cannot be called "{_PREDICTION}"')
    target = saved.target
    kinds: dict[str, Kind] = {
        column.name: "number" if column.is_plain else "category" for column in saved.selected
    }
    with open_output(out, overwrite=overwrite) as output:
        reader = reading.rows(
            kinds,
            keep=() if id_ is None else (id_,),
            if_present=() if target is None else (target.column.name,),
            may_lack=saved.is_open,
        )
        if target is not None and target.column.name not in reader.names:
            target = None
        score = None if target is None else Score(target, classes=saved.facts["classes"])
        predict = Predict(saved.pipeline, id_, proba=proba, score=score)
        write_rows(
            reader,
            predict,
            output,
            width=saved.pipeline.n_features_in_,
            quiet=quiet,
            tell=lambda: [
                *filter(None, [reader.absent()]),
                *([] if score is None else [score.line]),
            ],
        )


class Predict:
    """Makes the table of predictions."""

    def __init__(
        self,
        pipeline: OnlinePipeline,
        id_: str | None = None,
        *,
        proba: bool = False,
        score: Score | None = None,
    ) -> None:
        self._pipeline, self._id, self._proba, self._score = pipeline, id_, proba, score

    def __call__(self, rows: Rows) -> pl.DataFrame:
        """Predict some rows."""
        import polars as pl

        frame = rows.frame
        named = pl.Series("row", rows.numbers) if self._id is None else frame[self._id]
        if not len(frame):
            return pl.DataFrame([named, pl.Series(_PREDICTION, [], dtype=pl.String)])
        X = self._encoded(frame)
        predicted = self._pipeline.predict(X)
        table = [named, pl.Series(_PREDICTION, predicted)]
        if self._proba:
            found = self._pipeline.predict_proba(X)
            table += [
                pl.Series(f"probability of {label}", found[:, k])
                for k, label in enumerate(self._pipeline.classes_.tolist())
            ]
        if self._score is not None:
            self._score.update(frame, predicted)
        return pl.DataFrame(table)

    def _encoded(self, frame: pl.DataFrame) -> Any:
        """The rows as numbers. What is not selected says nothing, and need not be there."""
        columns = self._pipeline.columns_
        if self._pipeline.open_names is None:
            return columns.transform(frame)
        from fires.core.named import NamedRows

        present = columns.among(frame.columns)
        if present.names:
            return NamedRows(present.transform(frame), present.names)
        return NamedRows(columns.transform(frame), columns.names)  # all are missing


class Score:
    """Compares predictions with the target, where a row has one."""

    def __init__(self, target: Target, classes: list[Label] | None) -> None:
        from fires.metrics.prediction import Scores

        names = ("r2", "mae") if classes is None else ("accuracy", "balanced_accuracy")
        self._target, self._scores, self._n_rows = target, Scores(names), 0
        self._why = "it is empty"

    def update(self, frame: pl.DataFrame, predicted: Labels) -> None:
        """Count some rows in."""
        if self._target.column.name not in frame.columns:  # one of several files
            return
        labels = self._target.read(frame[self._target.column.name])
        if labels.usable is not None:
            predicted = predicted[labels.usable]
            self._why = next(iter(labels.reasons.values()), self._why)
        if len(labels.y):
            self._scores.update(labels.y, predicted)
            self._n_rows += len(labels.y)

    @property
    def line(self) -> str:
        """What came of it, for the user."""
        if not self._n_rows:
            return f"no score: {self._why}"
        total = self._scores.total
        shown = [
            text.format(total[name])
            for name, text in _SCORES.items()
            if name in total and total[name] == total[name]
        ]
        return f"{', '.join(shown)} on {self._n_rows:,} rows with a target"
