import io

import pytest
from rich.console import Console
from rich.progress import Progress

from fires.cli import progress as module
from fires.cli.progress import Bars, progress


def test_without_a_terminal_nothing_is_drawn_and_lines_are_printed(capsys):
    with progress("{task.fields[now]}") as bars:
        bar = bars.bar("rows", 10, now="")
        bar.show(lambda: pytest.fail("nothing is to be drawn"))
        bar.advance()
        bars.say("one\x1b[2J line")
        bar.remove()
    assert capsys.readouterr() == ("", "one\\x1b[2J line\n")


@pytest.mark.parametrize(("pause", "drawn"), [(-1.0, [0, 1, 2]), (1e9, [2])])
def test_what_comes_too_soon_is_left_out_but_the_last_is_drawn(monkeypatch, pause, drawn):
    monkeypatch.setattr(module, "_PAUSE", pause)
    asked = []
    with Progress(console=Console(force_terminal=True, file=io.StringIO())) as shown:
        bars = Bars(shown)
        bar = bars.bar("rows", total=None)
        for number in range(3):
            bar.show(lambda number=number: asked.append(number) or {"completed": number})
        bars.finish()
        bars.finish()
        assert shown.tasks[0].completed == 2
    assert asked == drawn


def test_lines_go_above_the_bars_as_they_are():
    text = io.StringIO()
    with Progress(console=Console(force_terminal=True, file=text, width=40)) as shown:
        Bars(shown).say("[red]x[/red] \x07" + "long " * 20)
    assert r"[red]x[/red] \x07" + "long " * 20 in text.getvalue()
