"""``fires demo``: a stream whose truth is known, with a change half-way."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from uuid import uuid4

import click

from fires.cli import options
from fires.cli.interrupts import quick_imports
from fires.cli.progress import one_bar, seen
from fires.cli.report import write_report
from fires.cli.text import alarm_lines
from fires.core.errors import InputError
from fires.core.files import read_json

_N_FEATURES, _N_RELEVANT, _N_SAMPLES, _BATCH_SIZE = 50, 5, 20_000, 100
_SOURCE = "fires demo"


@options.command("demo")
def command(
    out: Path = options.out(
        "the run and its report; created if it does not exist.", default="fires-demo"
    ),
    seed: int = options.count(0, "Seed of the random stream.", least=0),
) -> None:
    """Detect concept drift in a stream whose relevant features are known.

    The stream has 20,000 rows of 50 features. 5 features determine the label, and half-way 5 others
    take over. The demo shows which features matter now, how certain that is, and how soon the
    change was detected. It writes a run folder like fires select --out, with the state for
    fires.load, and report.html to open in a browser.
    """
    _refuse_other_runs(out)
    click.echo(
        f"{_N_SAMPLES:,} rows of {_N_FEATURES} features in batches of {_BATCH_SIZE}; "
        f"{_N_RELEVANT} features determine the\nlabel, and half-way {_N_RELEVANT} others take "
        f"over. FIRES({_N_RELEVANT}) does not know which."
    )

    with quick_imports():
        import numpy as np

        from fires.cli.tables import print_features
        from fires.pipeline import OnlinePipeline
        from fires.run.features import alarm_rows, feature_rows
        from fires.run.folder import RunFolder
        from fires.run.run import Run
        from fires.selectors.fires import FIRES
        from fires.streams.synthetic import DriftingFeatures

    stream = DriftingFeatures(_N_SAMPLES, _N_FEATURES, _N_RELEVANT, random_state=seed)
    names, selector = stream.schema.feature_names, FIRES(_N_RELEVANT)
    run = Run(OnlinePipeline(selector), _N_FEATURES)
    totals = run.totals
    selected = np.zeros((_N_SAMPLES // _BATCH_SIZE, _N_FEATURES), dtype=bool)
    facts = options.settings_facts() | {"id": uuid4().hex[:12]}
    facts["settings"] |= {"file": [_SOURCE], "target": stream.schema.target}
    facts["settings"] |= {"top": _N_RELEVANT, "batch_size": _BATCH_SIZE}
    with RunFolder(out, overwrite=True) as folder, one_bar("", total=_N_SAMPLES) as show:
        folder.begin(f"# {_SOURCE} --seed {seed} runs this again.\n", facts)
        folder.start(names)
        started = time.perf_counter()
        run.keep(folder, dict, began=started)
        for step in run.steps(stream, _BATCH_SIZE):
            run.record(step)
            selected[step.index, step.selected] = True
            more, of = f"stability {step.stability:.2f}", f" of {_N_SAMPLES:,}"
            show(partial(seen, totals.n_rows, started, totals.n_rows, more, of=of))
        facts |= {
            "rejected_rows": 0,
            "doubts": [vars(doubt) for doubt in run.watch.settled(names, ())],
            **run.facts(names),
        }
        run.finish(names, facts)
    path = out / "state.safetensors"
    write_report((out,))

    old, new = stream.relevant_at(0), stream.relevant_at(_N_SAMPLES - 1)
    truth = {names[column]: "before" for column in old} | {names[column]: "now" for column in new}
    click.echo()
    rows = feature_rows(selector, names, totals)
    print_features([row for row in rows if row["selected"] or row["feature"] in truth], truth)
    click.echo()

    turn = stream.change // _BATCH_SIZE
    n_before, n_after = selected[turn - 1, old].sum(), selected[-1, new].sum()
    click.echo(f"before the change, {n_before} of the {_N_RELEVANT} relevant features are selected")
    click.echo(f"change at row {stream.change:,} (batch {turn})")
    for line in alarm_lines(alarm_rows(selector, names, totals)):
        click.echo(line)
    # Recovered is the first batch from which on all of them are selected, up to the end.
    lacking = np.flatnonzero(~selected[turn:, new].all(axis=1))
    recovery = 1 if lacking.size == 0 else int(lacking[-1]) + 2
    if recovery <= len(selected) - turn:
        click.echo(
            f"recovered {recovery} batches after the change: from row "
            f"{stream.change + recovery * _BATCH_SIZE:,} on, all {_N_RELEVANT} are selected"
        )
    else:
        click.echo(
            f"not recovered from the change by the end of the stream: {n_after} of {_N_RELEVANT}"
        )
    click.echo(f"mean stability {totals.stability:.3f}, over windows of 10 batches")
    accuracy = totals.scores["accuracy"]
    click.echo(f"accuracy {accuracy:.3f}: a linear model on the selected features")
    click.echo(f"state saved to {path}")
    click.echo(f"report written to {out / 'report.html'}: open it in a browser")
    click.echo(f"continue with fires.load({json.dumps(str(path), ensure_ascii=False)})")


def _refuse_other_runs(out: Path) -> None:
    """Raise an error if a folder holds a run that is not the demo's: it would be lost."""
    mark = out / "run.json"
    try:
        ours = read_json(mark)["settings"]["file"] == [_SOURCE]
    except (OSError, ValueError, LookupError, TypeError):
        ours = not mark.exists()
    if not ours:
        raise InputError(f"{out} holds a run that is not from {_SOURCE}", hint="give --out")
