"""`python -m fencepost.reproduce`: the same command as `fencepost reproduce`."""

import sys

import typer

from fencepost.errors import FencepostError
from fencepost.reproduce.command import reproduce

if __name__ == "__main__":
    try:
        typer.run(reproduce)
    except FencepostError as refusal:
        sys.exit(f"fencepost: {refusal}")
