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

from fires.core.errors import InputError
from fires.core.files import naming, replace_file
from fires.core.types import Header
from fires.core.version import __version__
from fires.evaluation.comparison import Comparison
from fires.report.comparison import comparison_summary, holds_comparison, read_comparison
from fires.report.summary import side_by_side
from fires.run.saved import SavedRun

_STYLES = ("uplot.css", "page.css", "panels.css", "panel-comparison.css", "panel-relations.css")
_SCRIPTS = (
    *("dom.js", "format.js", "shell.js", "charts.js", "drawing.js"),
    # The panels, in the order in which they are shown.
    *("panel-comparison.js", "panel-runs.js", "panel-now.js", "panel-importance.js"),
    *("panel-relations.js", "panel-members.js", "panel-ranks.js", "panel-changes.js"),
    *(
        "panel-scores.js",
        "panel-drift.js",
        "panel-twins.js",
        "panel-picture.js",
        "panel-features.js",
    ),
    *("panel-health.js", "start.js"),
)
_PARTS = ("comparison", "relations")
"""What has a script and a style of its own, and is not in every page."""
LIVE_PARTS = ("relations",)
"""What a page that goes on may come to hold."""


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


def folder_data(folders: Sequence[Path], shape: tuple[int, int] | None = None) -> Header:
    """What a page shows of some folders."""
    compared = [folder for folder in folders if holds_comparison(folder)]
    if len(compared) > 1:
        raise InputError(f"{compared[1]} is a second comparison: a page shows one")
    runs = side_by_side([folder for folder in folders if folder not in compared], shape)
    for run in runs:
        run.refresh()
    summaries = [run.as_dict() for run in runs]
    return page_data(summaries, read_comparison(compared[0]) if compared else None)


def write_page(folders: Sequence[Path], path: Path, shape: tuple[int, int] | None = None) -> int:
    """Write the page of one or more runs."""
    text = page(folder_data(folders, shape))
    data = text.encode(errors="backslashreplace")  # a name may hold bytes that are no text
    with naming(path):
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
    shape: tuple[int, int] | None = None,
) -> Page:
    """Show the page of a run, or of a comparison, in a notebook.

    Parameters
    ----------
    run, *others : path, SavedRun or Comparison
        The folder that ``fires select --out`` or ``fires compare --out`` made, or what
        :func:`fires.evaluation.compare.compare` gave. Several runs are shown side by side.
    height : int
        In pixels.
    shape : tuple of int, optional
        Height and width, if the features are the pixels of a picture.

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
    else:
        data = folder_data([_folder(one) for one in (run, *others)], shape)
    return Page(page(data), str(data["title"]), height)


def _folder(run: str | os.PathLike[str] | SavedRun) -> Path:
    if isinstance(run, SavedRun):
        return run.path
    if isinstance(run, Comparison):
        raise TypeError("a Comparison is shown alone.")
    if not isinstance(run, str | os.PathLike):
        what = "a path, a SavedRun or a Comparison"
        raise TypeError(f"show needs {what}; got {type(run).__name__}.")
    return Path(run)
