"""What is released: the public names, and archives that install into an empty environment."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import fires

ROOT = Path(__file__).parents[1]
LISTED = ROOT / "tests" / "public_api.txt"
CLASSES = ("FIRES", "OnlinePipeline", "Sharded")


def public_api():
    """Every public name with its parameters; of the main classes, every method too."""
    lines = []
    for name in fires.__all__:
        one = getattr(fires, name)
        lines.append(f"fires.{name}{inspect.signature(one)}" if callable(one) else f"fires.{name}")
        if name not in CLASSES:
            continue
        for member in sorted(dir(one)):
            if member.startswith(("_", "set_", "get_meta")):
                continue
            found = inspect.getattr_static(one, member)
            found = getattr(found, "__func__", found)
            signature = inspect.signature(found) if inspect.isfunction(found) else ""
            lines.append(f"fires.{name}.{member}{signature}")
    return [line.split(" -> ")[0] for line in lines]


def test_the_public_names_change_on_purpose_only():
    """To renew the list: ``python -m tests.test_release``."""
    assert public_api() == LISTED.read_text(encoding="utf-8").splitlines()


@pytest.mark.slow
def test_wheel_and_sdist_install_into_an_empty_environment_and_run_the_demo(tmp_path):
    def run(*command, cwd=tmp_path):
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    def environment(name):
        run(sys.executable, "-m", "venv", str(tmp_path / name))
        return str(tmp_path / name / "bin" / "python")

    tools = environment("tools")
    run(tools, "-m", "pip", "install", "--quiet", "build")
    run(tools, "-m", "build", "--outdir", str(tmp_path / "dist"), str(ROOT))
    archives = sorted((tmp_path / "dist").iterdir(), key=lambda archive: archive.suffix)
    assert [archive.suffix for archive in archives] == [".gz", ".whl"]
    for archive in archives:
        python = environment(archive.suffix[1:])
        run(python, "-m", "pip", "install", "--quiet", str(archive))
        shown = run(
            python, "-m", "fires.cli", "demo", "--out", str(tmp_path / archive.suffix[1:] / "demo")
        )
        assert "alarm at row 10,100" in shown


if __name__ == "__main__":
    LISTED.write_text("\n".join([*public_api(), ""]), encoding="utf-8")
