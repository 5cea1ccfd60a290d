"""The page of a run, or of several: one HTML file that asks nobody for anything."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError
from fires.core.files import naming, replace_file
from fires.core.version import __version__

if TYPE_CHECKING:
    from fires.core.types import Header


_STYLES = ("uplot.css", "page.css", "panels.css", "panel-comparison.css")
_SCRIPTS = (
    *("dom.js", "format.js", "shell.js", "charts.js", "drawing.js"),
    # The panels, in the order in which they are shown.
    *("panel-comparison.js", "panel-runs.js", "panel-now.js", "panel-importance.js"),
    *("panel-members.js", "panel-ranks.js", "panel-changes.js", "panel-scores.js"),
    *("panel-drift.js", "panel-twins.js", "panel-picture.js", "panel-features.js"),
    *("panel-health.js", "start.js"),
)
_OF_COMPARISON = ("panel-comparison.js", "panel-comparison.css")
"""What a page without a comparison does not hold."""


def page(data: Header, *, live: bool = False) -> str:
    """The whole page as text."""
    compared = data["comparison"] is not None
    policy = content_policy(compared=compared)
    text = Template(_asset("page.html")).substitute(
        policy="" if live else f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        version=escape(__version__),
        title=escape(str(data["title"])),
        style=_style(compared),
        data=_as_data(data),
        script=_script(compared),
    )
    return text.replace('<html lang="en">', '<html lang="en" data-live>', 1) if live else text


def content_policy(*, live: bool = False, compared: bool = False) -> str:
    """What the page may do: run its own script, and nothing else."""
    rules = [
        "default-src 'none'",
        f"script-src '{_hashed(_script(compared))}'",
        f"style-src '{_hashed(_style(compared))}'",
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
    from fires.report.comparison import holds_comparison, read_comparison
    from fires.report.summary import side_by_side

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


def _as_data(data: Header) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


@cache
def _style(compared: bool) -> str:
    return "\n".join(_asset(name) for name in _STYLES if compared or name not in _OF_COMPARISON)


@cache
def _script(compared: bool) -> str:
    library = _asset("uplot.js")
    licence = "/*\n" + _asset("uplot-license.txt") + "*/"
    names = (name for name in _SCRIPTS if compared or name not in _OF_COMPARISON)
    ours = "\n".join(_trimmed(_asset(name)) for name in names)
    return f'{licence}\n{library}\n(() => {{\n"use strict";\n{ours}\n}})();'


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
