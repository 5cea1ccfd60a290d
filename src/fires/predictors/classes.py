"""The labels that predictors know."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from fires.core import classes as labels
from fires.core.state import Arrays, State
from fires.core.validation import as_classes

Labels = npt.NDArray[Any]


class Classes:
    """The labels that a predictor knows: as they arrive, or all of them given beforehand."""

    classes_: Labels
    _given: Any = None

    def _take(self, y: Labels, classes: Any) -> tuple[Labels, labels.Codes]:
        """The classes once ``y`` has been seen, and the places of its labels among them."""
        known: Labels | None = getattr(self, "classes_", None)
        if classes is not None and classes is not self._given:
            given = labels.merge_classes(None, as_classes(classes))
            if known is not None and labels.encode(known, given) is None:
                raise ValueError(
                    f"classes={given.tolist()} does not hold all the classes known so far, "
                    f"{known.tolist()}."
                )
            known = given
        elif known is None or self._given is None:
            return labels.take(known, y)
        codes = labels.encode(y, known)
        if codes is None:
            unknown = next(label for label in y.tolist() if label not in known.tolist())
            raise ValueError(
                f"y holds the label {unknown!r}, which is not in classes={known.tolist()}."
            )
        return known, codes

    def _keep(self, known: Labels, classes: Any) -> None:
        self.classes_ = known
        if classes is not None:
            self._given = classes

    def _classes_state(self) -> State:
        """The labels as they are saved: text in the header, numbers in an array."""
        known: Labels | None = getattr(self, "classes_", None)
        if known is None:
            return {"classes": None}, {}
        textual = known.dtype.kind in "OUS"
        header = {
            "classes": labels.as_text(known) if textual else "in an array",
            "classes_given": self._given is not None,
        }
        return header, {} if textual else {"classes": known.copy()}

    def _restore_classes(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Know the labels of :meth:`_classes_state`, and no others."""
        vars(self).pop("classes_", None)
        vars(self).pop("_given", None)
        if header["classes"] is None:
            return
        textual = isinstance(header["classes"], list)
        self.classes_ = labels.from_text(header["classes"]) if textual else arrays["classes"].copy()
        if header["classes_given"]:
            self._given = self.classes_
