"""A linear model that learns in place: what FIRES runs for its built-in families.

:class:`fires.models.linear.Linear` says what the gradient is. Here the same step is taken on
arrays that stay where they are: scaling is folded into the coefficients instead of being done to
X, and a sparse batch costs what its entries cost, however many features there are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Belief, Floats
from fires.core.classes import class_rows
from fires.kernels import oriented, project, read_only
from fires.kernels.features import fold, merge_plain, move
from fires.kernels.probit import STATE, probit_steps
from fires.kernels.rows import grand_total, greatest_bend, lift, move_intercept
from fires.models.families import FAMILIES
from fires.models.linear import over_classes, slopes
from fires.models.target import START_WIDTH, Target, level_of_share
from fires.scaling.dense import DENSE, ROUNDING, Standard, State, restore_scaler
from fires.scaling.sparse import SPARSE, Touched

# Of its own value, what sigma may lose or gain in one step; ordinary steps move it by a thousandth.
_CAPPED = (-0.5, 1.0)
# Up to so many features one call for all is faster; beyond, the copies it needs are what counts.
_NARROW = 1000
_OVERFLOW = "X or y holds values so large that a step would overflow; rescale them."
_AS_PUBLISHED = (-1.0, np.inf)  # the paper clips sigma at 0 and nowhere else


@dataclass(frozen=True)
class Rates:
    """Learning rates of the means and of the standard deviations."""

    mu: float
    sigma: float


class Batch(NamedTuple):
    """A batch as the step sees it: the target in one row per row of parameters."""

    X: Any
    target: Floats
    level: Floats | None
    weight: Floats
    weighted: bool
    total: float
    missing: bool


class OnlineLinear:
    r"""Beliefs of a linear model, moved by one step per batch.

    **Dense.** With :math:`t = (x - s) \circ g`, s and g the shift and gain of the scaler, the two
    kernels run on :math:`x - s` with :math:`\mu \circ g` and :math:`(\sigma \circ g)^2` in place of
    :math:`\mu` and :math:`\sigma^2`. The sums that move the scaler come out of the same pass: they
    are one more row of coefficients, equal to the weights.

    **Sparse.** x is only scaled, never shifted; instead the gradient is centred,
    :math:`g_{\mu_j} = (X^\top c)_j - m_j \sum_b c_b`, and so is the prediction,
    :math:`a_b = \mu^\top x_b - \mu^\top m`. The first also moves columns that the batch does not
    touch, by the column's pull times one number for all. So ``mu`` keeps
    :math:`u_j = \mu_j + \text{pull}_j A`, with A the running sum of that number, and
    :math:`\mu_j = u_j - \text{pull}_j A` is exact whenever it is asked for. The second is
    :math:`\mu^\top m = \text{pace} (\sum_j u_j \text{pull}_j - A \sum_j \text{pull}_j^2)`, two
    sums that change with the touched columns alone.

    **Level.** At the paper's rate an intercept needs thousands of batches to learn that one row
    in a hundred is positive. Until then every row pulls the same way, those with a small v the
    most, and features that go with v are given weights for it. So, on scaled data with an
    intercept, predictions start from the running share of the class (or mean of the counts),
    :math:`a_b + \Phi^{-1}(\text{share}) \sqrt{1 + v_b}`, and the intercept learns the rest.

    **Step cap**, on scaled data only: a row whose step would carry its own prediction past its
    own optimum is shortened to reach just that, :math:`\alpha h_b \lVert x_b \rVert^2 \le 1`
    with :math:`h = -\partial^2 \log Z / \partial a^2`, and sigma keeps at least half and gains
    at most as much again. Ordinary steps are far from both, and are exactly those of the paper;
    an outlier can no longer throw the belief away, nor can sigma be clipped to an absorbing 0.
    """

    def __init__(
        self,
        family: str,
        n_features: int,
        n_rows: int,
        *,
        fit_intercept: bool,
        scale: str | None,
        mu_init: Any = 0.0,
        sigma_init: Any = 1.0,
    ) -> None:
        self.family, self.fit_intercept, self.scale = family, fit_intercept, scale
        self.n_features = n_features
        self.init = (mu_init, sigma_init)
        self.mu = np.empty((n_rows, n_features))
        self.sigma = np.empty((n_rows, n_features))
        self.mu[:], self.sigma[:] = mu_init, sigma_init
        # The intercept starts as the paper's parameters do, whatever the features start from.
        self.intercept = Belief.standard(n_rows)
        self.drift = np.zeros(n_rows)  # A of the docstring
        self.pulled = np.zeros(n_rows)  # sum of u_j pull_j
        self.pull_squares = 0.0
        self.noise = 1.0 if family == "gaussian" else 0.0
        self.least_sigma = float(self.sigma.min())  # or less: a bound, cheap to keep up
        published = scale is None and FAMILIES[family].kind == "classes"
        self._sigma_change = _AS_PUBLISHED if published else _CAPPED
        self.dense: Any = DENSE[scale](n_features)
        self.sparse: Any = None
        scaled = scale is not None
        self.target = Target(family, n_rows, scaled=scaled, levelled=scaled and fit_intercept)
        self._slot = np.zeros(0, dtype=np.int32)
        self._buffers: dict[str, Floats] = {}

    @property
    def n_rows(self) -> int:
        """Rows of parameters: one, or one per class."""
        return len(self.mu)

    # --- learning ---------------------------------------------------------------------------

    def step(
        self, X: Any, y: npt.NDArray[Any], weight: Floats | None, rates: Rates, missing: bool
    ) -> None:
        """Learn from one batch: ``y`` holds class codes or numbers. On an error, nothing moved."""
        if weight is None and self.ordinary(X) and self._step_whole(X, y, rates, missing):
            return
        w = _ones(X.shape[0]) if weight is None else weight
        total = float(len(w) if weight is None else w.sum())
        batch = Batch(X, *self.target.look(y, w), w, weight is not None, total, missing)
        if self.family == "probit" and self.sparse is None and not sp.issparse(X):
            self._step_dense(batch, rates)  # compiled throughout: nothing here warns
        else:
            # What overflows is found where the sums are checked, before anything is moved.
            with np.errstate(all="ignore"):
                if self.sparse is not None or sp.issparse(X):
                    self._step_sparse(batch, rates)
                else:
                    self._step_dense(batch, rates)
        self.target.count(y, w)

    def ordinary(self, X: Any) -> bool:
        """Whether such a batch, if it has no weights, can be learnt from in one call."""
        return (
            type(X) is np.ndarray
            and self.n_features <= _NARROW
            and X.dtype == np.float64
            and X.flags.c_contiguous
            and self.family == "probit"
            and self.scale == "standard"
            and self.fit_intercept
            and self.n_rows == 1
            and self.sparse is None
        )

    def _step_whole(self, X: Floats, y: npt.NDArray[np.intp], rates: Rates, missing: bool) -> bool:
        """Learn from an ordinary batch, unless its step turns out not to be: then nothing moved."""
        scaler = self.dense
        first = not scaler.ready
        if first:
            scaler = first_scale(X, missing)
            count = scaler.count
        else:
            count = scaler.count + ((~np.isnan(X)).sum(axis=0) if missing else float(len(y)))
        seen = self.target.class_weight.tolist()
        n_positive = int(np.count_nonzero(y))
        after = [seen[0] + (len(y) - n_positive), seen[1] + n_positive]
        level = np.array([level_of_share(self.family, *(seen if any(seen) else after))])
        states, rests = self.packed(scaler, 1)
        if not self.steps(X, y, level, count[None], rates, (states, rests), weight=not first):
            return False
        self.dense = scaler
        self.adopt(states[1], rests[1], count, np.array(after))
        return True

    def packed(self, scaler: Any, n_batches: int) -> tuple[Floats, Floats]:
        """What :meth:`steps` moves: rows for the features, and what belongs to none.

        What they are now, and room for what they will be after each batch.
        """
        states = np.empty((n_batches + 1, len(STATE), self.n_features))
        rests, now = np.empty((n_batches + 1, 3)), states[0]
        now[0], now[1] = self.mu[0], self.sigma[0]
        now[2], now[3], now[4] = scaler.shift, scaler.spread, scaler.gain
        rests[0] = self.intercept.mu[0], self.intercept.sigma[0], self.least_sigma
        return states, rests

    def steps(
        self,
        X: Floats,
        codes: npt.NDArray[np.intp],
        levels: Floats,
        counts: Floats,
        rates: Rates,
        packed: tuple[Floats, Floats],
        weight: float = 1.0,
    ) -> int:
        """Move what is :meth:`packed` by ordinary batches; how many they are before one is not.

        See :func:`fires.kernels.probit.probit_steps`.
        """
        n_rows = len(codes) // len(levels)
        return probit_steps(
            *read_only(X),
            np.asarray(codes, dtype=np.intp),
            levels,
            counts,
            float(weight),
            *packed,
            float(rates.mu),
            float(rates.sigma),
            *self._sigma_change,
            ROUNDING,
            self._buffer("sums", 4),
            np.empty((5, n_rows + -n_rows % 4)),
        )

    def adopt(self, state: Floats, rest: Floats, count: Floats, class_weight: Floats) -> None:
        """Become what :meth:`steps` has led to; the arrays are taken over."""
        self.mu, self.sigma = state[:1], state[1:2]
        self.dense.count, self.dense.shift = count, state[2]
        self.dense.spread, self.dense.gain = state[3], state[4]
        self.intercept.mu[0], self.intercept.sigma[0], self.least_sigma = rest.tolist()
        self.target.class_weight = class_weight

    def _step_dense(self, batch: Batch, rates: Rates) -> None:
        scaler, n_rows = self.dense, self.n_rows
        X, w = batch.X, batch.weight
        first = not scaler.ready
        if first:
            scaler = DENSE[self.scale](self.n_features)
            scaler.begin(X, w, batch.missing)
        n_sums = n_rows + (scaler.kind == "standard" and not first)
        p, q = self._buffer("p", n_sums), self._buffer("q", n_sums)
        view, project_into, accumulate_into = oriented(X)

        # p and q hold the folded coefficients first and the sums later.
        fold(self.mu, self.sigma, scaler.gain, p, q)
        a, v = np.empty((n_rows, len(w))), np.empty((n_rows, len(w)))
        project_into(view, p[:n_rows], q[:n_rows], scaler.shift, a, v)

        def norms() -> Floats:
            square = (scaler.gain**2)[None, :]
            return project(X, square, square, scaler.shift)[1]

        # One more row of coefficients, the weights, gives the sums that the scaler learns from.
        c, d = np.empty((n_sums, len(w))), np.empty((n_sums, len(w)))
        if n_sums > n_rows:
            c[-1], d[-1] = w, w
        self._pulls(a, v, batch, rates, norms, c[:n_rows], d[:n_rows])
        accumulate_into(view, c, d, scaler.shift, p, q)
        if self.fit_intercept or n_sums > n_rows:
            _refuse_overflow(c, d, q[-1])
        share = 1.0 / batch.total
        least = move(
            self.mu,
            self.sigma,
            p,
            q,
            scaler.gain,
            rates.mu * share,
            rates.sigma * share,
            *self._sigma_change,
        )
        if least != least:
            raise ValueError(_OVERFLOW)
        self.least_sigma = least
        self._move_rest(c[:n_rows], d[:n_rows], rates, share)
        if first:
            self.dense = scaler
        else:
            scaler.absorb(X, p[-1], q[-1], w, batch.missing)

    def _step_sparse(self, batch: Batch, rates: Rates) -> None:
        if len(self._slot) != self.n_features:
            self._slot = np.zeros(self.n_features, dtype=np.int32)
        w, X = batch.weight, batch.X if sp.issparse(batch.X) else sp.csr_array(batch.X)
        touched = Touched(X, w, batch.total, batch.missing, self._slot)
        scaler = self.sparse if self.sparse is not None else SPARSE[None](self.n_features)
        first = not scaler.ready
        if first:
            scaler = type(scaler)(self.n_features)
            scaler.begin(touched)
        columns, n_rows = touched.columns, self.n_rows
        gain, pull = scaler.gain(columns), scaler.pull(columns)
        kept, sigma = self.mu[:, columns], self.sigma[:, columns]
        pulled, pull_squares = self.pulled, self.pull_squares
        if first:
            pulled, pull_squares = kept @ pull, float(pull @ pull)
        mu = kept - pull * self.drift[:, None]
        a, v = touched.project(mu * gain, (sigma * gain) ** 2)
        a -= scaler.pace * (pulled - self.drift * pull_squares)[:, None]
        # A missing entry is none that lies off the centre: there the centring is taken back.
        gap_rows, gaps = touched.gaps()
        centre = scaler.pace * pull[gaps]
        _add_at(a, gap_rows, mu[:, gaps] * centre)

        def norms() -> Floats:
            square = (gain**2)[None, :]
            return touched.project(square, square)[1]

        n_sums = n_rows + (scaler.kind == "standard" and not first)
        c, d = np.empty((n_sums, len(w))), np.empty((n_sums, len(w)))
        if n_sums > n_rows:
            c[-1], d[-1] = w, w
        self._pulls(a, v, batch, rates, norms, c[:n_rows], d[:n_rows])
        p, q = touched.accumulate(c, d)
        _refuse_overflow(c, d, q[-1])
        share = 1.0 / batch.total
        drift = self.drift + rates.mu * share * scaler.pace * c[:n_rows].sum(axis=1)
        mu = kept - pull * drift[:, None]
        _add_at(mu, gaps, rates.mu * share * c[:n_rows, gap_rows] * centre)
        least = move(
            mu, sigma, p, q, gain, rates.mu * share, rates.sigma * share, *self._sigma_change
        )
        if least != least:
            raise ValueError(_OVERFLOW)
        self.drift, self.least_sigma = drift, min(least, self.least_sigma)
        if not first:
            scaler.absorb(touched, p[-1], q[-1])
        elif scaler.kind is not None:
            self.sparse = scaler
        new_pull = scaler.pull(columns)
        mu += new_pull * drift[:, None]
        self.mu[:, columns], self.sigma[:, columns] = mu, sigma
        self.pulled = pulled + mu @ new_pull - kept @ pull
        self.pull_squares = pull_squares + float(new_pull @ new_pull - pull @ pull)
        self._move_rest(c[:n_rows], d[:n_rows], rates, share)

    def _pulls(
        self,
        a: Floats,
        v: Floats,
        batch: Batch,
        rates: Rates,
        norms: Callable[[], Floats],
        c: Floats,
        d: Floats,
    ) -> None:
        """Write each row's weighted slopes in a and v, shortened where the step cap says so."""
        own = _zeros(self.n_rows)
        slope = None
        if self.fit_intercept or self.noise or batch.level is not None:
            intercept = self.intercept if self.fit_intercept else Belief(own, own)
            level = own if batch.level is None else batch.level
            own, slope = intercept.sigma**2 + self.noise, np.empty_like(v)
            lift(
                a,
                v,
                intercept.mu,
                intercept.sigma,
                self.noise,
                level,
                START_WIDTH[self.family],
                slope,
            )
        slopes(self.family, a, v, batch.target, c, d)
        factor = batch.weight if batch.weighted else None
        if self.scale is not None:
            # v bounds the norm of a row from above: mostly that alone shows that no cap is needed.
            least = self.least_sigma * self.least_sigma
            if rates.mu * greatest_bend(c, d, v, own, least) > least:
                bend = np.maximum(c * c - 2.0 * d, 0.0)
                overshoot = rates.mu * bend * (norms() + self.fit_intercept)
                factor = batch.weight / np.maximum(overshoot, 1.0)
        if slope is not None:
            d += c * slope  # the start moves with v
        if factor is not None:
            c *= factor
            d *= factor

    def _move_rest(self, c: Floats, d: Floats, rates: Rates, share: float) -> None:
        """The parameters that belong to no feature: intercept and noise."""
        if self.fit_intercept:
            mu, sigma = self.intercept.mu, self.intercept.sigma
            scaled = rates.mu * share, rates.sigma * share
            move_intercept(c, d, mu, sigma, *scaled, *self._sigma_change)
        if self.noise:
            # In the logarithm, so that it stays positive; by at most a factor e.
            growth = rates.mu * share * self.noise * float(d.sum())
            self.noise *= math.exp(min(max(growth, -1.0), 1.0))

    # --- classes ----------------------------------------------------------------------------

    def with_classes(self, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> OnlineLinear:
        """A copy for more classes: its rows are old rows times a sign, or fresh ones."""
        sources = class_rows(before, after)
        other = copy.copy(self)
        other._buffers = {}
        fresh = OnlineLinear(
            self.family,
            self.n_features,
            len(sources),
            fit_intercept=self.fit_intercept,
            scale=self.scale,
            mu_init=self.init[0],
            sigma_init=self.init[1],
        )
        intercept_mu, intercept_sigma = fresh.intercept.mu, fresh.intercept.sigma
        for row, source in enumerate(sources):
            if source is not None:
                old, sign = source
                fresh.mu[row], fresh.sigma[row] = sign * self.mu[old], self.sigma[old]
                fresh.drift[row] = sign * self.drift[old]
                fresh.pulled[row] = sign * self.pulled[old]
                intercept_mu[row] = sign * self.intercept.mu[old]
                intercept_sigma[row] = self.intercept.sigma[old]
        other.mu, other.sigma, other.drift = fresh.mu, fresh.sigma, fresh.drift
        other.pulled, other.target = fresh.pulled, self.target.with_rows(sources)
        other.least_sigma = float(fresh.sigma.min())
        other.intercept = Belief(intercept_mu, intercept_sigma)
        return other

    def ready_for(self, X: Any) -> OnlineLinear:
        """The model itself, or a copy in sparse terms once scaled data turns sparse.

        The coefficients of x itself stay what they are: only their unit changes, from the standard
        deviation to the root mean square of a column.
        """
        if self.scale is None or self.sparse is not None or not sp.issparse(X):
            return self
        other = copy.copy(self)
        other.target, other.intercept = copy.deepcopy((self.target, self.intercept))
        other.dense, other.sparse = None, SPARSE[self.scale](self.n_features)
        if self.dense.ready:
            other.sparse.take_over(self.dense)
            gain = other.sparse.gain(np.arange(self.n_features))
            unit = np.where(gain > 0.0, self.dense.gain / np.where(gain > 0.0, gain, 1.0), 1.0)
            other.mu, other.sigma = self.mu * unit, self.sigma * unit
            other.least_sigma = float(other.sigma.min())
            pulls = other.sparse.pulls
            other.pulled, other.pull_squares = other.mu @ pulls, float(pulls @ pulls)
        return other

    # --- what is believed -------------------------------------------------------------------

    def features(self) -> Belief:
        """One mean and one standard deviation per feature; the next step may move the arrays."""
        mu = self.mu
        if self.sparse is not None:
            mu = self.sparse.pulls * self.drift[:, None]
            np.subtract(self.mu, mu, out=mu)
        if self.n_rows == 1:
            return Belief(mu[0], self.sigma[0])
        seen = self.target.class_weight
        return over_classes(mu, self.sigma, seen / seen.sum())

    def state(self) -> State:
        """Everything needed to go on, as arrays."""
        arrays: State = {
            "mu": self.mu,
            "sigma": self.sigma,
            "drift": self.drift,
            "pulled": self.pulled,
            "pull_squares": np.array(self.pull_squares),
            "noise": np.array(self.noise),
            "least_sigma": np.array(self.least_sigma),
            "intercept.mu": self.intercept.mu,
            "intercept.sigma": self.intercept.sigma,
        }
        parts = {"dense": self.dense, "sparse": self.sparse, "target": self.target}
        for name, part in parts.items():
            if part is not None:
                arrays |= {f"{name}.{key}": value for key, value in part.state().items()}
        return arrays

    def restore(self, arrays: State) -> None:
        """Go on from :meth:`state`."""
        self.mu, self.sigma = arrays["mu"], arrays["sigma"]
        self.drift, self.pulled = arrays["drift"], arrays["pulled"]
        self.pull_squares = float(arrays["pull_squares"])
        self.noise, self.least_sigma = float(arrays["noise"]), float(arrays["least_sigma"])
        self.intercept = Belief(arrays["intercept.mu"], arrays["intercept.sigma"])
        if any(name.startswith("sparse.") for name in arrays):
            self.dense, self.sparse = None, SPARSE[self.scale](self.n_features)
        for prefix, scaler in (("dense", self.dense), ("sparse", self.sparse)):
            if scaler is not None:
                restore_scaler(scaler, prefix, arrays)
        mark = "target."
        self.target.restore(
            {key.removeprefix(mark): v for key, v in arrays.items() if key.startswith(mark)}
        )

    # --- helpers ----------------------------------------------------------------------------

    def _buffer(self, name: str, n_rows: int) -> Floats:
        """Scratch space of the size of the features, kept between steps."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < n_rows:
            buffer = self._buffers[name] = np.empty((n_rows, self.n_features))
        return buffer[:n_rows]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_buffers": {}, "_slot": np.zeros(0, dtype=np.int32)}


@lru_cache(maxsize=16)
def _ones(n: int) -> Floats:
    """The weight of rows that have none; nobody writes to it."""
    return np.ones(n)


@lru_cache(maxsize=16)
def _zeros(n: int) -> Floats:
    """No intercept, no level; nobody writes to it."""
    return np.zeros(n)


def first_scale(X: Floats, missing: bool) -> Standard:
    """The scale of a first batch, in NumPy: what runs once is not worth compiling.

    Examples
    --------
    >>> scaler = first_scale(np.array([[1.0], [3.0], [np.nan]]), missing=True)
    >>> scaler.count, scaler.shift, scaler.gain
    (array([2.]), array([2.]), array([1.]))
    """
    scaler = Standard(X.shape[1])
    there = ~np.isnan(X) if missing else np.ones((len(X), 1), dtype=bool)
    scaler.count = there.sum(axis=0, dtype=np.float64)
    scaler.ready = bool(scaler.count.any())
    with np.errstate(all="ignore"):
        shift = np.sum(X, axis=0, where=there) / np.maximum(scaler.count, 1.0)
        T = np.where(there, X - shift, 0.0)
        sums = T.sum(axis=0), np.einsum("bj,bj->j", T, T)
        scaler.shift, scaler.spread, scaler.gain = merge_plain(
            scaler.count, shift, scaler.spread, *sums, ROUNDING
        )
    return scaler


def _add_at(rows: Floats, columns: npt.NDArray[np.intp], values: Floats) -> None:
    """Add to columns of every row; a column may come more than once."""
    for row, value in zip(rows, values, strict=True):
        np.add.at(row, columns, value)


def _refuse_overflow(c: Floats, d: Floats, q: Floats) -> None:
    if not math.isfinite(grand_total(c, d, q)):
        raise ValueError(_OVERFLOW)
