"""The running scale of dense columns: standardise a batch by it, then learn from the batch.

:class:`fires.models.scale.Standard` says what the rules are. It keeps what it knows of the columns
in one array, ``known``. How a batch is scaled, its ``plan``, and what it shows of its columns,
``shown``, are arrays, too, with a row for each of these:

=========  =====================================================================================
ORIGIN     the shift, or the batch's own mean if the scale starts anew
UNIT       the gain
LIMIT      entries farther from the origin are out of all proportion
IS_COMMON  1 where such entries count all the same
RUN        sampled entries in a row beyond the reach; MOVED: the scale starts anew
=========  =====================================================================================

=========  =====================================================================================
SUM        the weighted sum of ``x - origin`` over the entries that count
SQUARES    the weighted sum of its squares
LEFT_OUT   the weight of the entries that do not count: missing, or out of all proportion
REFUSED    the weight of the entries out of all proportion
FARTHEST   the greatest ``|x - origin|`` of the entries that count
=========  =====================================================================================
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.batch import row_major
from fires.core.belief import Floats
from fires.kernels.compiling import compiled, inner

Dense = npt.NDArray[np.floating]

COUNT, SHIFT, SPREAD, GAIN, MAX_ABS, BEYOND, WAITING, OUTLIERS, NARROW, SETTLED, RESET = range(11)
N_KNOWN = 11
SUM, SQUARES, LEFT_OUT, REFUSED, FARTHEST = range(5)
N_SHOWN = 5
ORIGIN, UNIT, LIMIT, IS_COMMON, RUN = range(5)
N_PLAN = 5

# The rows that a scale remembers.
MEMORY = 10_000.0
# Entries this many times farther away than any before are out of all proportion.
PROPORTION = 10.0
# Rows before which nothing is out of proportion.
YOUNG = 16.0
# This many entries within the memory are not out of proportion any more.
COMMON = 5.0
# Rows that must be narrow before a scale starts anew.
PATIENCE = 200.0
MOVED = np.inf
# A variance this far below the mean's own rounding error is rounding, not spread.
ROUNDING = (10.0 * np.finfo(np.float64).eps) ** 2

_SAMPLES = 16  # rows that are looked at for a column that has moved
_RUN = 8.0  # a column has moved when so many sampled entries in a row are beyond its reach
# The share of the limit beyond which entries may show that a column has moved.
EDGE = 1.5 / PROPORTION
_AGE = 2.0  # a column can move only after so many times its patience
_LONGEST = 12_800.0  # patience
_NARROW = 0.2**2  # the share of the variance below which a batch is narrow
_AT_MOST = 20.0  # rows of one batch that count as narrow: it takes ten batches
_EPSILON = float(np.finfo(np.float64).eps)
_SUMMED = 1e-9  # of all weights: no less can be told from rounding
_LOST = 1e-13  # of a sum of squares: variances below this have lost their digits
_GREATEST = float(np.finfo(np.float64).max)
_BLOCK = 8192  # columns at a time, whose sums stay in the fastest memory
# Standardised values beyond this become this: no single value is to decide anything.
CLIP = 5.0


# --- the batch's own scale: in NumPy, for the first batch must not wait for a compiler ------------

_unwarned = np.errstate(over="ignore", invalid="ignore")  # overflow is found in the sums of a batch


@_unwarned
def own_moments(X: Dense, weight: Floats) -> Floats:
    """Weight, mean, squares about it, and the rest: what is left of the sum about it, of columns.

    A mean of many rows has lost digits, so the rest is not quite 0.
    """
    own = np.empty((4, X.shape[1]))
    for lo in range(0, X.shape[1], _BLOCK):
        x = X[:, lo : lo + _BLOCK]
        present = x == x
        count = weight @ present
        mean = weight @ np.where(present, x, 0.0) / np.maximum(count, 1e-300)
        t = np.where(present, x - mean, 0.0)
        own[:, lo : lo + _BLOCK] = count, mean, weight @ (t * t), weight @ t
    return own


@_unwarned
def own_scale(own: Floats) -> tuple[Floats, Floats]:
    """The batch's own mean and gain of columns, by their :func:`own_moments`."""
    (_, mean, square, rest), n = own, np.maximum(own[0], 1e-300)
    more = rest / n
    # In a column that does not vary, the rest is all that there is.
    varies = _gain_of((square - rest * more) / n, mean) > 0.0
    return mean + np.where(varies, 0.0, more), np.where(varies, _gain_of(square / n, mean), 0.0)


def _gain_of(variance: Floats, mean: Floats) -> Floats:
    """One over the standard deviation; 0 if it is rounding, or has lost its digits."""
    spreads = variance > np.maximum(ROUNDING * mean * mean, 1e-300)
    return np.where(spreads, 1.0 / np.sqrt(np.where(spreads, variance, 1.0)), 0.0)


