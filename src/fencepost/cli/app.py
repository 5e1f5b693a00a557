"""The `fencepost` command: its subcommands, and the one place where a refusal becomes a message."""

import os
import sys
from typing import Annotated

import typer

from fencepost.cli.commands import (
    backtest,
    catalogue,
    deliveries,
    explain,
    match,
    publish,
    rules,
    tick,
    verify,
    version,
    why,
)
from fencepost.errors import FencepostError
from fencepost.lab.demo import command as demo
from fencepost.lab.reproduce import command as reproduce
from fencepost.pipeline import commands as pipeline

app = typer.Typer(
    name="fencepost",
    help="Standing range rules: keep, try, publish and run them. Exit code 0 is done, 1 refused, 2 wrong usage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _before(
    book: Annotated[str | None, typer.Option("--book", metavar="URL", help="The rule book of any command.")] = None,
) -> None:
    """Takes the book also in front of the command."""
    if book is not None:
        os.environ["FENCEPOST_BOOK"] = book


app.add_typer(rules.app, name="rules")
app.add_typer(deliveries.app, name="deliveries")
app.command("match")(match.match)
app.command("backtest")(backtest.backtest)
app.command("explain")(explain.explain)
app.command("why")(why.why)
app.command("verify")(verify.verify)
app.command("publish")(publish.publish)
app.command("tick")(tick.tick)
app.command("check")(pipeline.check_command)
app.command("run")(pipeline.run_command)
app.command("connector")(pipeline.connector_command)
app.command("demo")(demo.demo)
app.command("catalogue")(catalogue.catalogue)
app.command("reproduce")(reproduce.reproduce)
app.command("version")(version.version)


def main() -> None:
    """Runs the command line; a refusal is told in plain words, anything else is a fault of fencepost."""
    try:
        app(prog_name="fencepost")
    except FencepostError as error:
        sys.exit(f"fencepost: {error}")
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        sys.exit(f"fencepost: got {what}; expected a file that can be used. Correct its path or its permissions.")
