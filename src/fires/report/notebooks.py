"""The page of a run or a comparison, shown inside a notebook."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path

from fires.core.files import replace_file
from fires.evaluation.comparison import Comparison
from fires.report.comparison import comparison_summary
from fires.report.page import folder_data, page, page_data
from fires.run.saved import SavedRun


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
