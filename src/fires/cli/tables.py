"""The tables that commands print, and what ``fires select`` prints at its end."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import sub
from typing import TYPE_CHECKING, Any, Literal

import click
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fires.cli.reading import rejected_lines
from fires.cli.select_options import Options
from fires.cli.text import (
    SCORES,
    alarm_lines,
    if_known,
    listed,
    printable,
    relation_lines,
    score_text,
    twin_lines,
)

if TYPE_CHECKING:
    from fires.core.types import Label
    from fires.run.run import Run
    from fires.run.totals import RunTotals
    from fires.streams.table import Rejected

_SHARE = "batches\nselected"
_WORDS = ("feature", "class", "relevant")
_FOLDED = 12  # letters of a name in one line
_ANY_WIDTH = 10_000
_Column = tuple[str, Sequence[str]]


def print_table(
    columns: Iterable[_Column],
    *,
    left: Collection[str] = (),
    wrapped: Collection[str] = (),
    spare: Mapping[str, Sequence[_Column]] | None = None,
    names: Sequence[str] = (),
    dim: Collection[int] = (),
    gap: int | None = None,
    vertical: Literal["top", "bottom"] = "bottom",
    **look: Any,
) -> None:
    """Print columns, each with its title: a line below the head, and no other.

    Where it is too wide, ``spare`` says what to leave out first, and what takes its place; wrapped
    ``names`` take less room than they are long.
    """
    console, wide = Console(), Console(width=_ANY_WIDTH)
    shown, folds = list(columns), max(max(map(len, names), default=0) - _FOLDED, 0)
    for title, instead in [*(spare or {}).items(), ("", ())]:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **look)
        for one, _ in shown:
            table.add_column(
                one,
                justify="left" if one in left else "right",
                vertical=vertical,
                no_wrap=one not in wrapped,
                overflow="fold",
            )
        for place, cells in enumerate(zip(*(cells for _, cells in shown), strict=True)):
            # A name may hold what rich takes for markup.
            style = "dim" if place in dim else ""
            table.add_row(*map(Text, cells), end_section=place == gap, style=style)
        if Measurement.get(wide, wide.options, table).maximum - folds <= console.width:
            break
        shown = [kept for one in shown for kept in (instead if one[0] == title else [one])]
    console.print(table)


def print_features(
    rows: Sequence[Mapping[str, Any]], relevant: Mapping[str, str] | None = None
) -> None:
    """Features in order: significant ones that are selected bright, with a gap below the last."""
    importance, importances = _importances(rows)
    columns = {
        "rank": [str(row["rank"]) for row in rows],
        "feature": [printable(row["feature"]) for row in rows],
        "weight": [f"{row['weight']:#.3g}" for row in rows],
        importance: importances,
        _SHARE: [f"{row['share_selected']:.1%}" for row in rows],
    }
    if all(row["low"] is not None for row in rows):  # it is the size of the importance then
        del columns["weight"]
    if any(row.get("class") is not None for row in rows):
        columns["class"] = [printable(str(row["class"])) for row in rows]
    if relevant is not None:
        columns["relevant"] = [relevant.get(row["feature"], "") for row in rows]
    short = ("importance", [text.split()[0] for text in importances])
    # Where there is no interval, noise is not known, and does not count.
    dim = [
        place
        for place, row in enumerate(rows)
        if not row["selected"] or row.get("above_noise") is False
    ]
    print_table(
        columns.items(),
        left=_WORDS,
        wrapped=_WORDS,
        spare={"weight": (), _SHARE: (), importance: [short], "rank": ()},
        names=columns["feature"],
        dim=dim,
        gap=max(set(range(len(rows))).difference(dim), default=-1),
    )


def _importances(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """The head of the column of importances, and its cells."""
    lows, highs = ([row[end] for row in rows] for end in ("low", "high"))
    if None in lows:
        cells = [f"{row['importance']:.4f} ± {row['uncertainty']:.4f}" for row in rows]
        return "importance\n± uncertainty", cells
    # As many decimals as the narrowest interval tells apart, the same in all rows.
    least = min(map(sub, highs, lows), default=1.0)
    digits = min(max(round(1.0 - math.log10(least)), 2), 6) if least > 0.0 else 2
    width = max((len(f"{end:.{digits}f}") for end in (*lows, *highs)), default=0)
    return "importance\n[95% interval]", [
        f"{row['importance']:.{digits}f}  "
        f"[{row['low']:>{width}.{digits}f}, {row['high']:>{width}.{digits}f}]"
        for row in rows
    ]


# --- the result of a run ------------------------------------------------------------------------


def print_result(
    run: Run,
    names: Sequence[str],
    facts: dict[str, Any],
    rejected: Rejected,
    options: Options,
    *,
    live: bool = False,
    is_saved: bool = True,
) -> None:
    """Print the result of a run, as the user wants it, and where it is."""
    from fires.run.features import feature_rows

    selector, totals = run.pipeline.selector, run.totals
    chosen = feature_rows(selector, names, totals, selector.get_support(indices=True))
    if options.as_json:
        document = {"features": chosen} | facts | totals.as_dict()
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if chosen:
        print_features(chosen)
        unsigned = facts.get("relations", {}).get("unsigned", ())
        click.echo("\n" + _meaning(facts["classes"], unsigned))
    for line in _lines_of_features(chosen, facts):
        click.echo(line)
    speed = [f"{totals.n_rows:,} rows in {facts['seconds']:.1f} s"]
    click.echo(", ".join(speed + if_known("stability {:.3f}", totals.stability)))
    if live and facts["latency"]["p50"] is not None:
        p50, p99 = (1000.0 * facts["latency"][name] for name in ("p50", "p99"))
        click.echo(f"latency per batch: median {p50:.3g} ms, 99th percentile {p99:.3g} ms")
    if rows := score_rows(totals, len(chosen), facts["n_features"]):
        columns = [("", [what for what, _ in rows])]
        for name in rows[0][1]:
            cells = ["-" if (s := one[name]) != s else score_text(name, s) for _, one in rows]
            columns.append((SCORES.get(name, name).replace(" ", "\n"), cells))
        click.echo()
        print_table(columns, left=[""], wrapped=[""])
        click.echo()
    lines = [*share_lines(totals), *verdict_lines(totals), *facts.get("cautions", ())]
    lines += alarm_lines(facts["alarms"])
    if n_missing := facts["missing_values"]:
        lines.append(f"{n_missing:,} missing value{'' if n_missing == 1 else 's'} ignored")
    for line in (*lines, *map(printable, rejected_lines(rejected))):
        click.echo(line)
    if is_saved and not options.quiet and (folder := options.folder) is not None:
        click.echo(f"written to {folder}: features.csv, state.safetensors, run.json, and more")


def _lines_of_features(chosen: list[dict[str, Any]], facts: dict[str, Any]) -> Iterator[str]:
    """What is to be known of the features."""
    top, n_features = facts.get("settings", {}).get("top"), facts["n_features"]
    is_auto = top == "auto"
    if isinstance(top, int) and top >= n_features:
        yield f"--top {top} leaves nothing to select: there are {n_features:,} features"
    if not chosen or chosen[0]["above_noise"] is not None:
        yield printable(facts["why"])
    yield from _interval_lines(chosen, facts)
    yield from relation_lines(facts.get("relations", {}))
    yield from map(printable, facts.get("hints", ()))
    if absent := [printable(f'"{row["feature"]}"') for row in chosen if row.get("absent")]:
        yield f"absent recently, and not replaced: {', '.join(absent)}"
    if not is_auto:
        yield from _left_out_lines(chosen, twins=bool(facts.get("twins")))
    yield from twin_lines(facts.get("twins", {}))


def _left_out_lines(chosen: list[dict[str, Any]], *, twins: bool) -> Iterator[str]:
    """That some of the best features are not selected, and why."""
    n_left_out = sum(row["rank"] > len(chosen) for row in chosen)
    if not n_left_out:
        return
    is_not = "is" if n_left_out == 1 else "are"
    other = ", or redundant" if twins else ""
    if "absent" in chosen[0]:  # columns are open
        other += ", or absent recently"
    best = f"{n_left_out} of the best {len(chosen)}"
    yield f"{best} {is_not} not selected:"
    yield f"  not significantly better than the current selection{other}"


def _meaning(classes: list[Label] | None, unsigned: Sequence[str] = ()) -> str:
    """What the sign of an importance says, and of which features it says nothing."""
    none = f"; no sign: {listed(unsigned)}" if unsigned else ""
    if classes is None:
        return f"positive values: the target grows with the feature{none}"
    names = [printable(str(label)) for label in classes]
    if len(names) == 2:
        return f'positive values favour class "{names[1]}", negative ones "{names[0]}"{none}'
    return f"positive values favour the class, negative ones count against it{none}"


_UNEVEN = 0.6  # the share of the most common class from which on shares are told
_MOST_CLASSES = 4


def _interval_lines(chosen: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> Iterator[str]:
    """Why the interval of a significant feature may contain 0."""
    found = [
        row["feature"] for row in chosen if row["above_noise"] and row["low"] <= 0 <= row["high"]
    ]
    if not found:
        return
    interval = "its interval contains" if len(found) == 1 else "their intervals contain"
    classes = ", and the test is of all classes" if len(facts["classes"] or ()) > 2 else ""
    yield (
        f"significant given the selected features: {listed(found)}; given all "
        f"{facts['n_features']:,}, {interval} 0 (correlated features{classes})"
    )


def score_rows(
    totals: RunTotals, n_selected: int, n_features: int
) -> list[tuple[str, Mapping[str, float]]]:
    """The scores on the selected features, and those of the baselines."""
    scores = totals.scores
    if all(value != value for value in scores.values()):
        return []
    names = {"all": f"all {n_features:,} features"} | _BLIND
    own = "the selected feature" if n_selected == 1 else f"the {n_selected:,} selected features"
    beside = [(names[name], one.scores.total) for name, one in reversed(totals.baselines.items())]
    return [(own, scores), *beside]


_BLIND = {"majority": "always the most common class", "mean": "always the mean so far"}


def share_lines(totals: RunTotals) -> Iterator[str]:
    """The share of each class, if one of them makes up most rows."""
    shares = sorted(totals.class_shares.items(), key=lambda one: -one[1])
    if len(shares) < 2 or shares[0][1] <= _UNEVEN:
        return
    (first, share), *others = [(printable(str(label)), share) for label, share in shares]
    told = others if len(others) < _MOST_CLASSES else others[-1:]
    rest = ", ".join(f'"{label}" {share:.1%}' for label, share in told)
    between = ", " if told == others else f"; the rarest of {len(shares):,} classes is "
    yield f'"{first}" makes up {share:.1%} of the rows{between}{rest}'


def verdict_lines(totals: RunTotals) -> Iterator[str]:
    """Whether the selected features predict better than a model without any."""
    for name, beaten in totals.beaten.items():
        if name not in _BLIND or not beaten or all(beaten.values()):
            continue
        simple = "always predicting the " + ("most common class" if name == "majority" else "mean")
        if not any(beaten.values()):
            yield f"the selected features do not beat {simple}"
            continue
        won, lost = ([SCORES[s] for s, is_won in beaten.items() if is_won == w] for w in (1, 0))
        yield (
            f"by {' and '.join(lost)}, the selected features do not beat {simple}; "
            f"by {' and '.join(won)} they do"
        )
