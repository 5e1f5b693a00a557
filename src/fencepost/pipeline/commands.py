"""The commands run, check and connector."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fencepost.pipeline.file.faults import PipelineFaultsError

_File = Annotated[Path, typer.Argument(help="The pipeline, a TOML file.", show_default=False)]
_Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
_errors = Console(stderr=True, highlight=False, soft_wrap=True)


def check_command(file: _File, as_json: _Json = False) -> None:
    """Find every fault of a pipeline file before Spark starts."""
    from fencepost.pipeline import check  # here and below: whoever asks for another command need not wait for it

    faults = check(file)
    if as_json:
        typer.echo(json.dumps({"file": str(file), "faults": [fault._asdict() for fault in faults]}))
    else:
        for fault in faults:
            typer.echo(str(fault))
        typer.echo(f"{file}: " + (f"{len(faults)} fault{'s' * (len(faults) != 1)}" if faults else "no fault found"))
    if faults:
        raise typer.Exit(1)


def run_command(file: _File, as_json: _Json = False) -> None:
    """Run a pipeline file until Ctrl-C, or with once = true until it has taken what is there."""
    from fencepost.pipeline import run

    try:
        summary = run(file)
    except PipelineFaultsError as error:
        if as_json:
            typer.echo(json.dumps({"file": str(file), "faults": [fault._asdict() for fault in error.faults]}))
        _errors.print(str(error), markup=False)
        raise typer.Exit(1) from None
    typer.echo(json.dumps(summary._asdict()) if as_json else f"done: {summary}")


def connector_command() -> None:
    """Get Spark's Kafka connector with Maven, for pipelines that read or write topics."""
    from fencepost.pipeline.connector import fetch_connector

    for jar in fetch_connector():
        typer.echo(str(jar))
