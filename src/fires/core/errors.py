"""Our own errors. Elsewhere we raise those of Python and scikit-learn."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Self

OVERFLOW = "X or y holds values so large that a step would overflow; rescale them."


class Wording(NamedTuple):
    """The words of the library, or of the command, for the same thing."""

    y: str = "y"
    setting: str = "{name}='{value}'"


LIBRARY = Wording()
COMMAND = Wording("the target", "--{name} {value}")
_LEFT_OPEN = re.compile(r"\{(?:y|(?P<name>\w+)=(?P<value>[\w-]+))\}")


class UserError(ValueError):
    """An error that a user can correct. It carries its parts: what, where, hint.

    Examples
    --------
    >>> error = UserError("there are no rows", "x.csv", "write some")
    >>> str(error)
    'x.csv: there are no rows; write some'
    """

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        super().__init__(what, where, hint)  # the arguments that pickle calls the class with
        self.what, self.where, self.hint = what, where, hint

    def __str__(self) -> str:
        return self.worded(LIBRARY)

    def worded(self, wording: Wording) -> str:
        """The message in one line."""
        what = "; ".join(part for part in (self.what, self.hint) if part)
        text = ": ".join(part for part in (self.where, what) if part)
        return " ".join(text.splitlines())  # a name that it quotes may hold line ends

    def at(self, where: str) -> Self:
        """The same error with the place where it was found."""
        return type(self)(self.what, where, self.hint)


class InputError(UserError):
    """A file, a name or an option cannot be used. Library and command show the same text."""


class Question(InputError):  # noqa: N818 - it asks
    """Something that the user has to decide. The hint names the settings that do.

    Only the hint holds placeholders such as ``{dates=day-first}``: the rest quotes the user's data.

    Examples
    --------
    >>> error = Question("may be January or February", hint="use {dates=day-first}")
    >>> error.worded(COMMAND)
    'may be January or February; use --dates day-first'
    """

    def worded(self, wording: Wording) -> str:
        """The message in one line."""
        return InputError(self.what, self.where, _worded(self.hint, wording)).worded(wording)


class TargetError(UserError):
    """The target does not fit the model or method.

    Library and command use different words for the same thing. So its texts hold placeholders:
    ``{y}`` for the target and ``{model=gaussian}`` for a setting.

    Examples
    --------
    >>> error = TargetError("{y} holds fractions", hint="use {model=gaussian}.")
    >>> str(error)
    "y holds fractions; use model='gaussian'."
    >>> error.at("x.csv").worded(COMMAND)
    'x.csv: the target holds fractions; use --model gaussian.'
    """

    def worded(self, wording: Wording) -> str:
        """The message in one line."""
        return _worded(super().worded(wording), wording)


def _worded(text: str, wording: Wording) -> str:
    """The text with the words for what it leaves open."""

    def word(found: re.Match[str]) -> str:
        return wording.setting.format(**found.groupdict()) if found["name"] else wording.y

    return _LEFT_OPEN.sub(word, text)


class StateError(ValueError):
    """A file does not hold the saved state that it should hold."""


_OF_WRONG_DATA = AttributeError, LookupError, OverflowError, RuntimeError, TypeError, ValueError


@contextmanager
def undamaged(what: str) -> Iterator[None]:
    """Raise a StateError if what was saved is not what it should be.

    Examples
    --------
    >>> with undamaged("the bookmark is"):
    ...     int({}["rows"])
    Traceback (most recent call last):
    fires.core.errors.StateError: the bookmark is damaged (KeyError('rows'))
    """
    try:
        yield
    except _OF_WRONG_DATA as error:
        why = error if isinstance(error, StateError) else repr(error)
        raise StateError(f"{what} damaged ({why})") from None


class NotPassedAgain(ValueError):  # noqa: N818 - it says what happened
    """A state needs an object of the user's, whose code is not in the file."""


class Diverged(ValueError):  # noqa: N818 - it says what happened
    """A step led to numbers that are not finite. What was learnt before is unchanged."""


class MissingExtra(ImportError):  # noqa: N818 - it names what to install
    """An optional library is not installed.

    Examples
    --------
    >>> raise MissingExtra("NeuralNet", "torch", "torch")
    Traceback (most recent call last):
    ...
    fires.core.errors.MissingExtra: NeuralNet needs torch: pip install '.[torch]'
    """

    def __init__(self, who: str, module: str, extra: str) -> None:
        super().__init__(f"{who} needs {module}: pip install '.[{extra}]'", name=module)
        # The arguments that pickle calls the class with: worker processes send errors back.
        self.args = (who, module, extra)


def closest(name: str, known: Iterable[str], otherwise: str, quote: str = "") -> str:
    """Say which name was probably meant.

    Examples
    --------
    >>> closest("lable", ["age", "Label"], "it has age and Label", quote="'")
    "did you mean 'Label'?"
    >>> closest("x", ["age", "Label"], "it has age and Label")
    'it has age and Label'
    """
    names = {plain_name(other): other for other in known}
    near = difflib.get_close_matches(plain_name(name), names, n=1)
    return f"did you mean {quote}{names[near[0]]}{quote}?" if near else otherwise


def plain_name(name: str) -> str:
    """A name as people may type it: in lower case, with dashes for spaces.

    Examples
    --------
    >>> plain_name(" All features")
    'all-features'
    """
    return name.strip().lower().replace(" ", "-")
