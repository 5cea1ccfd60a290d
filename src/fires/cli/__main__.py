"""``python -m fires.cli``: the command where its script is not on the path."""

from fires.cli import main

if __name__ == "__main__":
    main(prog_name="fires")
