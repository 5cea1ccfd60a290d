"""Files that only grow: nothing is lost, nothing is there twice, and no line is half."""

import errno
import os

import pytest

from fires.run.records import AppendedFile


def failing(monkeypatch, name, code, spoil=lambda *arguments: None):
    """Let the next call of a function of the system fail."""
    real = getattr(os, name)

    def once(*arguments):
        monkeypatch.setattr(os, name, real)
        spoil(*arguments)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, once)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_file_that_cannot_be_flushed_is_cut_back_and_takes_no_more(tmp_path, monkeypatch, code):
    path = tmp_path / "x"
    file = AppendedFile(path, 0)
    file.append(b"1\n")
    file.flush(sync=True)
    file.append(b"2\n")
    file.flush()
    file.append(b"3\n")

    def lose(descriptor):  # as the kernel does
        path.write_bytes(b"1\n\0\0\0\0")

    failing(monkeypatch, "fsync", code, lose)
    with pytest.raises(OSError) as error:
        file.flush(sync=True)
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"1\n"
    file.append(b"4\n")
    for write in (lambda: file.flush(sync=True), file.flush, file.close):
        with pytest.raises(OSError):
            write()
    assert path.read_bytes() == b"1\n"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOSPC, errno.EDQUOT])
def test_what_cannot_be_written_leaves_no_half_a_line(tmp_path, monkeypatch, code):
    path = tmp_path / "x"
    file = AppendedFile(path, 0)
    file.append(b"1\n")
    failing(monkeypatch, "open", code)
    with pytest.raises(OSError):
        file.flush()
    assert not path.exists()
    file.append(b"22\n")
    write = os.write
    failing(monkeypatch, "write", code, lambda to, data: write(to, bytes(data)[:3]))
    with pytest.raises(OSError):
        file.flush()
    assert path.read_bytes() == b""
    file.close()
    assert path.read_bytes() == b"1\n22\n"


def test_a_file_is_cut_back_to_what_is_to_stay(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"1\n2\n3")
    file = AppendedFile(path, 4)
    assert path.read_bytes() == b"1\n2\n"
    file.append(b"4\n")
    file.close()
    assert path.read_bytes() == b"1\n2\n4\n"
