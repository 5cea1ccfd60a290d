"""A linear model that learns in place: what FIRES runs for its built-in families.

:class:`fires.models.linear.Linear` says what the gradient is. Here the same step is taken on
arrays that stay where they are: scaling is folded into the coefficients instead of being done to
X, and a sparse batch costs what its entries cost, however many features there are.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Belief, Floats
from fires.kernels import accumulate, project, read_only, sparse, touched_columns
from fires.models.families import FAMILIES
from fires.models.linear import over_classes, signed
from fires.models.scaling import DENSE, SPARSE, SparseSums, Standard, State

# Of its own value, what sigma may lose or gain in one step; ordinary steps move it by a thousandth.
_SIGMA_CHANGE = (-0.5, 1.0)


@dataclass(frozen=True)
class Rates:
    """Learning rates of the means and of the standard deviations."""

    mu: float
    sigma: float


class OnlineLinear:
    r"""Beliefs of a linear model, moved by one step per batch.

    **Dense.** With :math:`t = (x - s) \circ g`, s and g the shift and gain of the scaler, the two
    kernels run on :math:`x - s` with :math:`\mu \circ g` and :math:`(\sigma \circ g)^2` in place of
    :math:`\mu` and :math:`\sigma^2`. The sums that move the scaler come out of the same pass: they
    are one more row of coefficients, equal to the weights.

    **Sparse.** x is only scaled, never shifted; instead the gradient is centred:
    :math:`g_{\mu_j} = (X^\top c)_j - m_j \sum_b c_b`. The second term also moves columns that the
    batch does not touch, by the column's pull times one number for all. So ``mu`` keeps
    :math:`u_j = \mu_j + \text{pull}_j A`, with A the running sum of that number, and
    :math:`\mu_j = u_j - \text{pull}_j A` is exact whenever it is asked for.

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
        self.noise = 1.0 if family == "gaussian" else 0.0
        self.class_weight = np.zeros(n_rows)
        self.dense: Any = DENSE[scale](n_features)
        self.sparse: Any = None
        self.target = Standard(1) if family == "gaussian" and scale is not None else None
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
        w = np.ones(X.shape[0]) if weight is None else weight
        begun = self._target_scale(y, w)
        goal = self._goal(y, begun)
        if sp.issparse(X):
            self._step_sparse(X, goal, w, rates)
        elif self.sparse is not None:
            self._step_sparse(sp.csr_array(X), goal, w, rates)
        else:
            self._step_dense(X, goal, w, rates, missing)
        self._count(y, w, begun)

    def _step_dense(self, X: Any, goal: Floats, w: Floats, rates: Rates, missing: bool) -> None:
        scaler, n_rows = self.dense, self.n_rows
        first = not scaler.ready
        if first:
            scaler = DENSE[self.scale](self.n_features)
            scaler.begin(X, w, missing)
        coefficient, variance = self._buffer("m", n_rows), self._buffer("v", n_rows)
        np.multiply(self.mu, scaler.gain, out=coefficient)
        np.multiply(self.sigma, scaler.gain, out=variance)
        np.multiply(variance, variance, out=variance)
        a, v = project(X, coefficient, variance, scaler.shift)

        def norms() -> Floats:
            square = (scaler.gain**2)[None, :]
            return project(X, square, square, scaler.shift)[1]

        c, d = self._pulls(a, v, goal, w, rates, norms)
        # One more row of coefficients, the weights, gives the sums that the scaler learns from.
        learns = scaler.kind == "standard" and not first
        p, q = self._buffer("p", n_rows + learns), self._buffer("q", n_rows + learns)
        cw, dw = (np.vstack([c, w]), np.vstack([d, w])) if learns else (c, d)
        accumulate(X, cw, dw, scaler.shift, out=(p, q))
        _refuse_overflow(p, q)

        scale = 1.0 / w.sum()
        np.multiply(p[:n_rows], scaler.gain, out=coefficient)
        coefficient *= rates.mu * scale
        self.mu += coefficient
        np.multiply(q[:n_rows], scaler.gain, out=variance)
        np.multiply(variance, scaler.gain, out=variance)
        variance *= 2.0 * rates.sigma * scale
        self._move_sigma(self.sigma, variance)
        self._move_rest(c, d, rates, scale)
        if first:
            self.dense = scaler
        else:
            scaler.absorb(X, p[-1], q[-1], w, missing)

    def _step_sparse(self, X: Any, goal: Floats, w: Floats, rates: Rates) -> None:
        if len(self._slot) != self.n_features:
            self._slot = np.zeros(self.n_features, dtype=np.int32)
        local = np.empty(len(X.indices), dtype=X.indptr.dtype)
        columns = touched_columns(*read_only(X.indices), self._slot, local)
        entries = read_only(X.data, local, X.indptr)
        row_weight = np.repeat(w, np.diff(X.indptr))
        sums = SparseSums(X.data, local, row_weight, len(columns), float(w.sum()))
        scaler = self.sparse if self.sparse is not None else SPARSE[None](self.n_features)
        first = not scaler.ready
        if first:
            scaler = type(scaler)(self.n_features)
            scaler.begin(columns, sums)
        gain, pull = scaler.gain(columns), scaler.pull(columns)
        kept, sigma = self.mu[:, columns], self.sigma[:, columns]
        mu = kept - pull * self.drift[:, None]
        a, v = np.empty((self.n_rows, len(w))), np.empty((self.n_rows, len(w)))
        sparse.project_csr(*entries, mu * gain, (sigma * gain) ** 2, a, v)

        def norms() -> Floats:
            square, out = np.broadcast_to(gain**2, (1, len(columns))).copy(), np.empty((1, len(w)))
            sparse.project_csr(*entries, square, square, out.copy(), out)
            return out

        c, d = self._pulls(a, v, goal, w, rates, norms)
        p, q = np.zeros_like(mu), np.zeros_like(mu)
        sparse.accumulate_csr(*entries, c, d, p, q)
        _refuse_overflow(p, q, sums.total, sums.squares)

        scale = 1.0 / sums.weight
        self.drift = self.drift + rates.mu * scale * scaler.pace * c.sum(axis=1)
        mu = kept - pull * self.drift[:, None] + rates.mu * scale * gain * p
        self._move_sigma(sigma, 2.0 * rates.sigma * scale * gain**2 * q)
        if first:
            self.sparse = scaler
        else:
            scaler.absorb(columns, sums)
        self.mu[:, columns] = mu + scaler.pull(columns) * self.drift[:, None]
        self.sigma[:, columns] = sigma
        self._move_rest(c, d, rates, scale)

    def _pulls(
        self, a: Floats, v: Floats, goal: Floats, w: Floats, rates: Rates, norms: Any
    ) -> tuple[Floats, Floats]:
        """Each row's weighted slopes in a and v, shortened where the step cap says so."""
        reach = v.copy() if self.scale is not None else v
        if self.fit_intercept:
            a += self.intercept.mu[:, None]
            v += self.intercept.sigma[:, None] ** 2
        _, c, d = FAMILIES[self.family].scores(a, v + self.noise, goal)
        if self.scale is not None:
            bend = rates.mu * np.maximum(c * c - 2.0 * d, 0.0)  # -d²logZ/da², by the heat identity
            # v bounds the norm of a row from above: mostly that alone shows that no cap is needed.
            least = self.sigma.min()
            if least == 0.0 or (bend * (reach / least**2 + 1.0)).max() > 1.0:
                overshoot = bend * (norms() + self.fit_intercept)
                cap = 1.0 / np.maximum(overshoot, 1.0)
                c, d = c * cap, d * cap
        return c * w, d * w

    def _move_sigma(self, sigma: Floats, change: Floats) -> None:
        """Multiply sigma by 1 + change, within the cap or, unscaled, clipped at 0 (the paper)."""
        if self.scale is not None:
            np.clip(change, *_SIGMA_CHANGE, out=change)
        change += 1.0
        sigma *= np.maximum(change, 0.0, out=change)

    def _move_rest(self, c: Floats, d: Floats, rates: Rates, scale: float) -> None:
        """The parameters that belong to no feature: intercept and noise."""
        if self.fit_intercept:
            sigma = self.intercept.sigma.copy()
            self._move_sigma(sigma, 2.0 * rates.sigma * scale * d.sum(axis=1))
            mu = self.intercept.mu + rates.mu * scale * c.sum(axis=1)
            self.intercept = Belief(mu, sigma)
        if self.noise:
            # In the logarithm, so that it stays positive; by at most a factor e.
            change = rates.mu * scale * self.noise * float(d.sum())
            self.noise *= float(np.exp(np.clip(change, -1.0, 1.0)))

    # --- the target -------------------------------------------------------------------------

    def _target_scale(self, y: npt.NDArray[Any], w: Floats) -> Standard | None:
        """The scale of a numeric target: from the batches before, or from this one if first."""
        if self.target is None or self.target.ready:
            return self.target
        begun = Standard(1)
        begun.begin(np.asarray(y, float)[:, None], w, missing=False)
        return begun

    def _goal(self, y: npt.NDArray[Any], scale: Standard | None) -> Floats:
        if FAMILIES[self.family].kind == "classes":
            return signed(y, self.n_rows)
        y = np.asarray(y, dtype=np.float64)
        return (y if scale is None else (y - scale.shift) * scale.gain)[None, :]

    def _count(self, y: npt.NDArray[Any], w: Floats, begun: Standard | None) -> None:
        if FAMILIES[self.family].kind == "classes" and self.n_rows > 1:
            self.class_weight = self.class_weight + np.bincount(y, w, minlength=self.n_rows)
        if begun is not self.target:
            self.target = begun
        elif self.target is not None:
            t = np.asarray(y, float)[:, None]
            self.target.absorb(t, *accumulate(t, w, w, self.target.shift), w, False)

    # --- classes ----------------------------------------------------------------------------

    def with_rows(self, sources: list[tuple[int, float] | None]) -> OnlineLinear:
        """A copy whose rows are old rows times a sign, or fresh where there is no source."""
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
                fresh.class_weight[row] = self.class_weight[old]
                intercept_mu[row] = sign * self.intercept.mu[old]
                intercept_sigma[row] = self.intercept.sigma[old]
        other.mu, other.sigma, other.drift = fresh.mu, fresh.sigma, fresh.drift
        other.class_weight = fresh.class_weight
        other.intercept = Belief(intercept_mu, intercept_sigma)
        return other

    def ready_for(self, X: Any) -> OnlineLinear:
        """This model, or a copy in sparse terms when scaled data turns sparse for the first time.

        The coefficients of x itself stay what they are: only their unit changes, from the standard
        deviation to the root mean square of a column, and the intercept takes up the shift.
        """
        if self.scale is None or self.sparse is not None or not sp.issparse(X):
            return self
        other = copy.copy(self)
        other.dense, other.sparse = None, SPARSE[self.scale](self.n_features)
        if self.dense.ready:
            other.sparse.take_over(self.dense)
            gain = other.sparse.gain(slice(None))
            unit = np.where(gain > 0.0, self.dense.gain / np.where(gain > 0.0, gain, 1.0), 1.0)
            other.mu, other.sigma = self.mu * unit, self.sigma * unit
            shifted = (self.mu * self.dense.gain) @ self.dense.shift
            other.intercept = Belief(self.intercept.mu - shifted, self.intercept.sigma)
        return other

    # --- what is believed -------------------------------------------------------------------

    def features(self) -> Belief:
        """One mean and one standard deviation per feature, up to date in every column."""
        mu = self.mu
        if self.sparse is not None:
            mu = mu - self.sparse.pull(slice(None)) * self.drift[:, None]
        if self.n_rows == 1:
            return Belief(mu[0].copy(), self.sigma[0].copy())
        total = self.class_weight.sum()
        shares = self.class_weight / total if total else np.full(self.n_rows, 1.0 / self.n_rows)
        return over_classes(mu, self.sigma, shares)

    def state(self) -> State:
        """Everything needed to go on, as arrays."""
        arrays: State = {
            "mu": self.mu,
            "sigma": self.sigma,
            "drift": self.drift,
            "class_weight": self.class_weight,
            "noise": np.array(self.noise),
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
        self.drift, self.class_weight = arrays["drift"], arrays["class_weight"]
        self.noise = float(arrays["noise"])
        self.intercept = Belief(arrays["intercept.mu"], arrays["intercept.sigma"])
        if any(name.startswith("sparse.") for name in arrays):
            self.dense, self.sparse = None, SPARSE[self.scale](self.n_features)
        for prefix, part in (("dense", self.dense), ("sparse", self.sparse), ("target", self.target)):
            for name, value in arrays.items():
                if name.startswith(prefix + "."):
                    setattr(part, name.removeprefix(prefix + "."), value)
            if hasattr(part, "refresh"):
                part.refresh()

    # --- helpers ----------------------------------------------------------------------------


    def _buffer(self, name: str, n_rows: int) -> Floats:
        """Scratch space of the size of the features, kept between steps."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < n_rows:
            buffer = self._buffers[name] = np.empty((n_rows, self.n_features))
        return buffer[:n_rows]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_buffers": {}, "_slot": np.zeros(0, dtype=np.int32)}


def _refuse_overflow(*sums: Floats) -> None:
    if not all(np.isfinite(part.sum()) for part in sums):
        raise ValueError("X holds values so large that a step would overflow; rescale them.")
