"""`fencepost check`, `run` and `connector`: pipelines in a TOML file."""

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fencepost._text import count
from fencepost.cli.options import Json
from fencepost.cli.output import note, print_json, print_text, progress
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fencepost.pipeline import Fault
    from fencepost.pipeline.runtime.running import Beside

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A pipeline, as TOML.", show_default=False)]


class LogFormat(StrEnum):
    """How messages are written."""

    text = "text"
    json = "json"


_LogFormat = Annotated[
    LogFormat, typer.Option("--log-format", help="Messages as lines of text, or as objects of JSON.")
]


def check(file: _File, as_json: Json = False) -> None:
    """Find every fault of a pipeline file without starting Spark."""
    from fencepost import pipeline  # here and below: whoever asks for another command need not wait for it

    with progress() as report:
        faults = pipeline.check(file, progress=report)
    if as_json:
        _print_faults(file, faults, faults.unchecked, faults.left_out)
    else:
        for fault in faults:
            print_text(fault)
        for part in faults.unchecked:
            print_text(f"not checked before Spark starts: {part}")
        for part in faults.left_out:
            print_text(f"not checked: {part}")
        print_text(f"{file}: " + (count(len(faults), "fault") if faults else "no fault found"))
    if faults:
        raise typer.Exit(1)


def run(
    file: _File,
    as_json: Json = False,
    log_format: _LogFormat = LogFormat.text,
    console: Annotated[
        bool, typer.Option("--console", help="Serve pages about the pipeline on this machine, and log where.")
    ] = False,
) -> None:
    """Run a pipeline file.

    It runs until Ctrl-C or SIGTERM. With once = true it reads the rows that are there, and ends. Exit code 3: done, but
    a webhook did not take every event. Messages go to standard error, Spark's own to a file beside the checkpoint.
    """
    from fencepost import pipeline

    try:
        beside = _console() if console else None
        form: Literal["json", "text"] = "json" if log_format is LogFormat.json else "text"
        summary = pipeline.run(file, log_format=form, beside=beside)
    except pipeline.PipelineFaultsError as error:
        if as_json:
            _print_faults(file, error.faults)
        note(str(error))
        raise typer.Exit(1) from None
    if as_json:
        print_json(summary._asdict())
    else:
        print_text(f"done: {summary}")
    if summary.undelivered:
        raise typer.Exit(3)


def _console() -> "Beside":
    """What serves the pages of a pipeline."""
    try:
        from fencepost.console.pipelined import open_console
    except ImportError as error:
        raise FencepostError(
            f"the package {error.name} is not installed",
            "what the extra serve brings",
            "Install it: pip install 'fencepost[serve]'.",
        ) from None
    if not sys.stderr.isatty():
        return open_console
    return partial(open_console, show=lambda text: print(text, file=sys.stderr))


class Part(StrEnum):
    """A part of Spark that pyspark does not have."""

    kafka = "kafka"
    avro = "avro"
    protobuf = "protobuf"


def connector(
    parts: Annotated[
        list[Part] | None, typer.Argument(metavar="[kafka] [avro] [protobuf]", help="What to fetch; by default kafka.")
    ] = None,
) -> None:
    """Fetch Spark's Kafka connector with Maven, or the decoder of messages in Avro.

    Pipelines need the connector to read from topics or write to them. Messages in Protobuf need nothing more.
    """
    from fencepost.pipeline.connector import fetch_connector

    for part in parts or [Part.kafka]:
        if part is Part.protobuf:
            note("protobuf: nothing to fetch; fencepost decodes such messages itself.")
        else:
            for jar in fetch_connector("kafka" if part is Part.kafka else "avro"):
                print_text(jar)


def _print_faults(
    file: Path, faults: "Sequence[Fault]", unchecked: "Sequence[str]" = (), left_out: "Sequence[str]" = ()
) -> None:
    found = {"file": str(file), "faults": [fault._asdict() for fault in faults]}
    further = {"unchecked": list(unchecked), "left_out": list(left_out)}
    print_json(found | {name: parts for name, parts in further.items() if parts})
