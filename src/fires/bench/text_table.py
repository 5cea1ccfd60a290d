"""A table of texts, and how to write it: Markdown, CSV and LaTeX; and how to write a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fires.core.spreadsheets import csv_text

NONE = "–"
_MARKS = {"l": "---", "r": "--:"}
_IN_LATEX = str.maketrans({character: f"\\{character}" for character in "&%$#_"} | {NONE: "--"})


def number(value: float | None, digits: str) -> str:
    """A number as text; a dash where there is none."""
    return NONE if value is None or math.isnan(value) else format(value, digits)


@dataclass(frozen=True)
class TextTable:
    r"""Text in rows and columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    sides: str
    name: str = ""
    title: str = ""

    def markdown(self) -> str:
        """The table alone, without its title."""
        marks = "|".join(_MARKS[side] for side in self.sides)
        head, *body = (
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            for line in (self.columns, *self.rows)
        )
        return "\n".join([head, f"|{marks}|", *body])

    def csv(self) -> str:
        """Comma-separated; what is not there is empty, and every row has its name."""
        rows, name = [], ""
        for row in self.rows:
            name = row[0] or name
            rows.append([name, *("" if cell == NONE else cell for cell in row[1:])])
        return csv_text(self.columns, rows)

    def latex(self) -> str:
        """A tabular for the package booktabs; a line above each name that is not repeated."""
        lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{self.sides}}}", r"\toprule"]
        lines += [_latex_row(self.columns), r"\midrule"]
        name_above = True
        for row in self.rows:
            lines += [r"\addlinespace"] * (bool(row[0]) and not name_above)
            lines.append(_latex_row(row))
            name_above = bool(row[0])
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cell.translate(_IN_LATEX) for cell in cells) + r" \\"
