"""The `fencepost` command: its subcommands, and the one place where a refusal becomes a message."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from fencepost._text import printable_lines
from fencepost.cli.commands import (
    backtest,
    catalogue,
    deliveries,
    explain,
    match,
    pipeline,
    publish,
    rules,
    serve,
    size,
    status,
    tick,
    token,
    verify,
    version,
    warm,
    why,
)
from fencepost.cli.commands.lab import add_lab_command
from fencepost.errors import FencepostError

_COLLECTED_AFTER = 50_000
"""New objects after which Python looks for cycles: packages that are loaded make very many, and none of them goes."""

app = typer.Typer(
    name="fencepost",
    help="Keep range rules in a book, try them on files, publish them, and run them on live data. "
    "Exit codes: 0 done, 1 refused, 2 wrong usage, 3 done but not all delivered.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(asked: bool) -> None:
    if asked:
        version.version()
        raise typer.Exit


@contextmanager
def _with_book(url: str) -> Iterator[None]:
    """Let a command without a --book of its own use this one; who calls the command line from Python keeps theirs."""
    before = os.environ.get("FENCEPOST_BOOK")
    os.environ["FENCEPOST_BOOK"] = url
    try:
        yield
    finally:
        if before is None:
            del os.environ["FENCEPOST_BOOK"]
        else:
            os.environ["FENCEPOST_BOOK"] = before


@app.callback()
def _before(
    context: typer.Context,
    book: Annotated[str | None, typer.Option("--book", metavar="URL", help="The rule book, for any command.")] = None,
    _: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version of fencepost."),
    ] = False,
) -> None:
    """Let --book stand in front of the command, too."""
    if book is not None:
        context.with_resource(_with_book(book))


app.add_typer(rules.app, name="rules")
app.add_typer(deliveries.app, name="deliveries")
app.command("match")(match.match)
app.command("backtest")(backtest.backtest)
app.command("explain")(explain.explain)
app.command("why")(why.why)
app.command("verify")(verify.verify)
app.command("publish")(publish.publish)
app.command("tick")(tick.tick)
app.command("check")(pipeline.check)
app.command("run")(pipeline.run)
app.command("serve")(serve.serve)
app.add_typer(token.app, name="token")
app.command("status")(status.status)
app.command("size")(size.size)
app.command("connector")(pipeline.connector)
app.command("warm")(warm.warm)
add_lab_command(app, "demo")
app.command("catalogue")(catalogue.catalogue)
add_lab_command(app, "reproduce")
app.command("version")(version.version)


def main() -> None:
    """Run the command line; a refusal is printed in plain words, anything else is a fault of fencepost."""
    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])
    try:
        app(prog_name="fencepost")
    except FencepostError as error:
        sys.exit(printable_lines(f"fencepost: {error}"))
    except OSError as error:
        got = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        refusal = FencepostError(got, "a file that can be used", "Correct its path or its permissions.")
        sys.exit(printable_lines(f"fencepost: {refusal}"))
