"""What ``fires compare`` can compare: selectors and predictors by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from fires.cli.text import printable
from fires.core.errors import closest

if TYPE_CHECKING:
    from sklearn.naive_bayes import GaussianNB

    from fires.core.types import Labels, Matrix
    from fires.models.base import BaseModel
    from fires.predictors.base import Predictor
    from fires.selectors.base import OnlineSelector

SELECTORS = {
    "fires": "FIRES",
    "fires-ann": "FIRES",
    "fires-sdt": "FIRES",
    "ofs": "OFS",
    "efs": "EFS",
    "fsds": "FSDS",
    "arow": "AROW",
    "scw": "SCW",
    "ftrl": "FTRL",
    "screening": "Screening",
    "window": "WindowRefit",
    "window-lightgbm": "WindowRefit",
    "permutation": "IncrementalPermutation",
    "all": "AllFeatures",
    "random": "RandomFeatures",
}
MODELS = {"fires-ann": "NeuralNet", "fires-sdt": "SoftTree"}


class Selectors(click.ParamType[tuple[str, ...]]):
    """Names of selectors, separated by commas."""

    name = "NAME,..."

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names that a text holds, each once."""
        if not isinstance(value, str):
            return value
        names = [name.strip().lower() for name in value.split(",") if name.strip()]
        for name in names:
            if name not in SELECTORS:
                known = {known: known for known in SELECTORS}
                hint = closest(name, known, f"there are {', '.join(known)}")
                self.fail(f'there is no selector "{printable(name)}"; {hint}', param)
        if not names:
            self.fail(f"name at least one of {', '.join(SELECTORS)}", param)
        return tuple(dict.fromkeys(names))


def maker(name: str, top: int | float, *, numeric: bool = False) -> Callable[[int], OnlineSelector]:
    """What makes a fresh selector."""
    import fires

    kind = getattr(fires, SELECTORS[name])
    known = kind._get_param_names()

    def make(seed: int) -> OnlineSelector:
        given: dict[str, float | str | BaseModel] = {
            "n_features_to_select": top,
            "random_state": seed,
        }
        if numeric:
            given |= {"target": "numbers"} | ({"model": "gaussian"} if kind is fires.FIRES else {})
        if name in MODELS:
            given["model"] = getattr(fires.models, MODELS[name])()
        if name == "window-lightgbm":
            given["estimator"] = "lightgbm"
        fitting = {setting: value for setting, value in given.items() if setting in known}
        made: OnlineSelector = kind(**fitting)
        return made

    return make


CLASSIFIERS, REGRESSORS = ("perceptron", "nb", "tree"), ("linear",)


def predictor(
    name: str, *, numeric: bool = False, sparse: bool = False
) -> tuple[str, Callable[[], Predictor | GaussianNB]]:
    """What makes a fresh predictor.

    Parameters
    ----------
    name : str
        One of :data:`CLASSIFIERS` or :data:`REGRESSORS`, or ``"auto"``: the first of them.
    numeric : bool
        Whether the target holds numbers.
    sparse : bool
        Whether rows are sparse.

    Returns
    -------
    name : str
        Which one it is.
    make : callable () -> predictor
        As :func:`fires.evaluation.compare.compare` takes it.
    """
    from fires.predictors import LinearRegressor, Perceptron, hoeffding_tree

    fitting = REGRESSORS if numeric else CLASSIFIERS
    if name == "auto":
        name = fitting[0]
    if name not in fitting:
        holds, wants = ("numbers", "classes") if numeric else ("classes", "numbers")
        raise ValueError(
            f"the target holds {holds}, and --predictor {name} predicts {wants}: take "
            f"{' or '.join(fitting)}"
        )
    if name == "nb" and sparse:
        raise ValueError("--predictor nb takes no sparse rows: take perceptron or tree")
    makers = {
        "perceptron": Perceptron,
        "nb": _naive_bayes,
        "tree": hoeffding_tree,
        "linear": LinearRegressor,
    }
    return name, makers[name]


def _naive_bayes() -> GaussianNB:
    import numpy as np
    from sklearn.naive_bayes import GaussianNB

    class NaiveBayes(GaussianNB):  # type: ignore[misc]
        def predict(self, X: Matrix) -> Labels:
            with np.errstate(divide="ignore"):  # the logarithm of a class that has yet to come
                predicted: Labels = super().predict(X)
                return predicted

    return NaiveBayes()
