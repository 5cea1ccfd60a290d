"""A pipe is read as it fills: rows come out before the other end is closed, or writes again."""

import gzip
import io
import itertools
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fires.streams import text as texts
from fires.streams.byte_sources import Damaged, unpacked
from fires.streams.files import from_file
from fires.streams.table import LEAST_ROWS, SAMPLE_ROWS
from fires.streams.text import Pieces, Records, read_header

SECONDS = 120  # until a test that waits in vain gives up


def text(n_rows, first=0):
    return "".join(f"{i},{i % 7},{i % 2}\n" for i in range(first, first + n_rows)).encode()


HEADER = b"number,seventh,label\n"


class Writer:
    """The other end of a pipe; ``meanwhile`` is done by another thread, which may have to wait."""

    def __init__(self, end, pool):
        self.end = end
        self._pool = pool

    def write(self, data):
        os.write(self.end, data)

    def close(self):
        if self.end is not None:
            os.close(self.end)
        self.end = None

    def meanwhile(self, function, *arguments):
        return self._pool.submit(function, *arguments)


@contextmanager
def piped():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as file, ThreadPoolExecutor() as pool:
        writer = Writer(writing, pool)
        try:
            yield file, writer
        finally:
            writer.close()  # whoever still waits for rows waits no longer


@pytest.fixture
def pipe(monkeypatch):
    monkeypatch.setattr(texts, "PATIENCE", 0.01)
    with piped() as ends:
        yield ends


def numbers(batch):
    return batch.X[:, 0].astype(int).tolist()


def test_the_first_batch_comes_before_anything_more_is_written(pipe):
    file, writer = pipe
    writer.write(HEADER + text(LEAST_ROWS) + b"100,")
    stream = writer.meanwhile(from_file, file, "label").result(SECONDS)
    batches = stream.batches(60)
    first = writer.meanwhile(next, batches).result(SECONDS)
    assert numbers(first) == list(range(60))
    coming = writer.meanwhile(next, batches)
    writer.write(b"2,0\n" + text(19, first=101))
    second = coming.result(SECONDS)
    assert numbers(second) == list(range(60, 120))
    assert second.position.offset == len(HEADER + text(120))
    writer.write(text(5, first=120))
    writer.close()
    (last,) = writer.meanwhile(list, batches).result(SECONDS)
    assert numbers(last) == list(range(120, 125))
    assert stream.rejected.count == 0


def test_a_record_is_not_handed_out_in_parts(pipe):
    file, writer = pipe
    writer.write(HEADER + text(LEAST_ROWS))
    stream = writer.meanwhile(from_file, file, "label").result(SECONDS)
    batches = stream.batches(LEAST_ROWS)
    writer.meanwhile(next, batches).result(SECONDS)
    coming = writer.meanwhile(list, batches)
    for part in (b'1,"', b"2\n", b'3",0\n', b"4,", b"5,1", b"\n6"):
        writer.write(part)
        with pytest.raises(TimeoutError):
            coming.result(0.03)  # so that each part is read by itself
    writer.close()
    (batch,) = coming.result(SECONDS)
    np.testing.assert_array_equal(batch.X, [[1, np.nan], [4, 5]])
    assert [line for line, _ in stream.rejected.examples] == [105]


def test_fewer_rows_do_not_fix_the_kinds_until_the_end(pipe):
    file, writer = pipe
    writer.write(HEADER + text(LEAST_ROWS - 1))
    opening = writer.meanwhile(from_file, file, "label")
    with pytest.raises(TimeoutError):
        opening.result(0.2)
    writer.close()
    stream = opening.result(SECONDS)
    assert sum(batch.n_rows for batch in stream.batches(7)) == LEAST_ROWS - 1


