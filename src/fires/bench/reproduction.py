"""Where our numbers differ from the paper's, and why, as far as that is known."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from itertools import product
from typing import Any

from fires.bench import published
from fires.bench.cells import DATASETS, METHODS
from fires.bench.datasets.loading import describe
from fires.bench.protocols import AS_PUBLISHED, TEST_THEN_TRAIN
from fires.bench.summary import Summary

TOLERANCE = 0.03
NOT_FOUND = "not found"
_QUANTITIES = ("accuracy", "stability")
_HEAD = (
    "| | data set | method | ours | published | difference | reason |",
    "|---|---|---|--:|--:|--:|---|",
)

_PROTOCOL, _FEWER_ROWS, _FEWER_SETTINGS = "protocol", "fewer rows", "fewer settings"


@cache
def _findings() -> dict[str, Any]:
    """What is known about differences: what holds for all numbers, and reasons by their names."""
    path = resources.files("fires.bench").joinpath("reproduction.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))


def text(summary: Summary) -> str:
    """The whole page."""
    parts = [
        "# Reproduction of the paper's tables",
        "Written by `fires bench kdd2020` together with its tables, from the same results.",
        "\n".join(f"- {run['date']}: `{run['command']}`" for run in summary.runs),
        _findings()["about"].format(tolerance=TOLERANCE),
    ]
    used = {_PROTOCOL} if TEST_THEN_TRAIN in summary.protocols else set()
    for protocol in summary.protocols:
        parts += _protocol_parts(summary, protocol, used)
    known = _findings()["reasons"]
    meanings = [f"- {one['name']}: {one['text']}" for one in known if one["name"] in used]
    parts += ["## Reasons", "\n".join(meanings)] * bool(meanings)
    return "\n\n".join(filter(None, parts)) + "\n"


def _protocol_parts(summary: Summary, protocol: str, used: set[str]) -> list[str]:
    """What is said about one protocol; the reasons that it names are added to those used."""
    n_compared, rows = 0, []
    for quantity, dataset, method in product(_QUANTITIES, summary.datasets, summary.methods):
        ours = summary.value(quantity, protocol, dataset, method)
        theirs = published.value(quantity, dataset, method)
        if ours is None or theirs is None:
            continue
        n_compared += 1
        if _differs(ours, theirs):
            names = reasons(summary, protocol, dataset, method)
            used.update(names)
            why = ", ".join(names) or NOT_FOUND
            if protocol != AS_PUBLISHED:
                same = summary.value(quantity, AS_PUBLISHED, dataset, method)
                why = _told_apart(ours, same, theirs, why)
            numbers = f"{ours:.3f} | {theirs:.3f} | {ours - theirs:+z.3f}"
            rows.append(f"| {quantity} | {dataset} | {method} | {numbers} | {why} |")
    lost = [
        f"{method} on {dataset}"
        for dataset, method in summary.divergences(protocol)
        if (protocol, dataset, method) not in summary.entries
    ]
    return [
        f"## {protocol}",
        f"{n_compared - len(rows)} of {n_compared} numbers are within {TOLERANCE} of the "
        f"published, {len(rows)} are not.",
        "\n".join([*_HEAD, *rows]) if rows else "",
        f"Without a number, as parameters ceased to be finite in every setting: {', '.join(lost)}."
        if lost
        else "",
    ]


def _differs(ours: float, theirs: float) -> bool:
    """As both are printed: the published number has three digits."""
    return round(abs(ours - theirs), 3) > TOLERANCE


def _told_apart(ours: float, same: float | None, theirs: float, why: str) -> str:
    """What the protocol makes of a number, and the rest, which has the reasons as published."""
    if same is None:
        return f"{_PROTOCOL}, {why}"
    rest = f"{same - theirs:+z.3f} as published"
    known = f" ({why})" if _differs(same, theirs) else ""
    return f"{ours - same:+z.3f} by the protocol, {rest}{known}"


def reasons(summary: Summary, protocol: str, dataset: str, method: str) -> list[str]:
    """What is known to set the numbers of a method apart from the published ones."""
    entry = summary.entries[protocol, dataset, method]
    paper = published.document()["protocol"]
    n_fractions = len(paper["fractions"]) if METHODS[method].selects else 1
    found = {
        _FEWER_ROWS: entry.rows < describe(dataset).n_rows,
        _FEWER_SETTINGS: entry.n_settings < len(paper["batch_sizes"]) * n_fractions,
    }
    for one in _findings()["reasons"]:
        of_it = method in one.get("methods", METHODS) and dataset in one.get("datasets", DATASETS)
        found.setdefault(one["name"], of_it)
    return [name for name, holds in found.items() if holds]
