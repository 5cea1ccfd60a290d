"""The page of runs or of a comparison: one HTML file, or shown inside a notebook."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from fires.core.errors import InputError
from fires.core.files import damaged, read_json, replace_file
from fires.core.output import enumeration
from fires.core.types import Header
from fires.core.version import __version__
from fires.evaluation.comparison import BASELINES, Comparison, Outcome, sign_of
from fires.report.records import rounded
from fires.report.summary import folder_of, side_by_side
from fires.run.saved import SavedRun

_STYLES = ("uplot.css", "page.css", "panels.css", "panel-comparison.css", "panel-relations.css")
# In the order in which they are shown.
_PANELS = (
    *("comparison", "runs", "now", "picture", "relations", "alarms", "importance", "members"),
    *("changes", "scores", "drift", "ranks", "twins", "features", "health"),
)
_SCRIPTS = (
    *("dom.js", "format.js", "shell.js", "charts.js", "drawing.js"),
    *(f"panel-{name}.js" for name in _PANELS),
    "start.js",
)
# What has a script and a style of its own, and is not in every page; what a page that goes on may
# come to hold.
_PARTS = ("comparison", "relations")
LIVE_PARTS = ("relations",)


def page(data: Header, *, live: bool = False) -> str:
    """The whole page as text."""
    parts = LIVE_PARTS if live else _parts(data)
    policy = content_policy(parts)
    text = Template(_asset("page.html")).substitute(
        policy="" if live else f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        version=escape(__version__),
        title=escape(str(data["title"])),
        style=_style(parts),
        data=_as_data(data),
        script=_script(parts),
    )
    return text.replace('<html lang="en">', '<html lang="en" data-live>', 1) if live else text


def _parts(data: Mapping[str, Any]) -> tuple[str, ...]:
    has = {"comparison": data["comparison"] is not None}
    has["relations"] = any(run.get("relations") for run in data["runs"])
    return tuple(part for part in _PARTS if has[part])


def content_policy(parts: tuple[str, ...], *, live: bool = False) -> str:
    """What the page may do: run its own script, and nothing else."""
    rules = [
        "default-src 'none'",
        f"script-src '{_hashed(_script(parts))}'",
        f"style-src '{_hashed(_style(parts))}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if live:
        rules += ["connect-src 'self'", "frame-ancestors 'none'"]
    return "; ".join(rules)


def page_data(summaries: Sequence[dict[str, Any]], comparison: Header | None = None) -> Header:
    """What a page shows."""
    names = [str(summary["run"]["name"]) for summary in summaries]
    if comparison is not None:
        names.append(str(comparison.get("name", "comparison")))
    return {
        "title": f"{', '.join(names)} \N{EN DASH} fires",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "fires": __version__,
        "runs": list(summaries),
        "comparison": comparison,
    }


def folder_data(folders: Sequence[Path]) -> Header:
    """What a page shows of some folders."""
    runs = [folder for folder in folders if (folder / "run.json").is_file()]
    compared = [one for one in folders if one not in runs and (one / FILE).is_file()]
    if len(compared) > 1:
        raise InputError(f"{compared[1]} is a second comparison: a page shows one")
    summaries = side_by_side([folder for folder in folders if folder not in compared])
    for summary in summaries:
        summary.refresh()
    told = [summary.as_dict() for summary in summaries]
    return page_data(told, read_comparison(compared[0]) if compared else None)


def write_page(folders: Sequence[Path], path: Path) -> int:
    """Write the page of one or more runs."""
    text = page(folder_data(folders))
    data = text.encode(errors="backslashreplace")  # a name may hold bytes that are no text
    replace_file(path, data)
    return len(data)


def compact(data: Header) -> str:
    """Data as JSON in one line."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _as_data(data: Header) -> str:
    """JSON that cannot end the element it stands in."""
    text = compact(data)
    for sign in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _style(parts: tuple[str, ...]) -> str:
    return "\n".join(_asset(name) for name in _needed(_STYLES, parts))


@cache
def _script(parts: tuple[str, ...]) -> str:
    library = _asset("uplot.js")
    licence = "/*\n" + _asset("uplot-license.txt") + "*/"
    ours = "\n".join(_trimmed(_asset(name)) for name in _needed(_SCRIPTS, parts))
    return f'{licence}\n{library}\n(() => {{\n"use strict";\n{ours}\n}})();'


def _needed(names: Sequence[str], parts: Sequence[str]) -> list[str]:
    """The files of a page with some of the parts."""
    left_out = tuple(f"panel-{part}." for part in _PARTS if part not in parts)
    return [name for name in names if not name.startswith(left_out)]


