"""``fires explain``: what a saved run knows about one feature, and its history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.interrupts import quick_imports
from fires.cli.text import alarm_lines, printable
from fires.core.errors import InputError, closest
from fires.core.files import damaged, fits
from fires.core.output import csv_rows

if TYPE_CHECKING:
    from fires.core.types import Header, Json
    from fires.run.saved import SavedRun

_MOST_STAYS, _MOST_NAMES = 10, 8


@options.command("explain", options.debug)
def command(
    run: Path = options.RUN, feature: str = options.argument(), as_json: bool = options.AS_JSON
) -> None:
    """Show the history of FEATURE in RUN.

    RUN is a folder written by fires select --out. The output has: how the column was read; its rank
    and importance, and what the sign means; when it was selected, counting rows at the end of each
    batch; and the alarms about it. With --relations, it also has the curve of the column (its
    contribution to the linear predictor) and its pairs.

    Examples
    --------
    fires explain run/ age
    fires explain run/ "net income" --json
    """
    with quick_imports():
        from fires.run.saved import SavedRun

    known = feature_history(SavedRun(run), feature)
    if as_json:
        click.echo(json.dumps(known, ensure_ascii=False))
        return
    for line in lines_of(known):
        click.echo(printable(line))


def feature_history(run: SavedRun, feature: str) -> dict[str, Any]:
    """All that the folder of a run knows of a feature."""
    from fires.run.saved import group_titles

    if run.has_not_ended and not (run.path / "features.csv").exists():
        raise InputError(
            f"the run in {run.path} has not finished; results per feature are written when it ends",
            hint=f"fires select --resume {run.path} resumes it, unless a process is running it",
        )
    columns, column = _row_of(run.path / "columns.csv", "name", feature)
    titles = group_titles(run.facts["settings"])
    title = titles.get(feature, feature)
    ranked, found = _row_of(run.path / "features.csv", "feature", title)
    if not column and not found:
        raise _unknown(run, feature, list(dict.fromkeys([*columns, *ranked])))
    known: dict[str, Any] = {"feature": feature} | column | found
    known.pop("name", None)
    if not found:
        return known
    features = run.features_of(feature)
    if not features:
        raise InputError(f"{run.path}: its files belong to different runs")
    concerned = {None, feature, *features.values()}
    known |= {"n_features": len(ranked)} | _stays(run, list(features)) | _relations(run, features)
    with damaged(run.path / "run.json"):
        known["alarms"] = [one for one in run.facts["alarms"] if one["feature"] in concerned]
        # Of several features, or of a curve that turns, the importance has no sign.
        unsigned = title in titles.values() or known.get("unsigned")
        return known | {"meaning": "" if unsigned else _meaning(known, run.facts["classes"])}


_READ: dict[str, Callable[[str], Json]] = {
    **dict.fromkeys(("rank", "unreadable", "distinct"), int),
    **dict.fromkeys(("weight", "importance", "uncertainty", "low", "high"), float),
    **dict.fromkeys(("share_selected", "missing"), float),
    **dict.fromkeys(("selected", "absent", "above_noise"), "True".__eq__),
}


def _row_of(path: Path, title: str, feature: str) -> tuple[list[str], Header]:
    """The names of all rows of a table, and the row that is of a feature."""
    names: list[str] = []
    row: Header = {}
    if path.exists():  # svmlight has no columns to speak of
        with damaged(path):
            for one in csv_rows(path):
                names.append(one[title])
                if names[-1] == feature:
                    row = {name: _READ.get(name, str)(s) if s else None for name, s in one.items()}
            if title == "feature" and row:
                # What was forgotten has no rank, and some have no interval.
                wanted = ["share_selected", *["importance"] * (row["rank"] is not None)]
                wanted += ["low", "high"] * (row["low"] != row["high"])
                told = {"selected", *["above_noise"] * (row["low"] is not None)}
                if not (told <= row.keys() and fits(row, dict.fromkeys(wanted, float))):
                    raise ValueError(f'it lacks what is known of "{feature}"')
    return names, row


def _unknown(run: SavedRun, feature: str, names: list[str]) -> InputError:
    settings = run.facts["settings"]
    if feature == settings.get("target"):
        return InputError(f'"{feature}" is the target of {run.path}, not a feature')
    if any(feature in (given, *given.split(",")) for given in settings.get("exclude") or ()):
        return InputError(f'"{feature}" was excluded from {run.path}')
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    hint = closest(feature, names, f"it has {', '.join(names[:_MOST_NAMES])}{more}", quote='"')
    return InputError(f'no feature "{feature}" in {run.path}', hint=hint)


def _stays(run: SavedRun, places: list[int]) -> Header:
    """When one of the features came and left, by the records of the batches."""
    import numpy as np
    import polars as pl

    from fires.report.records import Follower, read_block

    follower = Follower(run.path / "steps.jsonl")
    rows, selected = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=bool)]
    with damaged(follower.path):
        for lines in follower.blocks():
            frame, *_ = read_block(follower, lines)
            rows.append(frame["rows"].to_numpy())
            is_one = frame["selected"].list.eval(pl.element().is_in(places).any())
            selected.append(is_one.list.first().fill_null(False).to_numpy())
    row, is_in = np.concatenate(rows), np.concatenate(selected)
    turns = row[np.diff(is_in, prepend=False)].tolist()
    stays = [{"from_row": a, "to_row": b} for a, b in zip_longest(turns[::2], turns[1::2])]
    return {"batches": len(row), "batches_selected": int(is_in.sum()), "stays": stays}


def _relations(run: SavedRun, features: Mapping[int, str]) -> dict[str, Any]:
    """The curves of some features, and the pairs that they are in, if there are any."""
    from fires.run.relations import relations_of

    with damaged(run.path / "state.safetensors"):
        found: dict[str, Any] | None = relations_of(run.pipeline, features)
    if found is None or found["kind"] == "linear":
        return {}
    own = {*features.values()}
    pairs = [pair for pair in found["pairs"] if not own.isdisjoint((pair["first"], pair["second"]))]
    return {"curves": found["curves"], "pairs": pairs, "unsigned": bool(found["unsigned"])}


def _relation_lines(known: Mapping[str, Any]) -> Iterator[str]:
    """The curves of a column, point by point, and its pairs."""
    for curve in known.get("curves", ()):
        name = f" of {curve['feature']}" if curve["feature"] != known["feature"] else ""
        label = f' for "{curve["class"]}"' if curve.get("class") is not None else ""
        yield f"effect{name}{label} by value, with its 95% band:"
        points = zip(*(curve[key] for key in ("values", "effect", "low", "high")), strict=True)
        for value, effect, low, high in islice(points, 0, None, 2):
            yield f"{value:>10.4g}: {effect:>8.3g}  [{low:.3g}, {high:.3g}]"
    for pair in known.get("pairs", ()):
        ends = f"[{pair['low']:.4g}, {pair['high']:.4g}]"
        what = f"{pair['first']} x {pair['second']}"
        yield f"interaction {what}: importance {pair['importance']:.4g}, 95% interval {ends}"


def _meaning(known: dict[str, Any], classes: list[Any] | None) -> str:
    """What the sign of the importance says, if it says anything."""
    importance = known["importance"]
    if not importance or known.get("kind") == "category":  # categories have no order
        return ""
    above = importance > 0.0
    if classes is None:
        return f"the target {'grows' if above else 'falls'} as it grows"
    if known.get("class") is not None:
        return f'high values {"favour" if above else "count against"} "{known["class"]}"'
    return f'high values favour "{classes[int(above)]}"'


def lines_of(known: dict[str, Any]) -> list[str]:
    """The history of a feature in some lines."""
    lines = [f"{known['feature']}: {_reading(known)}"]
    if known.get("doubt"):
        lines.append(f"warning: {known['doubt']}")
    if "rank" not in known:
        return lines
    lines.append(_importance(known))
    over = [stay for stay in known["stays"] if stay["to_row"] is not None]
    told = [f"selected from row {one['from_row']:,} to row {one['to_row']:,}" for one in over]
    if (more := len(told) - _MOST_STAYS) > 0:
        told[:more] = [f"{more:,} earlier periods, and:"]
    return [*lines, _selected(known), *told, *alarm_lines(known["alarms"]), *_relation_lines(known)]


def _reading(known: dict[str, Any]) -> str:
    """What the column holds, and how it was read."""
    kind, done = known.get("kind"), known.get("done")
    parts = ["a number" if kind is None else kind] if kind != "left out" else []
    parts += [done] if done else []
    if known.get("missing"):
        parts.append(f"{known['missing']:.1%} missing")
    if known.get("unreadable"):
        parts.append(f"{known['unreadable']:,} cells could not be read")
    return ", ".join(parts)


def _importance(known: dict[str, Any]) -> str:
    if known["rank"] is None:
        return "absent for so long that it was forgotten"
    text = (
        f"rank {known['rank']:,} of {known['n_features']:,}, importance {known['importance']:.4g}"
    )
    low, high = known["low"], known["high"]
    if low is not None:
        text += f", 95% interval [{low:.4g}, {high:.4g}]"
    if known["meaning"]:
        text += f": {known['meaning']}"
    if low is not None:
        text += f"; {_SIGNIFICANCE[bool(known['above_noise']), low <= 0.0 <= high]}"
    return f"{text}; absent recently" if known.get("absent") else text


# Of a feature that is significant or not, with an interval that contains 0 or not.
_SIGNIFICANCE = {
    (True, False): "significant",
    (True, True): "significant given the selected features; given all features, its interval "
    "contains 0",
    (False, True): "not distinguishable from zero",
    (False, False): "not significant given the selected features",
}


def _selected(known: dict[str, Any]) -> str:
    stays, n_batches = known["stays"], known["batches"]
    share = f"in {known['share_selected']:.1%} of the batches"
    if not n_batches:
        when = "selected" if known["selected"] else "not selected"
        return f"{when}, {share}; no record says when"
    share += f" ({known['batches_selected']:,} of {n_batches:,})"
    if known["selected"] and stays:
        return f"selected since row {stays[-1]['from_row']:,}, {share}"
    if not stays:
        return "never selected"
    return f"not selected since row {stays[-1]['to_row']:,}, before that {share}"
