import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress

from fires.cli import progress
from fires.cli.progress import BenchProgress, one_bar


def test_without_a_terminal_nothing_is_drawn(capsys):
    with one_bar("rows", "{task.fields[now]}", total=10) as show:
        show(lambda: pytest.fail("nothing is to be drawn"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("pause", "drawn"), [(-1.0, [0, 1, 2]), (1e9, [2])])
def test_what_comes_too_soon_is_left_out_but_the_last_is_drawn(monkeypatch, pause, drawn):
    text, asked = io.StringIO(), []
    console = Console(force_terminal=True, file=text, width=60)
    monkeypatch.setattr("rich.console.Console", lambda stderr: console)
    monkeypatch.setattr(progress, "_PAUSE", pause)
    with one_bar("none", "{task.fields[now]}", total=2) as show:
        for number in range(3):
            show(lambda number=number: asked.append(number) or {"now": f"now {number}"})
    assert asked == drawn
    assert re.findall(r"now \d", text.getvalue())[-1] == "now 2"


def test_nothing_to_show_is_shown_too():
    with one_bar("none"):
        pass


@pytest.mark.parametrize("terminal", [True, False])
def test_lines_are_printed_as_they_are_with_bars_or_without(terminal):
    text = io.StringIO()
    console = Console(force_terminal=terminal, file=text, width=40)
    with Progress(console=console, disable=not terminal) as drawn:
        BenchProgress(drawn, []).say("[red]x[/red] \x07" + "long " * 20)
    assert r"[red]x[/red] \x07" + "long " * 20 in text.getvalue()
