"""How good a selection is, honestly: test on a batch first, then learn from it."""

from fires.evaluation.prequential import prequential
from fires.evaluation.records import Step
from fires.evaluation.saved_run import SavedRun

__all__ = ["SavedRun", "Step", "prequential"]