@inner
def sample_step(n_rows: int) -> int:
    """Every so manieth row of a batch is looked at for columns that have moved."""
    return max((n_rows + _SAMPLES - 1) // _SAMPLES, 1)


@inner
def _count_beyond(x: float, origin: float, limit: float, beyond: float) -> float:
    """The entries in a row beyond the reach, after one more sampled entry."""
    value, edge = abs(x - origin), limit * EDGE
    run = beyond if value != value else 0.0
    return beyond + 1.0 if value > edge else run


@inner
def _judge(j: int, n_rows: int, known: Floats, plan: Floats) -> None:
    """Whether a column has moved. The plan holds the batch's own mean and gain."""
    narrower = plan[UNIT, j] * plan[UNIT, j] * _NARROW > known[GAIN, j] * known[GAIN, j]
    moved = narrower
    if plan[RUN, j] >= _RUN:
        # A jump to a value that hardly varies is no new scale: it may jump back. And a
        # column that moves again and again needs a scale for all the places it goes to.
        varies = n_rows < _RUN or (plan[UNIT, j] > 0.0 and not narrower)
        moved = varies and known[COUNT, j] >= _AGE * known[RESET, j]
        plan[IS_COMMON, j] = 1.0
    if moved:
        plan[RUN, j], plan[LIMIT, j] = MOVED, np.inf
    else:
        plan[RUN, j], plan[ORIGIN, j], plan[UNIT, j] = 0.0, known[SHIFT, j], known[GAIN, j]


@compiled
def find_moved_among(
    columns: npt.NDArray[np.intp],
    samples: Floats,
    own_mean: Floats,
    own_gain: Floats,
    n_rows: int,
    known: Floats,
    plan: Floats,
) -> None:
    """As :func:`find_moved`, where the sampled rows and the batch's own scale are known.

    A sampled row of weight 0 is all NaN.
    """
    for i in range(len(columns)):
        j = columns[i]
        for b in range(samples.shape[0]):
            plan[RUN, j] = _count_beyond(
                samples[b, i], plan[ORIGIN, j], plan[LIMIT, j], plan[RUN, j]
            )
        if plan[RUN, j] >= _RUN or known[NARROW, j] >= known[RESET, j]:
            plan[ORIGIN, j], plan[UNIT, j] = own_mean[i], own_gain[i]
            _judge(j, n_rows, known, plan)


@inner
def _leave_out(x: Dense, w: float, lo: int, hi: int, plan: Floats, shown: Floats) -> None:
    """Note the entries of a row that were taken for 0; infinite ones make the sums infinite."""
    for j in range(lo, hi):
        value = x[j] - plan[ORIGIN, j]
        if not abs(value) <= plan[LIMIT, j]:
            if value == value and (plan[IS_COMMON, j] > 0.0 or abs(value) == np.inf):
                shown[SUM, j] += w * value
                shown[SQUARES, j] += w * value * value
                shown[FARTHEST, j] = max(shown[FARTHEST, j], abs(value) if w > 0.0 else 0.0)
            else:
                shown[LEFT_OUT, j] += w
                shown[REFUSED, j] += w if value == value else 0.0


@compiled
def look_at(X: Dense, weight: Floats, known: Floats, plan: Floats) -> int:
    """Fill in the plan of this batch if no column has moved; how many may have."""
    n_rows, n_columns, n_doubtful = X.shape[0], X.shape[1], 0
    origin, limit, beyond = plan[ORIGIN], plan[LIMIT], plan[RUN]
    count, gain, max_abs, narrow = known[COUNT], known[GAIN], known[MAX_ABS], known[NARROW]
    for j in range(n_columns):
        beyond[j], origin[j], plan[UNIT, j] = known[BEYOND, j], known[SHIFT, j], gain[j]
        judged = count[j] >= YOUNG and gain[j] > 0.0 and max_abs[j] > 0.0
        limit[j] = PROPORTION * max_abs[j] if judged else np.inf
        plan[IS_COMMON, j] = 1.0 if known[OUTLIERS, j] >= COMMON else 0.0
    for b in range(0, n_rows, sample_step(n_rows)):
        if weight[b] > 0.0:
            x = X[b]
            for j in range(n_columns):
                beyond[j] = _count_beyond(x[j], origin[j], limit[j], beyond[j])
    for j in range(n_columns):
        n_doubtful += 1 if beyond[j] >= _RUN or narrow[j] >= known[RESET, j] else 0
    return n_doubtful


def find_moved(X: Dense, weight: Floats, known: Floats, plan: Floats) -> None:
    """Mark the columns whose scale starts anew in the plan, and give them the batch's own."""
    columns = np.flatnonzero((plan[RUN] >= _RUN) | (known[NARROW] >= known[RESET]))
    mean, gain = own_scale(own_moments(X[:, columns], weight))
    find_moved_among(columns, np.empty((0, len(columns))), mean, gain, len(X), known, plan)


@compiled
def rescale_rows(
    X: Dense, weight: Floats, plan: Floats, out: Floats, shown: Floats
) -> tuple[float, int]:
    """Write standardised rows, and add what they show.

    Returns a sum of squares, not finite if sums overflow, and how many entries were left out.
    """
    n_columns, total, n_strange = plan.shape[1], 0.0, 0
    for lo in range(0, n_columns, _BLOCK):
        hi = min(lo + _BLOCK, n_columns)
        p, q, far = shown[SUM, lo:hi], shown[SQUARES, lo:hi], shown[FARTHEST, lo:hi]
        middle, factor, edge = plan[ORIGIN, lo:hi], plan[UNIT, lo:hi], plan[LIMIT, lo:hi]
        for b in range(0, X.shape[0], 2):
            # Two rows at a time: the sums are loaded and stored half as often. If the number of
            # rows is odd, the last one comes twice, once with weight 0.
            c = min(b + 1, X.shape[0] - 1)
            x, t, w = X[b, lo:hi], out[b, lo:hi], weight[b]
            y, u, v = X[c, lo:hi], out[c, lo:hi], weight[c] if c > b else 0.0
            x_counts, y_counts = 1.0 if w > 0.0 else 0.0, 1.0 if v > 0.0 else 0.0
            strange = 0
            for j in range(hi - lo):
                one, two = x[j] - middle[j], y[j] - middle[j]
                one_fits, two_fits = abs(one) <= edge[j], abs(two) <= edge[j]  # not if it is NaN
                one, two = one if one_fits else 0.0, two if two_fits else 0.0
                strange += 0 if one_fits and two_fits else 1
                p[j] += w * one + v * two
                q[j] += w * one * one + v * two * two
                far[j] = max(far[j], max(x_counts * abs(one), y_counts * abs(two)))
                t[j] = min(max(one * factor[j], -CLIP), CLIP)
                u[j] = min(max(two * factor[j], -CLIP), CLIP)
            if strange > 0:
                n_strange += strange
                for row in range(b, c + 1):
                    _leave_out(X[row], weight[row], lo, hi, plan, shown)
        for j in range(hi - lo):
            total += q[j] + 0.0 * middle[j]
    return total, n_strange


@compiled
def learn(shown: Floats, plan: Floats, weight: Floats, known: Floats, change: Floats) -> None:
    """Merge what :func:`rescale_rows` has shown into the running scale, in place.

    The change says what the rows of the batch, and those before it, are in the units of now: origin
    and unit, which are 0 and 1 where there is none.
    """
    count, shift, spread, gain = known[COUNT], known[SHIFT], known[SPREAD], known[GAIN]
    max_abs, beyond, waiting = known[MAX_ABS], known[BEYOND], known[WAITING]
    refused, narrow, settled = known[OUTLIERS], known[NARROW], known[SETTLED]
    reset_threshold, total, n_columns = known[RESET], 0.0, known.shape[1]
    for b in range(len(weight)):
        total += weight[b]
    keep = 1.0 - 1.0 / MEMORY
    usual, calmed = keep**total, keep ** (0.1 * total)
    n, fade = np.empty(n_columns), np.empty(n_columns)
    for j in range(n_columns):
        n[j], fade[j], beyond[j] = total, usual, plan[RUN, j]
        if plan[RUN, j] == MOVED:
            again = count[j] > 0.0
            reset_threshold[j] = min(4.0 * reset_threshold[j], _LONGEST) if again else PATIENCE
            count[j] = spread[j] = max_abs[j] = waiting[j] = beyond[j] = 0.0
            refused[j] = narrow[j] = 0.0
            shift[j] = plan[ORIGIN, j]
        if shown[LEFT_OUT, j] > 0.0:
            # Sums of weights are rounded: a column without an entry must not have a few.
            rest = total - shown[LEFT_OUT, j]
            n[j] = rest if rest > _SUMMED * total else 0.0
            fade[j] = keep ** n[j]
    sums, squares, farthest = shown[SUM], shown[SQUARES], shown[FARTHEST]
    # Most columns have the same number of rows: divisions take long.
    same, per_row, same_count, per_count = 0.0, 0.0, 0.0, 0.0
    for j in range(n_columns):
        p, q, w, far, before = sums[j], squares[j], n[j], farthest[j], count[j]
        # Has the column hardly varied, and about the same value as before?
        if w != same:
            same, per_row = w, 1.0 / w if w > 0.0 else 0.0
        mean, own = shift[j] + p * per_row, q - p * p * per_row
        lost = max(_LOST, 2.0 * _EPSILON * w)  # sums of many rows lose more
        varied = own > lost * q and before > 0.0  # else it was constant in this batch
        is_narrow = own * before < _NARROW * spread[j] * w
        deviation = mean - settled[j]
        starts = narrow[j] == 0.0 or deviation * deviation * w > own
        rows = min(w, _AT_MOST) + (0.0 if starts else narrow[j])
        settled[j] = mean if varied and is_narrow and starts else settled[j]
        narrow[j] = (rows if is_narrow else 0.0) if varied else narrow[j]
        # The sums.
        counted = refused[j] >= COMMON and far > PROPORTION * max_abs[j]
        refused[j] = (0.0 if counted else usual * refused[j]) + shown[REFUSED, j]
        reset_threshold[j] = max(calmed * reset_threshold[j], PATIENCE)
        # While entries are beyond the reach it stays, so that the next ones are beyond it, too.
        farther = max(far, waiting[j])
        waiting[j] = farther if beyond[j] > 0.0 else 0.0
        max_abs[j] = max(fade[j] * max_abs[j], 0.0 if beyond[j] > 0.0 else farther)
        count[j] = fade[j] * before + w
        # A column that has never been there will get its scale from the batch it comes with.
        if before == 0.0:
            narrow[j] = 0.0 if count[j] > 0.0 else PATIENCE
        if count[j] != same_count:
            same_count, per_count = count[j], 1.0 / count[j] if count[j] > 0.0 else 0.0
        step = p * per_count
        shift[j] += step
        spread[j] = max(fade[j] * spread[j] + q - p * step, 0.0)
        variance = spread[j] * per_count
        spreads = variance > max(ROUNDING * shift[j] * shift[j], 1e-300)
        gain[j] = 1.0 / np.sqrt(variance if spreads else 1.0) if spreads else 0.0
        # Entries that were cut off are the same in all units; a batch without them may not vary.
        is_whole = varied and far * gain[j] <= CLIP
        changes = gain[j] > 0.0 and plan[UNIT, j] > 0.0 and is_whole
        change[ORIGIN, j] = (plan[ORIGIN, j] - shift[j]) * gain[j] if changes else 0.0
        change[UNIT, j] = gain[j] / plan[UNIT, j] if changes else 1.0


# --- a fixed scale, and ranges ----------------------------------------------------------------


def rescale(
    X: Dense,
    shift: Floats,
    gain: Floats,
    limit: Floats | None = None,
    clip: float = _GREATEST,
    out: Floats | None = None,
) -> Floats:
    r""":math:`(x_{bj} - \text{shift}_j) \, \text{gain}_j`, and 0 where :math:`x_{bj}` is missing.

    A result beyond ``clip``, by default the greatest float, becomes this; entries beyond the limit
    become 0.

    Examples
    --------
    >>> rescale(np.array([[1.0, 5.0], [np.nan, 1e308]]), np.array([0.0, 5.0]), np.array([2.0, 3.0]))
    array([[2.00000000e+000, 0.00000000e+000],
           [0.00000000e+000, 1.79769313e+308]])
    """
    out = np.empty(X.shape) if out is None else out
    limit = np.full(len(shift), np.inf) if limit is None else limit
    _rescale(row_major(X), shift, gain, limit, clip, out)
    return out


def widen(X: Dense, weight: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest value of every column, in this batch or before.

    Missing entries and rows of weight 0 are left out.

    Examples
    --------
    >>> X = np.array([[1.0, np.nan], [3.0, 2.0], [9.0, 9.0]])
    >>> widen(X, np.array([1.0, 1.0, 0.0]), np.array([2.0, 2.5]), np.array([2.0, 2.5]))
    (array([1., 2.]), array([3. , 2.5]))
    """
    low, high = low.copy(), high.copy()
    _widen(row_major(X), weight, low, high)
    return low, high


@compiled
def _rescale(
    X: Dense, shift: Floats, gain: Floats, limit: Floats, clip: float, out: Floats
) -> None:
    for b in range(X.shape[0]):
        x, t = X[b], out[b]
        for j in range(len(shift)):
            value = x[j] - shift[j]
            value = value * gain[j] if abs(value) <= limit[j] else 0.0  # 0 for NaN too
            value = value if value == value else 0.0  # infinity times a gain of 0
            t[j] = min(max(value, -clip), clip)


@compiled
def _widen(X: Dense, weight: Floats, low: Floats, high: Floats) -> None:
    for b in range(X.shape[0]):
        if weight[b] > 0.0:
            x = X[b]
            for j in range(len(low)):
                low[j] = x[j] if x[j] < low[j] else low[j]  # skips NaN
                high[j] = x[j] if x[j] > high[j] else high[j]
