"""Small pieces of HTML for notebooks: everything that is given is text, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without scripts and styles, so that it looks like others of the notebook.

    Examples
    --------
    >>> html_table(["feature"], [["<b>"]])
    '<table><thead><tr><th>feature</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    body = "".join(_row(row, "td") for row in rows)
    top = f"<thead>{_row(head, 'th')}</thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def html_list(lines: Iterable[str]) -> str:
    """Lines with a dot before each.

    Examples
    --------
    >>> html_list(["a < b"])
    '<ul><li>a &lt; b</li></ul>'
    """
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"
