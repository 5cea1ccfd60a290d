"""A curve as a small picture of characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_WIDE, _HIGH = 50, 8  # characters, each of 2 x 4 dots
_FIRST = 0x2800  # of the braille characters: one bit for each dot
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_APART = 3  # dots between those of the ends of the band


def curve_picture(curve: Mapping[str, Sequence[float]]) -> list[str]:
    """Effect over values: the curve drawn through, its band as dots, 0 as a line where it is in."""
    import numpy as np

    values = np.array(curve["values"])
    at = np.linspace(values[0], values[-1], 2 * _WIDE)
    lines = {name: np.interp(at, values, curve[name]) for name in ("effect", "low", "high")}
    bottom, top = min(lines["low"].min(), 0.0), max(lines["high"].max(), 0.0)
    step = (top - bottom) / (4 * _HIGH - 1) or 1.0
    cells = np.zeros((_HIGH, _WIDE), dtype=np.int64)

    def dot(x: int, y: float) -> None:
        down = round((top - y) / step)
        cells[down // 4, x // 2] |= _BITS[down % 4][x % 2]

    for x in range(2 * _WIDE):
        # Half the way to the points beside it: steep parts have no gaps.
        near = lines["effect"][max(x - 1, 0) : x + 2]
        own = lines["effect"][x]
        ends = 0.5 * (own + near.min()), 0.5 * (own + near.max())
        for y in np.arange(ends[0], ends[1] + step, step):
            dot(x, min(y, ends[1]))
        for name in ("low", "high") if x % _APART == 0 else ():
            dot(x, lines[name][x])
    zero = round(top / step) // 4
    marks = {0: top, _HIGH - 1: bottom, zero: 0.0}
    texts = {line: f"{mark:.3g}" for line, mark in marks.items()}
    room = max(map(len, texts.values()))
    drawn = []
    for line, row in enumerate(cells.tolist()):
        empty = "\u2500" if line == zero else " "
        text = "".join(chr(_FIRST + cell) if cell else empty for cell in row)
        side = "\u2524" if line in texts else "\u2502"
        drawn.append(f"{texts.get(line, ''):>{room}} {side}{text}".rstrip())
    left, middle, right = (
        f"{value:.4g}" for value in (at[0], at[[_WIDE - 1, _WIDE]].mean(), at[-1])
    )
    below = f"{left:<{_WIDE // 2 - len(middle) // 2}}{middle}"
    return [*drawn, f"{'':{room + 2}}{below}{right:>{_WIDE - len(below)}}"]
