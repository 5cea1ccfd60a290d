"""Tables like the paper's, ours beside the published: Markdown, CSV and LaTeX from a folder."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from fires.bench import published, reproduction
from fires.bench.cells import DATASETS, METHODS
from fires.bench.datasets.loading import describe
from fires.bench.summary import Summary, mean
from fires.core.state import replace_file

NONE = "–"
_PROTOCOLS = {
    "as-published": "As published: each column scaled to [0, 1] over the whole set beforehand, "
    "and the selector sees a batch, with its labels, before the batch is tested.",
    "honest": "Honest: scaled to [0, 1] by what the batches before have shown, and each batch "
    "tested before anything is learnt from it. FIRES with its own defaults: it standardises, "
    "learns an intercept, and its nets and trees are in the scaled form of docs/models.md.",
}
_TITLES = {
    "accuracy": "Accuracy",
    "milliseconds_per_step": "Milliseconds per step, to select and to train",
    "stability": "Stability, over windows of 10 steps",
}
_FILES = {"accuracy": "accuracy", "milliseconds_per_step": "time", "stability": "stability"}


@dataclass(frozen=True)
class Table:
    r"""Text in rows and columns, and how to write it.

    Parameters
    ----------
    name : str
        What its files are called.
    title : str
        One line above it.
    columns : sequence of str
        The head of each column.
    rows : sequence of sequences of str
        As many texts each as there are columns.
    n_names : int
        How many columns on the left hold names and not numbers.

    Examples
    --------
    >>> table = Table("sizes", "Sizes", ["data set", "rows"], [["A_1", "10"]], 1)
    >>> print(table.markdown())
    | data set | rows |
    |---|--:|
    | A_1 | 10 |
    >>> print(table.csv(), end="")
    data set,rows
    A_1,10
    >>> print(table.latex())
    % \usepackage{booktabs}
    \begin{tabular}{lr}
    \toprule
    data set & rows \\
    \midrule
    A\_1 & 10 \\
    \bottomrule
    \end{tabular}
    """

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    n_names: int

    def markdown(self) -> str:
        """The table alone, without its title."""
        marks = ["---"] * self.n_names + ["--:"] * (len(self.columns) - self.n_names)
        lines = [self.columns, *self.rows]
        head, *body = (
            "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines
        )
        return "\n".join([head, f"|{'|'.join(marks)}|", *body])

    def csv(self) -> str:
        """Comma-separated; what is not there is empty, and every row has its name."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        name = ""
        for row in self.rows:
            name = row[0] or name
            writer.writerow([name, *("" if cell == NONE else cell for cell in row[1:])])
        return text.getvalue()

    def latex(self) -> str:
        """A tabular for the package booktabs; a line above each name that is not repeated."""
        layout = "l" * self.n_names + "r" * (len(self.columns) - self.n_names)
        lines = [r"% \usepackage{booktabs}", rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
        lines += [_latex_row(self.columns), r"\midrule"]
        for number, row in enumerate(self.rows):
            if number and row[0] and not self.rows[number - 1][0]:
                lines.append(r"\addlinespace")
            lines.append(_latex_row(row))
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def write(folder: Path) -> list[Path]:
    """Write all tables of a folder that :func:`fires.bench.runner.run_cells` filled.

    ``tables.md`` has all of them with what must be known to read them, and ``reproduction.md``
    what differs from the paper; each table is in a ``.csv`` and a ``.tex`` of its own too. The
    text depends on ``cells.jsonl`` and ``runs.json`` alone.

    Parameters
    ----------
    folder : Path
        Where the results are, and the tables go.

    Returns
    -------
    list of Path
        What was written.
    """
    summary = Summary(folder)
    texts = {"tables.md": markdown(summary), "reproduction.md": reproduction.text(summary)}
    for table in all_tables(summary):
        texts |= {f"{table.name}.csv": table.csv(), f"{table.name}.tex": table.latex() + "\n"}
    for name, text in texts.items():
        replace_file(folder / name, text.encode())
    return [folder / name for name in texts]


def markdown(summary: Summary) -> str:
    """All tables, with what must be known to read them."""
    parts = [
        "# The experiments of FIRES (Haug et al., KDD 2020), run again",
        "\n".join(run_lines(summary)),
        "Beside ours stand the numbers that the paper prints in its tables 3 and 4. Each number "
        "is a mean over the batch sizes and the fractions of selected features that were run, "
        f"{NONE} means that there is none. Differences are ours less the published.",
    ]
    for protocol in summary.protocols:
        parts += [f"## {protocol}", _PROTOCOLS[protocol]]
        for table in protocol_tables(summary, protocol):
            parts += [f"### {table.title}", table.markdown()]
        parts.append(_list(protocol_notes(summary, protocol)))
    parts += ["## Data sets", dataset_table(summary).markdown(), _list(dataset_notes(summary))]
    notes = [f"{name}: {METHODS[name].note}." for name in summary.methods if METHODS[name].note]
    if notes:
        parts += ["## Methods", _list(notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def run_lines(summary: Summary) -> list[str]:
    """How the results were made: one line for each command."""
    if not summary.runs:
        return ["- Not in runs.json: date, command and versions are not known."]
    return [
        f"- {run['date']}: `{run['command']}`, {run['jobs']} processes of one thread each, "
        f"{run['cores']} cores, {run['machine']}; "
        + ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        for run in summary.runs
    ]


def all_tables(summary: Summary) -> list[Table]:
    """Every table there is."""
    tables = [dataset_table(summary)]
    for protocol in summary.protocols:
        tables += protocol_tables(summary, protocol)
    return tables


def protocol_tables(summary: Summary, protocol: str) -> list[Table]:
    """Accuracy, time and stability under one protocol."""
    tables = [_quantity_table(summary, protocol, name) for name in _TITLES]
    return [table for table in tables if table.rows]


def _quantity_table(summary: Summary, protocol: str, quantity: str) -> Table:
    """For each data set ours, the published and the difference, one column for each method."""

    def ours(dataset: str, method: str) -> float | None:
        return summary.value(quantity, protocol, dataset, method)

    def theirs(dataset: str, method: str) -> float | None:
        return published.value(quantity, dataset, method)

    methods = [m for m in summary.methods if any(ours(d, m) is not None for d in summary.datasets)]
    names = [d for d in summary.datasets if any(ours(d, m) is not None for m in methods)]
    # Other machines, other libraries: two times side by side, and nothing to subtract.
    timed = quantity == "milliseconds_per_step"
    digits = ".2f" if timed else ".3f"
    means = [{m: _full_mean(side, names, m) for m in methods} for side in (ours, theirs)]
    rows: list[list[str]] = []
    for name in names if methods else []:
        values = [{m: side(name, m) for m in methods} for side in (ours, theirs)]
        rows += _block(name, values, methods, digits, timed)
    if methods:
        rows += _block("mean", means, methods, digits, timed)
        ranks = [_ranks(side, best_is_least=timed) for side in means]
        for label, side in zip(("ours", "published"), ranks, strict=True):
            head = "rank" if label == "ours" else ""
            rows.append([head, label, *(f"{side[m]}." if m in side else NONE for m in methods)])
    title = f"{_TITLES[quantity]}, {protocol}"
    return Table(f"{_FILES[quantity]}-{protocol}", title, ["data set", "", *methods], rows, 2)


def _full_mean(
    side: Callable[[str, str], float | None], names: Sequence[str], method: str
) -> float | None:
    """Over all of these data sets; a mean over some of them could not be compared."""
    values = [side(name, method) for name in names]
    return None if None in values else mean(values)


def _block(
    name: str,
    sides: Sequence[dict[str, float | None]],
    methods: Sequence[str],
    digits: str,
    timed: bool,
) -> list[list[str]]:
    ours, theirs = sides
    rows = [
        [name, "ours", *(_text(ours[m], digits) for m in methods)],
        ["", "published", *(_text(theirs[m], digits) for m in methods)],
    ]
    if not timed:
        gaps = [_gap(ours[m], theirs[m]) for m in methods]
        rows.append(["", "difference", *(_text(gap, f"+z{digits}") for gap in gaps)])
    return rows


def _gap(ours: float | None, theirs: float | None) -> float | None:
    return None if ours is None or theirs is None else ours - theirs


def _text(value: float | None, digits: str) -> str:
    return NONE if value is None else format(value, digits)


def _ranks(means: dict[str, float | None], *, best_is_least: bool) -> dict[str, int]:
    """1 for the best; equal means share a rank."""
    sign = 1 if best_is_least else -1
    known = {m: sign * value for m, value in means.items() if value is not None}
    return {m: 1 + sum(other < value for other in known.values()) for m, value in known.items()}


def protocol_notes(summary: Summary, protocol: str) -> list[str]:
    """What must be known about the means and ranks, and what is not there."""
    names = [d for d in summary.datasets if any(p[:2] == (protocol, d) for p in summary.entries)]
    notes = [
        f"Mean: over {', '.join(names)} on both sides, so that the published means are not those "
        f"of the paper unless these are all ten data sets. A method that lacks one of them has "
        "none.",
        "Rank: by the mean, among the methods in the row. The paper has neither all features nor "
        "random features.",
        "Time: of other machines and other libraries, so that nothing follows from one number "
        f"being less than the other. The paper's machine: {_machine()}.",
    ]
    for dataset, method in product(names, summary.methods):
        entry = summary.entries.get((protocol, dataset, method))
        expected = summary.expected(protocol, method)
        if entry is not None and entry.n_settings < expected:
            have = f"{entry.n_settings} of {expected} settings"
            notes.append(f"{dataset}, {method}: a mean over {have} only.")
        if entry is not None and entry.rows < summary.rows(dataset):
            notes.append(f"{dataset}, {method}: {entry.rows:,} rows only.")
        if n := summary.n_left_out(protocol, dataset, method):
            were, do = ("setting that was", "does") if n == 1 else ("settings that were", "do")
            notes.append(
                f"{dataset}, {method}: {n} {were} run over fewer rows than others {do} not count."
            )
    for (dataset, method), rows in summary.divergences(protocol).items():
        expected = summary.expected(protocol, method)
        notes.append(
            f"{dataset}, {method}: its parameters ceased to be finite in {len(rows)} of "
            f"{expected} settings, first behind row {min(rows):,}; these do not count."
        )
    for (dataset, method, error), n in summary.failures(protocol).items():
        notes.append(f"{dataset}, {method}: failed in {n} of its settings: {error}")
    return notes


def _machine() -> str:
    return str(published.document()["protocol"]["machine"])


def dataset_table(summary: Summary) -> Table:
    """What the data sets are, here and in the paper."""
    names = ["data set", "types", "positive class", "source", "licence"]
    rows = []
    for name in summary.datasets:
        info = describe(name)
        words = [name, info.kinds, str(info.positive), info.source, info.licence]
        sizes = [summary.rows(name), info.n_rows, info.n_features]
        rows.append([*words, *(f"{size:,}" for size in sizes)])
    columns = [*names, "rows", "rows in the paper", "features"]
    return Table("datasets", "Data sets", columns, rows, len(names))


def dataset_notes(summary: Summary) -> list[str]:
    """What was done to each data set, and which were not run."""
    notes = []
    for name in summary.datasets:
        said: dict[str, None] = {}
        for record in summary.records:
            if record["dataset"] == name and record.get("rows") == summary.rows(name):
                said |= dict.fromkeys(record["notes"])
        if said:
            notes.append(f"{name}: {'; '.join(said)}.")
    if absent := [name for name in DATASETS if name not in summary.datasets]:
        notes.append(f"Not run: {', '.join(absent)}.")
    return notes


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _latex_row(cells: Sequence[str]) -> str:
    texts = []
    for cell in cells:
        for character in "&%$#_":
            cell = cell.replace(character, f"\\{character}")
        texts.append(cell.replace(NONE, "--"))
    return " & ".join(texts) + r" \\"
