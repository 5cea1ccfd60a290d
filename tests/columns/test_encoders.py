"""Categories keep their codes, and a frame without usable rows gives empty arrays."""

import polars as pl

from fires.columns.encoders import Encoder
from fires.columns.schema import Column


def test_an_encoder_goes_on_with_the_codes_of_an_earlier_one():
    columns = (Column("x", "category"), Column("y", "category"))
    first = Encoder(columns, "y")
    first.encode(pl.DataFrame({"x": ["a", "b"], "y": ["0", "1"]}))
    second = Encoder(first.columns, "y")
    assert second.encode(pl.DataFrame({"x": ["c", "b"], "y": ["0", "1"]})).X.tolist() == [[2], [1]]
    assert first.columns[0].categories == ("a", "b")


def test_a_frame_without_rows_or_without_usable_ones_is_no_trouble():
    encoder = Encoder((Column("x", "category"), Column("y", "integer")), "y")
    for frame in ({"x": [], "y": []}, {"x": ["a"], "y": [None]}):
        encoded = encoder.encode(
            pl.DataFrame(frame, schema_overrides={"x": pl.String, "y": pl.String})
        )
        assert encoded.X.shape == (0, 1)
        assert len(encoded.y) == 0
