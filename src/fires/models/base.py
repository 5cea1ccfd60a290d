"""What a base model is: any likelihood whose parameters are random variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.state import Arrays
from fires.core.types import Floats, Ints, Labels, Mask, Matrix, Places
from fires.models.scale import Scaler
from fires.models.sparse_scale import SparseScale

if TYPE_CHECKING:
    from fires.models.mixed import Mixed

Rng = np.random.Generator
Values = npt.NDArray[np.generic]
"""The target of each row: class codes, or numbers."""
Weights = Floats | None
"""How often each row counts; once without them."""


@runtime_checkable
class BaseModel(Protocol):
    r"""A likelihood :math:`p(y \mid x, \theta)`, :math:`\theta \sim \mathcal{N}(\mu, \sigma^2)`.

    These three methods are all that FIRES needs. They are pure: they read the belief and the batch
    and change neither. ``X`` is scaled, dense or CSR; missing entries are zeros. ``y`` holds class
    codes 0, 1, ..., or numbers. Results are sums over rows, not means: the selector divides by the
    total weight. So the parts of a batch add up.
    """

    def init(self, n_features: int, n_classes: int, rng: Rng) -> Belief:
        """The belief before the first batch."""
        ...

    def gradient(self, belief: Belief, X: Matrix, y: Values, weight: Weights, rng: Rng) -> Belief:
        r"""The gradient of the log marginal likelihood in every number of the belief.

        It is that of the sum over rows of :math:`w_b \log \mathbb{E}_\theta\, p(y_b \mid x_b,
        \theta)`. A model may also have ``log_marginal``, with the same arguments, which gives that
        sum itself. Then :func:`fires.checks.check_model` compares the two.
        """
        ...

    def to_features(self, belief: Belief) -> Belief:
        """One mean and one standard deviation per feature."""
        ...


@runtime_checkable
class HasMarginal(Protocol):
    """A model that can also say how likely it finds rows; see :meth:`BaseModel.gradient`."""

    def log_marginal(
        self, belief: Belief, X: Matrix, y: Values, weight: Weights, rng: Rng
    ) -> float:
        """The log marginal likelihood, as a sum over rows."""
        ...


def kept_rows(sources: list[tuple[int, float] | None]) -> tuple[Places, Places, Floats]:
    """Which rows of parameters go on from earlier ones, from which, and with which signs."""
    known = [(row, *source) for row, source in enumerate(sources) if source is not None]
    rows, old, signs = np.array(known, dtype=np.float64).reshape(-1, 3).T
    return rows.astype(np.intp), old.astype(np.intp), signs


class Rates(NamedTuple):
    """Learning rates of the means and of the standard deviations."""

    mu: float
    sigma: float

    def shared(self, total: float) -> tuple[float, float]:
        """The rates divided by the total weight, for slopes that are sums over rows."""
        return self.mu * (1.0 / total), self.sigma * (1.0 / total)


class Learner(Protocol):
    """A model that learns batch by batch: what FIRES runs.

    The model, its update rule and the storage of rows (dense or CSR) are independent choices. A
    learner hides all three. It inherits from this class and declares here what it can do beyond
    the defaults: nobody asks for its class.
    """

    scaler: Scaler
    takes_shards: ClassVar[bool] = False
    """Whether it learns from sums over a batch that lies in shards."""

    @property
    def sparse_scales(self) -> tuple[SparseScale | Mixed, ...]:
        """The scales of sparse rows, of which some may not be in use."""
        return (self.scaler.sparse,)

    @property
    def joint_posterior(self) -> JointPosterior | None:
        """The learner itself if it learns by Bayes' rule, and knows how sure it is of what."""
        return None

    @property
    def by_importance(self) -> bool:
        """Whether a number of features is chosen by importances alone, not beside each other."""
        return False

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing changes."""

    def step_at_once(self, X: Floats, y: Labels, low: float, high: float, rates: Rates) -> bool:
        """Learn from C-ordered rows and two labels; if anything is unusual, do nothing."""
        return False

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A copy for more classes, or an error that says why there can be none."""

    def ready_for_sparse(self) -> Learner:
        """The learner itself, or another one that can learn from sparse rows."""
        return self

    def surprise(self, batch: CheckedBatch, y: Labels) -> tuple[float, float]:
        """How much worse a batch is predicted than expected, and the variance of that."""
        raise TypeError(f"{type(self).__name__} watches its rows itself.")

    def forget(self, keep: float) -> None:
        """Let the evidence so far count as a share of itself, as after a drift."""

    def remember(self, rate: float) -> None:
        """From here on, let the evidence fade by exp(-rate) from row to row, if it fades."""
        return

    def attend(self, resting: Mask, never: Mask, arrived: Places) -> None:
        """Know which columns are there, before a step. Without this, all are."""
        return

    def rearranged(self, source: Places) -> Self:
        """A copy for other columns: see :func:`fires.core.declared.rearrange`."""
        raise TypeError(f"{type(self).__name__} has fixed columns.")

    def features(self) -> Belief:
        """One mean and one standard deviation per feature."""

    def heaviest(self, k: int, penalty: float, scale: float) -> Places | None:
        """The columns of the k greatest weights; None if all weights have to be looked at.

        For the penalty and the scale see :func:`fires.kernels.gradient.weigh`.
        """
        return None

    def by_class(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every row of parameters."""
        belief = self.features()
        return belief.mu[None], belief.sigma[None]

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""


class JointPosterior(Learner, Protocol):
    """A learner that knows how sure it is of each coefficient, and of the leading ones together."""

    prior: float  # the variance of a coefficient before any row
    n_present: int  # columns that are there
    evidence_rows: Floats  # rows since the start or an alarm, for each row of parameters
    groups: Places | None  # of features that are selected together
    touched: Places | None  # the columns that the last batch has moved; None for all
    strengths: list[float]  # of the alarms about all features that the last batch has raised
    moved: dict[int, float]  # the features that the last batch has raised an alarm about
    renewed: bool  # whether the last batch has brought curves or pairs, or another belief answers

    @property
    def owners(self) -> Places | None:
        """The column of each parameter; those of pairs are counted after the columns.

        None if each column has one parameter, and there is no other.
        """

    @property
    def pairs(self) -> Ints:
        """The two columns of each pair."""

    @property
    def inflation(self) -> Floats:
        """By how much dependent rows make variances greater, for each row of parameters."""

    @property
    def fewest_rows(self) -> float:
        """Rows since the start, the last alarm or the last column that came."""

    @property
    def n_rows(self) -> int:
        """Rows of parameters: one, or one per class."""

    @property
    def gamma(self) -> float:
        """The share of its evidence that a belief keeps from row to row."""

    @property
    def losses(self) -> Floats:
        """The log loss of each row of the last batch, before it was learnt from."""

    @property
    def sparse(self) -> object:
        """Not None if it learns from sparse rows."""

    def ranked(self, columns: Places) -> tuple[Floats, Floats]:
        """Importances of features, and how far chance may take each for itself."""

    def units_of(self, columns: Places) -> Floats | None:
        """Shift and gain of some columns of sparse rows; None if they are not scaled here."""

    def settle_classes(self) -> None:
        """Note which class features matter most for, so that equal classes do not take turns."""

    def leading_systems(self) -> tuple[Ints, Floats, Floats]:
        """The leading columns, how much of them there was to learn; precision and pull."""

    def forget_most(self) -> None:
        """Let all evidence so far count as that of a few rows, as after an alarm."""

    def count_columns(self, n_present: int) -> None:
        """Know how many columns are there, if fewer than there is room for."""
