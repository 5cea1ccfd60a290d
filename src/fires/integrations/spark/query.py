"""A query of Spark that learns, and what it has learnt."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from fires.core.optional import require

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from fires.integrations.spark.running import SparkRun
    from fires.selectors.fires import FIRES


@cache
def selection_query() -> Any:
    """The class ``SelectionQuery``, which can only be made where there is a pyspark."""
    spark = require("pyspark.sql.streaming.query", "select_stream", extra="spark")

    class SelectionQuery(spark.StreamingQuery):  # type: ignore[name-defined,misc]
        """A ``StreamingQuery`` whose rows are learnt from.

        The result (``features.csv``, ``state.safetensors``) is written when :meth:`stop` or
        :meth:`awaitTermination` returns because the query has ended. A process that dies before
        that leaves all it has learnt in the checkpoints of the run folder.
        """

        def __init__(self, query: StreamingQuery, run: SparkRun) -> None:
            super().__init__(query._jsq)
            self._run, self._is_stopped = run, False

        @property
        def selector(self) -> FIRES:
            """What has learnt so far."""
            return self._run.selector

        def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
            """Wait until the query ends; see Spark's own."""
            try:
                ended: bool | None = super().awaitTermination(timeout)
            except Exception as error:
                self._run.finish(_first_line(self._run.error or error))
                if self._run.error is not None:
                    raise self._run.error from None
                raise
            if ended is not False:
                self._run.finish(all_rows=not self._is_stopped)
            return ended

        def stop(self) -> None:
            """End the query, and write the result."""
            self._is_stopped = True
            super().stop()
            self._run.finish(None if self._run.error is None else _first_line(self._run.error))

    return SelectionQuery


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [repr(error)])[0]
