"""`fencepost demo` and `fencepost reproduce`, whose code only a clone has."""

from importlib import import_module
from importlib.util import find_spec

import typer

from fencepost.errors import FencepostError


def add_lab_command(app: typer.Typer, name: str) -> None:
    """Add a command of the lab; where an installed package has none, one that says so."""
    if find_spec("fencepost.lab") is not None:
        app.command(name)(getattr(import_module(f"fencepost.lab.{name}.command"), name))
        return

    def refuse(_: typer.Context) -> None:
        """Only in a clone of the repository."""
        raise FencepostError(
            f"fencepost {name} of an installed package",
            "a clone of the repository, which has the demo and the figures",
            f"Clone it and call make {'demo' if name == 'demo' else 'figures'} there.",
        )

    app.command(name, hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})(refuse)
