"""Signals: what ends rows early, and what asks to save and go on. Real ones, to a process."""

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from fires.cli.interrupts import EndsEarly, paced

DONE = SimpleNamespace(n_rows=1)

# Learns from the numbers on standard input, one a line, as a command would. Work on an even number
# takes until a file "go" is there. What is saved, and when, goes to standard output.
PROGRAM = r"""
import os, sys, time
from types import SimpleNamespace
from fires.cli.interrupts import EndsEarly, let_signals_through

def numbers():
    while line := os.read(0, 2):  # one at a time, and none ahead
        yield int(line)

def say(*words):
    os.write(2, (" ".join(map(str, words)) + "\n").encode())

def save():
    say("saved", done.n_rows)
    if "broken" in sys.argv:
        raise OSError(28, "No space left on device")

let_signals_through()
done = SimpleNamespace(n_rows=0)
source = EndsEarly(numbers(), done)
if "no folder" not in sys.argv:
    source.on_request = save
with source:
    say("ready")
    for number in source:
        say("learns", number)
        while number % 2 == 0 and not os.path.exists("go"):
            time.sleep(0.01)
        done.n_rows += 1
        say("learnt", number)
say("ended", source.reason, source.error)
if "slow" in sys.argv:
    say("is saving")
    while not os.path.exists("go"):
        time.sleep(0.01)
print("a table")
sys.stdout.flush()
sys.exit(source.exit_code(saved="no folder" not in sys.argv))
"""


class Child:
    """The program, and what it has said."""

    def __init__(self, folder, *arguments, **settings):
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            **{"stdout": subprocess.PIPE, **settings},
        )
        self.said, self._folder = [], folder
        self.wait_for("ready")

    def feed(self, number):
        os.write(self.process.stdin.fileno(), f"{number}\n".encode())

    def send(self, number):
        self.process.send_signal(number)

    def go(self):
        (self._folder / "go").touch()

    def wait_for(self, line):
        while line not in self.said:
            text = self.process.stderr.readline().decode().strip()
            assert text, f"{line!r} was never said, but {self.said}"
            self.said.append(text)

    def end(self, code):
        assert self.process.wait(timeout=120) == code
        self.said += self.process.stderr.read().decode().splitlines()
        for pipe in (self.process.stdin, self.process.stderr, self.process.stdout):
            if pipe is not None:
                pipe.close()
        return self.said


@pytest.fixture
def start(tmp_path):
    children = []

    def started(*arguments, **settings):
        children.append(Child(tmp_path, *arguments, **settings))
        return children[-1]

    yield started
    for child in children:
        child.process.kill()
        child.process.wait()
        for pipe in (child.process.stdin, child.process.stderr, child.process.stdout):
            if pipe is not None:
                pipe.close()


ENDING = [
    pytest.param(signal.SIGINT, "", 130, id="Ctrl-C"),
    pytest.param(signal.SIGTERM, "", 0, id="SIGTERM"),
    pytest.param(signal.SIGHUP, "", 0, id="SIGHUP"),
    pytest.param(signal.SIGINT, "no folder", 130, id="Ctrl-C, nothing saved"),
    pytest.param(signal.SIGTERM, "no folder", 143, id="SIGTERM, nothing saved"),
    pytest.param(signal.SIGHUP, "no folder", 129, id="SIGHUP, nothing saved"),
]


@pytest.mark.parametrize(("number", "argument", "code"), ENDING)
def test_a_signal_ends_the_wait_for_rows(number, argument, code, start):
    child = start(argument)
    child.feed(1)
    child.wait_for("learnt 1")
    child.send(number)
    assert child.end(code)[-1] == "ended interrupted None"


@pytest.mark.parametrize(("number", "argument", "code"), ENDING)
def test_but_a_batch_is_learnt_whole(number, argument, code, start):
    child = start(argument)
    child.feed(2)
    child.feed(3)
    child.wait_for("learns 2")
    child.send(number)
    child.go()
    assert child.end(code)[-2:] == ["learnt 2", "ended interrupted None"]


def test_a_second_ctrl_c_stops_it_wherever_it_is(start):
    child = start()
    child.feed(2)
    child.wait_for("learns 2")
    deadline = time.monotonic() + 120
    while child.process.poll() is None and time.monotonic() < deadline:
        child.send(signal.SIGINT)  # two that come too fast are one
        time.sleep(0.05)
    assert "learnt 2" not in child.end(-signal.SIGINT)


def test_other_signals_that_are_repeated_change_nothing(start):
    """A terminal that closes says so twice: once by the kernel, once by the shell."""
    child = start("slow")
    child.feed(2)
    child.wait_for("learns 2")
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP, signal.SIGTERM) * 3:
        child.send(number)
        time.sleep(0.01)
    child.go()
    child.wait_for("learnt 2")
    assert child.end(0)[-2:] == ["ended interrupted None", "is saving"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1])
def test_nor_do_they_while_all_is_saved(number, start):
    child = start("slow")
    child.send(signal.SIGTERM)
    child.wait_for("is saving")
    child.send(number)
    child.go()
    child.end(0)


def test_nohup_goes_on(start):
    child = start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    child.send(signal.SIGHUP)
    child.feed(1)
    child.wait_for("learnt 1")
    child.process.stdin.close()
    child.process.stdin = None
    assert child.end(0)[-1] == "ended None None"


