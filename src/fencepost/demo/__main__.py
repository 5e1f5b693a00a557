"""python -m fencepost.demo."""

import typer

from fencepost.demo.command import demo

typer.run(demo)
