"""A vocabulary that grows to a million words, 100 words a row, against CSR of a fixed width.

Every row has 20 words that nobody has seen, and 80 of those known, the r-th with probability about
1/r. So all that can grow does grow. Growing costs much at times and nothing in between: the figure
is the ratio of the sums over all batches. Beside it stand what is not asked for: a selector that
forgets words after 10,000 rows, with a vocabulary of 250,000.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.timing import Row, show, shown
from fires import FIRES
from fires.streams import Words

N_WORDS, PER_ROW, NEW, ASKED = 1_000_000, 100, 20, 2.0
FORGET_AFTER = 10_000

Learn = Callable[[Any, Any], object]


def places(n_known: int, n_rows: int, rng: np.random.Generator) -> Any:
    """The words of each row: 20 new ones, and of those known each with probability about 1/r."""
    ranks = (n_known ** rng.random((n_rows, PER_ROW))).astype(np.int64) if n_known else 0
    rows = np.zeros((n_rows, PER_ROW), dtype=np.int64) + ranks * 7919 % max(n_known, 1)
    rows[:, :NEW] = n_known + np.arange(n_rows * NEW).reshape(n_rows, NEW)
    return rows


def batches(n_rows: int) -> Iterator[dict[str, Any]]:
    """The same rows in every form, and labels; the words are made anew, as a reader would."""
    rng = np.random.default_rng(n_rows)
    for n_known in range(0, N_WORDS, n_rows * NEW):
        rows = places(n_known, n_rows, rng)
        starts = np.arange(0, n_rows * PER_ROW + 1, PER_ROW)
        csr = sp.csr_matrix((np.ones(rows.size), rows.ravel(), starts), (n_rows, N_WORDS))
        csr.sum_duplicates()
        csr.data.fill(1.0)
        texts = [" ".join(map("w{:x}".format, row)) for row in rows.tolist()]
        yield {
            "csr": csr,
            "texts": texts,
            "lists": [text.split() for text in texts],
            "dicts": [dict.fromkeys(text.split(), 1.0) for text in texts],
            "y": rng.integers(0, 2, n_rows),
        }


def contestants() -> dict[str, tuple[str, Learn]]:
    """By name: the form of the rows, and how they are learnt from."""

    def open_columns(forget_after: int | None = None) -> FIRES:
        return FIRES(20, columns="open", absent="zero", forget_after=forget_after)

    fixed, texts, lists, dicts = FIRES(20), *(open_columns() for _ in range(3))
    forgets, few = open_columns(FORGET_AFTER), Words(max_words=N_WORDS // 4)
    of_texts, of_lists, alone = Words(), Words(), Words()
    return {
        "CSR of fixed width": ("csr", fixed.partial_fit),
        "open: texts": ("texts", lambda rows, y: texts.partial_fit(of_texts.rows(rows), y)),
        "open: lists of words": (
            "lists",
            lambda rows, y: lists.partial_fit(of_lists.rows(rows), y),
        ),
        "open: dicts": ("dicts", dicts.partial_fit),
        "forgetting: texts": ("texts", lambda rows, y: forgets.partial_fit(few.rows(rows), y)),
        "Words.rows alone": ("texts", lambda rows, y: alone.rows(rows)),
    }


def measure(n_rows: int) -> Iterator[Row]:
    everyone = contestants()
    seconds: dict[str, list[float]] = {name: [] for name in everyone}
    names = list(everyone)
    gc.disable()
    try:
        for i, batch in enumerate(batches(n_rows)):
            turn = i % len(names)
            for name in names[turn:] + names[:turn]:
                form, learn = everyone[name]
                begin = thread_time()
                learn(batch[form], batch["y"])
                seconds[name].append(thread_time() - begin)
            gc.collect(0)
    finally:
        gc.enable()
    fixed = np.array(seconds["CSR of fixed width"])
    late = len(fixed) * 3 // 4
    for name, times in seconds.items():
        taken = np.array(times)
        # The first batches load compiled loops.
        ratio = taken[3:].sum() / fixed[3:].sum()
        last = taken[late:].sum() / fixed[late:].sum()
        figure = (f"<= {ASKED:g}", bool(ratio <= ASKED)) if name.startswith("open") else ()
        rate = f"{n_rows / taken[3:].mean():,.0f} rows/s, {shown(taken[3:].mean() / n_rows)} a row"
        said = f"{ratio:.2f} (last quarter {last:.2f})"
        yield Row(name, f"batches of {n_rows:,}", rate, said, *figure)


def main() -> list[Row]:
    title = "words: a vocabulary that grows to a million, 100 words a row"
    return [row for n_rows in (100, 1_000) for row in show(title, measure(n_rows))]