def test_a_fast_pipe_is_sampled_as_a_file_is(monkeypatch):
    monkeypatch.setattr(texts, "PATIENCE", SECONDS)  # however busy the machine is
    words = "".join(f"word{i % 9},1,0\n" for i in range(SAMPLE_ROWS)).encode()
    data = HEADER + text(2 * LEAST_ROWS) + words
    with piped() as (file, writer):
        opening = writer.meanwhile(from_file, file, "label")
        for start in range(0, len(data), 5_000):
            writer.write(data[start : start + 5_000])
        writer.close()
        found = opening.result(SECONDS).columns.all
        assert found == from_file(io.BytesIO(data), "label").columns.all
        assert found[0].kind == "category"


def test_a_packed_pipe_is_read_as_it_fills(pipe):
    file, writer = pipe
    packer = zlib.compressobj(wbits=31)
    writer.write(packer.compress(HEADER + text(150)) + packer.flush(zlib.Z_SYNC_FLUSH))
    stream = writer.meanwhile(from_file, file, "label").result(SECONDS)
    batches = stream.batches(150)
    first = writer.meanwhile(next, batches).result(SECONDS)
    assert numbers(first) == list(range(150))
    writer.write(packer.compress(text(30, first=150)) + packer.flush())
    writer.write(gzip.compress(text(20, first=180)))
    writer.close()
    (last,) = writer.meanwhile(list, batches).result(SECONDS)
    assert numbers(last) == list(range(150, 200))


def test_a_header_waits_for_the_lines_that_tell_its_delimiter(pipe):
    file, writer = pipe
    writer.write(b"a;b,c\n")
    opening = writer.meanwhile(from_file, file, "b,c")
    writer.write(b"1;2\n" * LEAST_ROWS)
    assert opening.result(SECONDS).schema.feature_names == ("a",)


@settings(deadline=None)
@given(
    lines=st.lists(st.text(st.sampled_from('ab,"\r'), max_size=8), max_size=20),
    cuts=st.lists(st.integers(1, 9), min_size=1),
    waits=st.lists(st.booleans(), min_size=1),
    block_size=st.integers(1, 80),
)
def test_neither_cuts_nor_waits_change_the_records(lines, cuts, waits, block_size):
    data = "\n".join(lines).encode()
    whole = list(Records(",", 2).blocks(io.BytesIO(data).read))
    source, turn = io.BytesIO(data), iter(range(10**6))
    parts = list(
        Records(",", 2, size=block_size).blocks(
            lambda n: source.read(min(n, cuts[next(turn) % len(cuts)])),
            ready=lambda seconds: not waits[next(turn) % len(waits)],
        )
    )
    assert b"".join(part.data for part in parts) == data
    for name in ("ends", "lines"):
        stop = -1 if name == "lines" else None
        expected = [getattr(part, name)[:stop] for part in whole]
        found = [getattr(part, name)[:stop] for part in parts]
        np.testing.assert_array_equal(np.concatenate([[], *found]), np.concatenate([[], *expected]))


@given(
    members=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    n_zeros=st.sampled_from([0, 3, 40_000]),
    sizes=st.lists(st.integers(1, 200), min_size=1),
)
def test_packed_text_is_unpacked_as_the_gzip_module_does(members, n_zeros, sizes):
    packed = b"".join(map(gzip.compress, members)) + bytes(n_zeros)
    text, found = Pieces(unpacked(io.BytesIO(packed), "gzip"), int), b""
    for size in itertools.cycle(sizes):
        found += (more := text.read(size))
        assert len(more) <= size
        if not more:
            break
    assert found == gzip.decompress(packed)
    assert text.read(1) == b""


@pytest.mark.parametrize("n_bytes", [5, 15, -9, -1])
def test_packed_text_without_its_end_is_an_error(n_bytes):
    source = Pieces(unpacked(io.BytesIO(gzip.compress(text(10))[:n_bytes]), "gzip"), int)
    with pytest.raises(Damaged, match="its end is missing"):
        list(iter(lambda: source.read(1000), b""))


def test_a_source_that_never_waits_is_never_short():
    parts = list(Records(",", 3, size=500).blocks(io.BytesIO(text(1000)).read))
    assert not any(part.short for part in parts)
    assert read_header(HEADER, "x.csv").names == ("number", "seventh", "label")
