"""One selector for each key: for each tenant, each machine.

Here a selector is small and there are many. So the rows of a key come together on one worker, and
its selector learns there as it would in one process. Between micro-batches, Spark keeps what was
learnt as bytes in its own state store: those of a saved file, with its checksum and without code.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fires.core.errors import InputError
from fires.core.settings import check_count
from fires.integrations.spark.engine import completed, quoted
from fires.integrations.spark.rows import Layout, Part, in_pieces, layout_of, library, shard_of
from fires.loading import selector_from_bytes, selector_to_bytes
from fires.run.features import feature_rows
from fires.run.totals import RunTotals
from fires.selectors.fires import FIRES

if TYPE_CHECKING:
    import pandas as pd
    from pyarrow import Scalar, Table
    from pyarrow import Schema as ArrowSchema
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState
    from pyspark.sql.types import StructType


_FOUND = (
    "feature string, rank int, importance double, low double, high double, selected boolean, "
    "rows long"
)
_STATE = "state"


def select_by_key(
    df: DataFrame,
    selector: FIRES,
    *,
    key: str | Sequence[str],
    target: str,
    order: str | None = None,
    batch_rows: int | None = None,
    state: bool = False,
    **columns: Any,
) -> DataFrame:
    """Select features for each key of a frame that is not a stream.

    The rows of a key must fit into the memory of one worker.
    """
    if df.isStreaming:
        raise InputError("this DataFrame is streaming", hint="use select_stream_by_key")
    rows_at_once = selector.batch_size if batch_rows is None else batch_rows
    check_count("batch_rows", rows_at_once)
    learning, rows, schema = _prepared(df, selector, key, order, target, columns, state=state)
    wanted = library("pyspark.sql.pandas.types").to_arrow_schema(schema)

    def learn(key: tuple[Scalar, ...], table: Table) -> Table:
        return learning.of_table(key, table, rows_at_once, wanted)

    return rows.groupBy(*map(quoted, learning.keys)).applyInArrow(learn, schema)


def select_stream_by_key(
    df: DataFrame,
    selector: FIRES,
    *,
    key: str | Sequence[str],
    target: str,
    order: str | None = None,
    state: bool = False,
    **columns: Any,
) -> DataFrame:
    """Select features for each key while a streaming DataFrame flows.

    The rows that a micro-batch has of a key are one batch for its selector. Spark keeps what was
    learnt in its state store, together with how far it has read: each row counts exactly once.
    """
    if not df.isStreaming:
        raise InputError("this DataFrame is not streaming", hint="use select_by_key")
    learning, rows, schema = _prepared(df, selector, key, order, target, columns, state=state)
    arrow = library("pyspark.sql.pandas.types").to_arrow_schema(rows.schema)

    def learn(
        key: tuple[Hashable, ...], frames: Iterable[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        return learning.of_frames(key, frames, state, arrow, schema.names)

    groups = rows.groupBy(*map(quoted, learning.keys))
    return groups.applyInPandasWithState(learn, schema, f"{_STATE} binary", "update", "NoTimeout")


@dataclass(frozen=True, eq=False)
class _ByKey:
    """What a worker needs for any key."""

    selector: FIRES
    layout: Layout
    keys: list[str]
    order: str | None
    with_state: bool

    def of_table(
        self, key: tuple[Scalar, ...], table: Table, n_rows: int, wanted: ArrowSchema
    ) -> Table:
        """For ``applyInArrow``: all rows of a key, once."""
        values = [value.as_py() for value in key]
        selector = self.learnt(values, table, None, n_rows)
        if not selector.is_fitted or len(selector.label_index) == 1:
            return wanted.empty_table()
        saved = selector_to_bytes(selector) if self.with_state else None
        found = self.found(values, selector, saved, wanted.names)
        return library("pyarrow").Table.from_pydict(found, schema=wanted)

    def of_frames(
        self,
        key: tuple[Hashable, ...],
        frames: Iterable[pd.DataFrame],
        state: GroupState,
        arrow: ArrowSchema,
        names: list[str],
    ) -> Iterator[pd.DataFrame]:
        """For ``applyInPandasWithState``: the rows that a micro-batch has of a key."""
        # Spark puts these frames together with empty ones, of which pandas warns once a worker.
        warnings.filterwarnings("ignore", "The behavior of DataFrame concat", FutureWarning)
        pa, pd = library("pyarrow"), library("pandas")
        values = [value.item() if isinstance(value, np.generic) else value for value in key]
        table = pa.concat_tables([pa.Table.from_pandas(frame, arrow) for frame in frames])
        selector = self.learnt(values, table, state.get[0] if state.exists else None)
        if selector.is_fitted:
            saved = selector_to_bytes(selector)
            state.update((saved,))
            yield pd.DataFrame(self.found(values, selector, saved, names))

    def learnt(
        self, key: Sequence[Hashable], table: Table, saved: bytes | None, n_rows: int | None = None
    ) -> FIRES:
        """The selector of a key after it has learnt from its rows, so many at a time."""
        try:
            selector: FIRES
            if saved is not None:
                model = self.selector.model
                selector = selector_from_bytes(saved, None if isinstance(model, str) else model)
            else:
                selector = copy.deepcopy(self.selector)
                if not selector.knows_columns:
                    selector.name_features(self.layout.names)
            if self.order is not None:
                table = table.sort_by(self.order)
            for piece in in_pieces(table.to_batches(), n_rows or max(1, table.num_rows)):
                shard, _ = shard_of(piece, self.layout)
                if shard.n_rows:
                    selector.learn(shard)
        except ValueError as error:
            pairs = (f"{name}={value!r}" for name, value in zip(self.keys, key, strict=True))
            raise InputError(str(error), "the key " + ", ".join(pairs)) from None
        return selector

    def found(
        self, key: Sequence[Hashable], selector: FIRES, saved: bytes | None, names: Sequence[str]
    ) -> dict[str, list[Hashable]]:
        """The columns of the rows that a key gets."""
        features = tuple(map(str, selector.feature_names_in_))
        totals = RunTotals(selector.n_features_in_)
        rows = feature_rows(selector, features, totals, selector.get_support(indices=True))
        all_have = dict(zip(self.keys, key, strict=True)) | {"rows": selector.n_samples_seen_}
        columns = {name: [(row | all_have).get(name) for row in rows] for name in names}
        if self.with_state:
            columns[_STATE] = [saved, *[None] * (len(rows) - 1)]
        return columns


def _prepared(
    df: DataFrame,
    selector: FIRES,
    key: str | Sequence[str],
    order: str | None,
    target: str,
    columns: Mapping[str, Any],
    *,
    state: bool,
) -> tuple[_ByKey, DataFrame, StructType]:
    """What a worker needs for any key, the rows, and the columns of the result."""
    keys = [key] if isinstance(key, str) else list(key)
    if not keys:
        raise InputError("there is no key", hint="name the column with the key of each row")
    besides = [*keys, *([order] if order else [])]
    layout = layout_of(df.schema, target, **columns, missing=selector.missing, besides=besides)
    layout = layout.in_order(selector)
    layout = layout if df.isStreaming else completed(df, layout)
    for part in layout.parts:
        if not part.width:
            what = f'how long the vectors in "{part.columns[0]}" are is not known'
            raise InputError(what, hint="give n_features")
    types = library("pyspark.sql.types")
    found = types.StructType.fromDDL(_FOUND + f", {_STATE} binary" * state)
    for name in keys:
        if name in found.names:
            what = f'the key is a column "{name}", and so is a result'
            raise InputError(what, hint="rename the key column")
    schema = types.StructType([df.schema[name] for name in keys] + found.fields)
    df, layout = _in_arrays(df, layout) if df.isStreaming else (df, layout)
    needed = dict.fromkeys([*besides, *layout.columns])
    learning = _ByKey(selector, layout, keys, order, state)
    return learning, df.select(*map(quoted, needed)), schema


def _in_arrays(df: DataFrame, layout: Layout) -> tuple[DataFrame, Layout]:
    """The frame with arrays for vectors, and one array for all numbers.

    Pandas would make an object of each vector, and for each key it would make all columns anew.
    """
    parts = list(layout.parts)
    if len(parts) > 1 and all(part.kind == "number" for part in parts):
        names, column = tuple(part.columns[0] for part in parts), "features"
        while column in df.columns:
            column += "_"
        functions = library("pyspark.sql.functions")
        numbers = functions.array(*(df[quoted(name)].cast("double") for name in names))
        parts = [Part("array", (column,), len(names), names)]
        return df.withColumn(column, numbers), replace(layout, parts=tuple(parts))
    for place, part in enumerate(parts):
        if part.kind == "vector":
            ml, column = library("pyspark.ml.functions"), part.columns[0]
            df = df.withColumn(column, ml.vector_to_array(df[quoted(column)]))
            parts[place] = replace(part, kind="array")
    return df, replace(layout, parts=tuple(parts))
