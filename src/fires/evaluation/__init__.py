"""How good a selection is, honestly: test on a batch first, then learn from it."""

from fires.evaluation.prequential import prequential
from fires.evaluation.records import Step

__all__ = ["Step", "prequential"]
