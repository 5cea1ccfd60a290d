"""State on disk: what goes in comes out, and no fault goes unseen."""

import errno
import hashlib
import json
import os
import pickle
import random
import signal
import stat
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal
from safetensors.numpy import load, save

from fires.core.errors import MissingExtra, StateError
from fires.core.state import read_state, state_from_bytes, write_state

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals, limits or modes")

HEADER = {"class": "FIRES", "names": ["age", "höhe"], "rate": 0.1}
ARRAYS = {"mu": np.linspace(-1, 1, 5), "seen": np.array(7), "mask": np.array([[True, False]])}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A file to write again and again, for tests that hypothesis repeats."""
    return tmp_path_factory.mktemp("storage") / "state"


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "state"
    write_state(path, HEADER, ARRAYS)
    return path


def assert_holds(path, header=HEADER, arrays=ARRAYS):
    found_header, found = read_state(path)
    assert found_header == header
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_array_equal(found[name], array, strict=True)


def fault(path):
    """The message of the StateError that reading must give: one line that names the file."""
    with pytest.raises(StateError) as caught:
        read_state(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{str(path)!r} ")
    return message.removeprefix(f"{str(path)!r} ")


# What goes in comes out

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
names = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(deadline=None)
@given(arrays=st.dictionaries(names, hnp.arrays(dtypes, shapes), max_size=4))
def test_arrays_come_back_to_the_bit(scratch, arrays):
    write_state(scratch, {}, arrays)
    _, found = read_state(scratch)
    assert list(found) == sorted(arrays)
    for name, array in arrays.items():
        native = array.astype(array.dtype.newbyteorder("="))
        assert found[name].dtype == native.dtype
        assert found[name].shape == native.shape
        assert found[name].tobytes() == native.tobytes()  # signs of zero and kinds of NaN too
        assert found[name].flags.aligned
        assert found[name].flags.writeable


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(header=st.dictionaries(st.text(), json_values, max_size=4))
def test_headers_come_back_exactly(scratch, header):
    write_state(scratch, header, {})
    # repr tells 1 from 1.0 and from True, shows every digit, and equals itself for NaN
    assert repr(read_state(scratch)[0]) == repr(header)


def test_arrays_may_be_strided_transposed_or_read_only(tmp_path):
    base = np.arange(24.0).reshape(4, 6)
    frozen = base.copy()
    frozen.flags.writeable = False
    arrays = {"strided": base[::2, 1::3], "turned": base.T, "back": base[::-1], "frozen": frozen}
    write_state(tmp_path / "state", {}, arrays)
    assert_holds(tmp_path / "state", {}, arrays)


def test_many_names_fit_into_the_header(tmp_path):
    header = {"names": [f"feature {i} of °C" for i in range(200_000)]}
    write_state(tmp_path / "state", header, {})
    assert_holds(tmp_path / "state", header, {})


SAVE = """
state = {"b": np.zeros(2, np.int8), "a": np.ones(3), "c": np.array(True), "d": np.zeros((2, 0))}
print(state_to_bytes({"x": "höhe"}, state).hex())
"""


def test_the_same_state_is_the_same_bytes_in_every_process():
    found = set()
    for _ in range(3):  # three keys in random order would agree by chance once in 36 times
        with python(SAVE) as process:
            found.add(process.communicate(timeout=120)[0])
    (text,) = found
    content = bytes.fromhex(text)
    assert int.from_bytes(content[:8], "little") % 8 == 0  # so all arrays are aligned
    assert list(load(content)["a"]) == [1.0, 1.0, 1.0]
    assert state_from_bytes(content)[0] == {"x": "höhe"}


# What is refused, before anything is written


def test_more_arrays_than_any_state_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fires.core.state._LONGEST_INDEX", 10_000)
    many = {f"array {i}": np.zeros(0) for i in range(2_000)}
    with pytest.raises(ValueError, match=r"2,001 arrays are too many for a state file"):
        write_state(tmp_path / "state", {}, many)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}], dtype=object),
        np.array(["a"]),
        np.array([b"a"]),
        np.array(["2020-08-23"], dtype="datetime64[D]"),
        np.array([1j]),
        np.array([(1, 2.0)], dtype="i4,f8"),
    ],
    ids=lambda array: array.dtype.name,
)
def test_arrays_of_other_kinds_are_refused_by_name(saved, array):
    with pytest.raises(TypeError, match="Array 'labels' has dtype"):
        write_state(saved, {}, {"labels": array})
    assert_holds(saved)


@pytest.mark.parametrize("name", ["__header__", "__metadata__"])
def test_names_of_the_format_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"No array can be named '{name}'"):
        write_state(tmp_path / "state", {}, {name: np.zeros(1)})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "header", [{1: "a"}, {"a": [({None: 1},)]}, {"a": np.int64(1)}, {"a": {1, 2}}, {"a": b"x"}]
)
def test_what_json_cannot_hold_or_would_change_is_refused(tmp_path, header):
    with pytest.raises(TypeError, match="The header takes JSON values only: "):
        write_state(tmp_path / "state", header, {})
    assert os.listdir(tmp_path) == []


# Faults of the file


def test_no_truncated_file_is_read(saved):
    whole = saved.read_bytes()
    marked = whole.index(b'"fires-state"') + len(b'"fires-state"')
    for length in range(len(whole)):
        saved.write_bytes(whole[:length])
        message = fault(saved)
        expected = "is truncated or altered: " if length >= marked else "is not a fires state file."
        assert message.startswith(expected)


def test_a_longer_file_is_not_read(saved):
    saved.write_bytes(saved.read_bytes() + b"\0")
    assert fault(saved).startswith("is truncated or altered")


def test_no_flipped_bit_goes_unseen(saved):
    whole = saved.read_bytes()
    for position in range(len(whole)):
        for bit in range(8):
            flipped = bytearray(whole)
            flipped[position] ^= 1 << bit
            saved.write_bytes(flipped)
            fault(saved)


def test_arrays_that_trade_places_are_seen(tmp_path):
    path = tmp_path / "state"
    write_state(path, {}, {"a": np.zeros(2), "b": np.ones(2)})
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"?"').replace(b'"b"', b'"a"'))
    fault(path)


class Bomb:
    """Does harm when it is unpickled."""

    def __reduce__(self):
        return (os.abort, ())


FOREIGN = {
    "empty": b"",
    "one byte": b"\0",
    "text": b"x,y\n1,2\n" * 100,
    "zeros": b"\0" * 1000,
    "ones": b"\xff" * 1000,
    "noise": np.random.default_rng(0).bytes(1000),
    "deep JSON": (50_000).to_bytes(8, "little") + b"[" * 50_000,
    "pickle": pickle.dumps(Bomb()),
    "npy": b"\x93NUMPY\x01\x00",
    "safetensors": save({"weight": np.zeros(3)}),
    "safetensors of torch": save({"weight": np.zeros(3)}, {"format": "pt"}),
    "with our mark elsewhere": save({"fires-state": np.zeros(3)}, {"format": "pt", "version": "1"}),
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_foreign_files_are_told_apart(tmp_path, content):
    path = tmp_path / "foreign"
    path.write_bytes(content)
    assert fault(path) == "is not a fires state file."


def test_a_foreign_file_larger_than_the_memory_is_told_apart(tmp_path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.write(save({"weight": np.zeros(3)}))
        try:
            file.truncate(2**42)
        except OSError:
            pytest.skip("this file system has no sparse files of that size")
    assert fault(path) == "is not a fires state file."
    path.unlink()


def test_a_newer_format_asks_for_an_upgrade(tmp_path):
    path = tmp_path / "state"
    path.write_bytes(save({"new": np.zeros(1)}, {"format": "fires-state", "version": "12"}))
    assert fault(path) == (
        "was written by a newer fires, in state format 12; this one reads format 3: upgrade fires."
    )


@pytest.mark.parametrize("tensors", [{"mu": np.zeros(1)}, {"__header__": np.zeros(1)}])
def test_a_file_that_only_claims_to_be_ours_is_not_read(tmp_path, tensors):
    path = tmp_path / "state"
    path.write_bytes(save(tensors, {"format": "fires-state", "version": "1"}))
    assert fault(path).startswith("is truncated or altered")


@pytest.mark.parametrize("index", [b'["fires-state"]', b'["fires-state",' + b"[" * 50_000])
def test_an_index_that_makes_no_sense_is_not_read(tmp_path, index):
    path = tmp_path / "state"
    path.write_bytes(len(index).to_bytes(8, "little") + index)
    assert fault(path) == "is altered: its index cannot be read."


def test_a_file_of_a_million_arrays_is_refused_at_once(tmp_path):
    path = tmp_path / "state"
    index = b'{"__metadata__":{"format":"fires-state","version":"3"},'
    index += b",".join(
        b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}' % i for i in range(1_000_000)
    )
    path.write_bytes((len(index) + 1).to_bytes(8, "little") + index + b"}")
    started = time.process_time()
    assert fault(path) == "is truncated or altered: its index is longer than that of any state."
    assert time.process_time() - started < 0.5


def write_version_1(path, header, mu):
    """Written by hand, as any later reader must be able to read it."""
    sizes = len(header), len(header) + 8
    described = b'["__header__", "uint8", [%d]]' % sizes[0] + header
    checksum = hashlib.sha256(described + b'["mu", "float64", [1]]' + mu).hexdigest()
    index = {
        "__metadata__": {"format": "fires-state", "version": "1", "checksum": checksum},
        "mu": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        "__header__": {"dtype": "U8", "shape": [sizes[0]], "data_offsets": [8, sizes[1]]},
    }
    text = json.dumps(index).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + mu + header)


def test_the_format_is_what_version_1_was(tmp_path):
    write_version_1(tmp_path / "state", b'{"a":1}', np.array([0.5], dtype="<f8").tobytes())
    assert_holds(tmp_path / "state", {"a": 1}, {"mu": np.array([0.5])})


def test_what_an_old_format_does_not_say_of_an_estimator_is_not_guessed(tmp_path):
    write_version_1(tmp_path / "state", b'{"class":"FIRES"}', np.zeros(1).tobytes())
    assert fault(tmp_path / "state") == (
        "was written by an old fires, in state format 1; train it again."
    )


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "state")


# Faults of the place


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_state(tmp_path / "missing" / "state", {}, {})
    assert str(tmp_path / "missing") in str(caught.value)


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(OSError, match="State cannot be written to this kind of file") as caught:
        write_state(tmp_path, {}, {})
    assert repr(str(tmp_path)) in str(caught.value)
    assert os.listdir(tmp_path) == []


@posix
def test_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="State cannot be written to this kind of file"):
        write_state(tmp_path / "pipe", {}, {})
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@posix
@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write to read-only folders"
)
def test_a_read_only_folder_keeps_its_file(saved):
    saved.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            write_state(saved, {}, {})
        assert os.listdir(saved.parent) == ["state"]
        assert_holds(saved)
    finally:
        saved.parent.chmod(0o700)


@posix
@pytest.mark.parametrize("exists", [True, False], ids=["to a file", "dangling"])
def test_a_link_stays_a_link(tmp_path, exists):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data/state")
    if exists:
        write_state(tmp_path / "data" / "state", {}, {})
    write_state(tmp_path / "link", HEADER, ARRAYS)
    assert os.readlink(tmp_path / "link") == "data/state"
    assert_holds(tmp_path / "data" / "state")
    assert sorted(os.listdir(tmp_path)) == ["data", "link"]
    assert os.listdir(tmp_path / "data") == ["state"]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o444])
def test_a_file_keeps_its_permissions(saved, mode):
    saved.chmod(mode)
    write_state(saved, {}, {})
    assert stat.S_IMODE(os.stat(saved).st_mode) == mode


@posix
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_gets_the_permissions_of_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_state(tmp_path / "state", {}, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(tmp_path / "state").st_mode) == 0o666 & ~umask


# Writes that do not end well


def python(code, *arguments):
    """Start another Python on this code, its errors and output in one pipe."""
    preamble = "import os, sys, numpy as np\nfrom fires.core.state import *\n"
    return subprocess.Popen(
        [sys.executable, "-c", preamble + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@posix
def test_a_write_that_runs_out_of_room_leaves_the_old_file(saved):
    code = """
    import resource, signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    try:
        write_state(sys.argv[1], {}, {"mu": np.zeros(100_000)})
    except OSError as error:
        print(error.errno)
    """
    with python(code, saved) as process:
        output, _ = process.communicate(timeout=120)
    assert output == f"{errno.EFBIG}\n"
    assert os.listdir(saved.parent) == ["state"]
    assert_holds(saved)


@posix
def test_interrupts_leave_a_whole_file_and_nothing_else(saved):
    """In another process, because an interrupt may also hit what pytest runs."""
    code = """
    import random, signal
    path, folder = sys.argv[1], os.path.dirname(sys.argv[1])
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    rng = random.Random(1)
    write_state(path, {"n": 0}, {"mu": np.full(20_000, 0.0)})
    n = 0
    for _ in range(150):
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0005, 0.01))
            for n in range(n + 1, n + 1000):
                write_state(path, {"n": n}, {"mu": np.full(20_000, float(n))})
        except KeyboardInterrupt:
            pass
        header, arrays = read_state(path)
        assert header["n"] in (n - 1, n), (header, n)
        assert (arrays["mu"] == header["n"]).all()
        assert os.listdir(folder) == ["state"], os.listdir(folder)
        n = header["n"]
    print("whole")
    """
    with python(code, saved) as process:
        output, _ = process.communicate(timeout=120)
    assert output.endswith("whole\n"), output


@posix
def test_a_killed_process_leaves_the_old_file_or_the_new(tmp_path):
    path = tmp_path / "state"
    code = """
    n = int(sys.argv[2])
    while True:
        n += 1
        write_state(sys.argv[1], {"n": n}, {"mu": np.full(200_000, float(n))})
        print(n, flush=True)
    """
    rng = random.Random(2)
    last = 0
    for _ in range(3):
        with python(code, path, last) as process:
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
            told, _ = process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        header, arrays = read_state(path)
        done = max([last + 1, *map(int, told.split())])
        assert header["n"] in (done, done + 1)
        assert_array_equal(arrays["mu"], np.full(200_000, float(header["n"])), strict=True)
        last = header["n"]
        # A killed process cannot clean up: at most the one file it was writing stays.
        remains = {*os.listdir(tmp_path)} - {"state"}
        assert len(remains) <= 1
        for name in remains:
            assert name.startswith(".fires-")
            assert name.endswith(".tmp")
            (tmp_path / name).unlink()


# The other error


def test_a_missing_extra_says_what_to_install_also_from_a_worker_process():
    error = pickle.loads(pickle.dumps(MissingExtra("NeuralNet", "torch", "torch")))
    assert str(error) == "NeuralNet needs torch: pip install '.[torch]'"
    assert error.name == "torch"
    assert isinstance(error, ImportError)