def _trimmed(script: str) -> str:
    """A script without comments on lines of their own and without indents: a tenth less to send.

    It must have no text that goes over several lines.
    """
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def _asset(name: str) -> str:
    path = files("fires.report") / "assets" / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _hashed(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


# --- in a notebook -------------------------------------------------------------------------------


class Page:
    """A page that a notebook shows. :func:`show` makes it."""

    def __init__(self, html: str, title: str, height: int = 800) -> None:
        self.html, self.title, self.height = html, title, height

    def _repr_html_(self) -> str:
        # A frame of its own: neither can the page change the notebook, nor its styles the page.
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="{escape(self.title)}" width="100%" '
            f'height="{self.height:d}" frameborder="0" sandbox="allow-scripts allow-downloads">'
            "</iframe>"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file, which any browser opens."""
        replace_file(Path(path), self.html.encode(errors="backslashreplace"))
        return Path(path)

    def __repr__(self) -> str:
        size = len(self.html.encode(errors="backslashreplace")) / 1000
        return (
            f"<page of {self.title}, {size:,.0f} kB: a notebook shows it; elsewhere, "
            'save("report.html") and open that file in a browser>'
        )


def show(
    run: str | os.PathLike[str] | SavedRun,
    *others: str | os.PathLike[str] | SavedRun,
    height: int = 800,
) -> Page:
    """Show the page of a run, or of a comparison, in a notebook.

    Parameters
    ----------
    run, *others : path, SavedRun or Comparison
        The folder that ``fires select --out`` or ``fires compare --out`` made, or what
        :func:`fires.evaluation.compare.compare` gave. Several runs are shown side by side.
    height : int
        In pixels.

    Returns
    -------
    Page
        A notebook shows it; its method ``save`` writes it to a file.

    Raises
    ------
    InputError
        If a folder holds no run and no comparison.
    """
    if isinstance(run, Comparison) and not others:
        data = page_data([], comparison_summary(run.as_dict()))
    elif any(isinstance(one, Comparison) for one in (run, *others)):
        raise TypeError("a Comparison is shown alone.")
    else:
        wanted = "show needs a path, a SavedRun or a Comparison"
        data = folder_data([folder_of(one, wanted) for one in (run, *others)])
    return Page(page(data), str(data["title"]), height)


# --- a comparison of selectors, as the numbers that its page shows -------------------------------

FILE = "compare.json"
# What scores are called, where it is not their name.
SCORES = {
    "balanced_accuracy": "balanced accuracy",
    "r2": "R²",
    "mae": "mean absolute error",
    "f1": "F1",
}

_NUMBERS = (
    *("won", "lost", "score", "spread", "stability", "stability_spread", "agreement"),
    *("difference", "low", "high", "p_value", "milliseconds"),
)
_FACTS = ("fires", "started", "seconds", "versions", "settings", "rejected_rows")


def comparison_summary(facts: dict[str, Any], name: str | None = None) -> Header:
    """What a page shows of a comparison."""
    found = Comparison.from_dict(facts)
    outcomes = found.outcomes
    settings = facts.get("settings") or {}
    files = [str(file) for file in settings.get("file") or ()]
    columns: dict[str, Any] = {"name": [one.name for one in outcomes]}
    columns["is_baseline"] = [name in BASELINES for name in columns["name"]]
    columns |= {key: rounded([vars(one)[key] for one in outcomes]) for key in _NUMBERS}
    per_row = [1e3 * one.milliseconds / found.batch_size for one in outcomes]
    plain = {key: vars(found)[key] for key in ("score", "reference", "batch_size", "n_pieces")}
    return (
        plain
        | {
            "name": name or (", ".join(Path(file).name for file in files) or "comparison"),
            "sentence": _sentence(found),
            "more_is_better": sign_of(found.score) > 0,
            "rows": found.n_rows,
            "features": found.n_features,
            "classes": len(found.classes),
            "runs": found.seeds,
            "selectors": columns | {"microseconds_per_row": rounded(per_row)},
            "pieces": [rounded(one.pieces) for one in outcomes],
            "beaten": _beaten(found),
            "cautions": list(found.cautions),
            "notes": [note for note in found.notes() if note not in found.cautions],
            "sources": files,
            "target": settings.get("target"),
        }
        | {key: facts[key] for key in _FACTS if key in facts}
    )


def read_comparison(folder: Path) -> Header:
    """The summary of a comparison that was saved."""
    path = folder / FILE
    try:
        with damaged(path):
            return comparison_summary(read_json(path), folder.resolve().name)
    except InputError as error:
        why = "it is damaged, or of another version of fires"
        raise InputError(f"{path} cannot be used: {why}") from error


def _sentence(found: Comparison) -> str:
    """What came out, in one sentence."""
    chosen = [one for one in found.outcomes if one.name not in BASELINES]
    if not chosen:
        return f"Only {enumeration([_label(one.name) for one in found.outcomes])} took part."
    best, first, score = chosen[0], found.outcomes[0], SCORES.get(found.score, found.score)
    beaten = [_label(other) for other, names in found.beaten.items() if best.name in names]
    what, who = f"{best.name} predicts best", " and"
    if best is not first:
        what, who = f"No selection predicts better than {_label(first.name)}", f"; {best.name}"
    beats = f"{who} beats {enumeration(beaten)}" if beaten else ""
    return f"{what} ({score} {first.score:.4g}){beats}."


def _beaten(found: Comparison) -> Header:
    """A table: for each selection, a word about each thing that it should beat."""
    chosen = [one for one in found.outcomes if one.name not in BASELINES]
    sign = sign_of(found.score)

    def word(one: Outcome, other: str, beaten: Sequence[str]) -> str | None:
        if one.name in (other, *beaten):
            return None if one.name == other else "better"
        return "perhaps" if sign * one.score > sign * found[other].score else "no"

    return {
        "others": [{"name": other, "label": _label(other)} for other in found.beaten],
        "selectors": [one.name for one in chosen],
        "words": [[word(one, *other) for other in found.beaten.items()] for one in chosen],
        "tested": any(not np.isnan(one.p_value) for one in found.outcomes),
    }


def _label(name: str) -> str:
    return BASELINES.get(name, name)
