"""What stands below the tables: how their numbers came about, and what lacks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from fires.bench import published
from fires.bench.cells import DATASETS
from fires.bench.summary import Summary


def protocol_notes(summary: Summary, protocol: str) -> list[str]:
    """What must be known about the means and ranks, and what is not there."""
    names = [d for d in summary.datasets if any(p[:2] == (protocol, d) for p in summary.entries)]
    machine = published.document()["protocol"]["machine"]
    notes = [
        f"Mean: over {', '.join(names)} on both sides, so that the published means are not those "
        "of the paper unless these are all ten data sets. A method that lacks one of them has "
        "none.",
        "Rank: by the mean, among the methods in the row. The paper has neither all features nor "
        "random features.",
        "Time: of other machines and other libraries, so that nothing follows from one number "
        f"being less than the other. The paper's machine: {machine}.",
    ]
    for dataset, method in product(names, summary.methods):
        lacks = _what_lacks(summary, protocol, dataset, method)
        notes += [f"{dataset}, {method}: {line}" for line in lacks]
    for (dataset, method), rows in summary.divergences(protocol).items():
        notes.append(
            f"{dataset}, {method}: its parameters ceased to be finite in {len(rows)} of "
            f"{summary.expected(protocol, method)} settings, first behind row {min(rows):,}; "
            "these do not count."
        )
    for (dataset, method, error), n in summary.failures(protocol).items():
        notes.append(f"{dataset}, {method}: failed in {n} of its settings: {error}")
    return notes


def _what_lacks(summary: Summary, protocol: str, dataset: str, method: str) -> Iterator[str]:
    """In what a number has less behind it than others have."""
    entry = summary.entries.get((protocol, dataset, method))
    if entry is not None:
        expected = summary.expected(protocol, method)
        if entry.n_settings < expected:
            yield f"a mean over {entry.n_settings} of {expected} settings only."
        if entry.rows < summary.rows(dataset):
            yield f"{entry.rows:,} rows only."
    if n := summary.n_left_out(protocol, dataset, method):
        were, do = ("setting that was", "does") if n == 1 else ("settings that were", "do")
        yield f"{n} {were} run over fewer rows than others {do} not count."


def dataset_notes(summary: Summary) -> list[str]:
    """What was done to each data set, and which were not run."""
    notes = []
    for name in summary.datasets:
        reasons = dict.fromkeys(
            note
            for record in summary.records
            if record["dataset"] == name and record.get("rows") == summary.rows(name)
            for note in record["notes"]
        )
        notes += [f"{name}: {'; '.join(reasons)}."] * bool(reasons)
    absent = [name for name in DATASETS if name not in summary.datasets]
    return notes + [f"Not run: {', '.join(absent)}."] * bool(absent)
