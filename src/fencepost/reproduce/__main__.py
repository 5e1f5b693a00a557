"""`python -m fencepost.reproduce`: the same command as `fencepost reproduce`."""

import typer

from fencepost.reproduce.command import reproduce

if __name__ == "__main__":
    typer.run(reproduce)
