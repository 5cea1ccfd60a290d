"""The errors that are our own; everywhere else Python's and scikit-learn's say it best."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used; the message is one line that says what and where."""


class StateError(ValueError):
    """A file that should hold saved state does not, or no longer does."""


class Diverged(ValueError):  # noqa: N818 - it says what happened
    """A step led to numbers that are not finite; what was learnt before it is as it was."""


class MissingExtra(ImportError):  # noqa: N818 - it names what to install
    """An optional library is not installed.

    Parameters
    ----------
    who : str
        What needs the library, as its user knows it.
    module : str
        The library, as it is imported; also the error's ``name``.
    extra : str
        The extra of ``fires`` that installs it.

    Examples
    --------
    >>> raise MissingExtra("NeuralNet", "torch", "torch")
    Traceback (most recent call last):
    ...
    fires.core.errors.MissingExtra: NeuralNet needs torch: pip install 'fires[torch]'
    """

    def __init__(self, who: str, module: str, extra: str) -> None:
        super().__init__(f"{who} needs {module}: pip install 'fires[{extra}]'", name=module)
        # What pickle calls the class with: worker processes send their errors home.
        self.args = (who, module, extra)