# SIGUSR1


def test_a_request_is_answered_at_once_while_it_waits_for_rows(start):
    child = start()
    child.send(signal.SIGUSR1)
    child.wait_for("saved 0")
    child.feed(1)
    child.wait_for("learnt 1")
    child.send(signal.SIGUSR1)
    child.wait_for("saved 1")  # though no more rows have come
    child.feed(3)
    child.wait_for("learnt 3")
    child.send(signal.SIGTERM)
    assert child.end(0) == [
        *("ready", "saved 0", "learns 1", "learnt 1", "saved 1", "learns 3", "learnt 3"),
        "ended interrupted None",
    ]


def test_else_after_the_batch_and_several_are_one(start):
    child = start()
    child.feed(2)
    child.wait_for("learns 2")
    for _ in range(5):
        child.send(signal.SIGUSR1)
        time.sleep(0.01)
    child.go()
    child.wait_for("saved 1")
    child.feed(4)
    child.wait_for("learnt 4")
    child.send(signal.SIGTERM)
    assert child.end(0) == [
        *("ready", "learns 2", "learnt 2", "saved 1", "learns 4", "learnt 4"),
        "ended interrupted None",
    ]


def test_where_nothing_can_be_saved_it_is_no_reason_to_die(start):
    child = start("no folder")
    child.send(signal.SIGUSR1)
    child.feed(1)
    child.wait_for("learnt 1")
    child.send(signal.SIGTERM)
    assert "saved" not in " ".join(child.end(143))


@pytest.mark.parametrize("waits", [True, False])
def test_what_cannot_be_saved_ends_the_run_and_says_why(waits, start):
    child = start("broken")
    child.feed(1 if waits else 2)
    child.wait_for("learnt 1" if waits else "learns 2")
    child.send(signal.SIGUSR1)
    child.go()
    assert child.end(0)[-1] == "ended No space left on device [Errno 28] No space left on device"


def test_a_signal_while_it_saves_waits_for_the_end_of_that():
    events = []

    def save():
        events.append("saves")
        if len(events) == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            os.kill(os.getpid(), signal.SIGHUP)
        events.append("saved")

    def rows():
        os.kill(os.getpid(), signal.SIGUSR1)
        events.append("not reached")
        yield 1

    before = {
        number: signal.getsignal(number)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    }
    source = EndsEarly(rows(), DONE)
    source.on_request = save
    try:
        with source:
            assert list(source) == []
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert events == ["saves", "saved", "saves", "saved"]
    assert source.signal == signal.SIGHUP


def test_a_request_waits_until_something_can_save():
    events = []

    def rows():
        os.kill(os.getpid(), signal.SIGUSR1)
        for number in range(3):
            events.append(number)
            yield number

    source, before = EndsEarly(rows(), DONE), signal.getsignal(signal.SIGUSR1)
    with source:
        for number in source:
            if number == 1:
                source.on_request = lambda: events.append("saved")
    signal.signal(signal.SIGUSR1, before)
    assert events == [0, 1, "saved", 2]


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_what_the_source_must_do_whole_is_not_disturbed(number):
    events = []

    def rows():
        with source.undisturbed():
            os.kill(os.getpid(), number)
            events.append("whole")
        events.append("goes on")
        yield 1

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    source = EndsEarly(rows(), DONE)
    source.on_request = lambda: events.append("saved")
    try:
        with source:
            for _ in source:
                with source.undisturbed():  # nobody waits for rows here
                    pass
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    asked = number == signal.SIGUSR1
    assert events == (["whole", "saved", "goes on"] if asked else ["whole"])


def test_rows_that_are_not_due_yet_are_waited_for_in_the_same_way():
    events = []

    def batches(size):
        for number in range(3):
            events.append(f"read {number}")
            yield SimpleNamespace(n_rows=size)

    def save():
        events.append("saved")
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    source = EndsEarly(paced(batches(10), rows_per_second=0.001), DONE)
    source.on_request = save
    try:
        with source:
            for _ in source:
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert events == ["read 0", "saved"]
    assert source.exit_code(saved=True) == 0


# A terminal


@pytest.mark.parametrize("closed", [True, False])
def test_a_terminal_that_is_gone_is_no_failure(closed, start):
    master, terminal = pty.openpty()

    def has_a_terminal():
        os.setsid()
        os.close(os.open(os.ttyname(terminal), os.O_RDWR))  # it becomes the one of the session

    child = start(stdout=terminal, preexec_fn=has_a_terminal)
    os.close(terminal)
    child.feed(2)
    child.wait_for("learns 2")
    if closed:
        os.close(master)  # so the kernel sends SIGHUP, and to write is an error from now on
    else:
        child.send(signal.SIGHUP)
    child.go()
    if not closed:  # a terminal wants to be read
        with open(master, "rb", buffering=0) as screen:
            shown = []
            reader = threading.Thread(target=lambda: shown.append(screen.read(100)), daemon=True)
            reader.start()
            said = child.end(0)
            reader.join(timeout=120)
        assert shown[0].startswith(b"a table")
    else:
        said = child.end(0)
    assert said[-1] == "ended interrupted None"
