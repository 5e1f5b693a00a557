"""`fencepost tick`: tells streams that a time has come."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.options import Json
from fencepost.cli.output import note, print_json
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.published import VersionDirectory

_NUMBER = re.compile(r"[-+]?[0-9]+")


def tick(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="That rules are published to: a path, or a URL like s3://bucket/rules.")
    ],
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]",
            help="2030-01-01T12:00, in UTC without a zone, or 2030-01-01; a number where times are numbers. Else now.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell all streams that follow a directory that a time has come: rules expire, and silent objects time out.

    It promises that no row older than TIME will come, and cannot be taken back. An earlier time than one that was
    told before has no effect.
    """
    from fencepost.published import VersionDirectory
    from fencepost.published.markers import number_of

    come = datetime.now(UTC) if time is None else _read_time(time)
    versions = VersionDirectory(directory)
    _check_published(versions, directory)
    last = versions.markers.newest()[1]
    if last is None or number_of(come) > last:
        versions.tick(come)
        said, told, newest = f"told {directory} that {_written(come)} has come", True, come
    else:
        newest = _like(come, last)
        said, told = f"no effect: {directory} was told {_written(newest)} before, {_written(come)} is not later", False
    if as_json:
        print_json({"directory": directory, "time": come, "told": told, "newest": newest})
    else:
        note(said)


def _read_time(text: str) -> datetime | int:
    """An instant, without a zone in UTC, or a number."""
    try:
        if _NUMBER.fullmatch(text):
            number = int(text)
            if not -(2**63) <= number < 2**63:
                raise ValueError(text)
            return number
        read = datetime.fromisoformat(text)
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError):
        raise FencepostError(
            f"the time {text!r}",
            "a time such as 2030-01-01T12:00, a date, or a whole number of 64 bits",
            "Write it so, or leave it out for now.",
        ) from None


def _check_published(versions: "VersionDirectory", directory: str) -> None:
    from fencepost._files.storage import exists

    if versions.latest() is None:
        raise FencepostError(
            f"{directory}{' without any version' if exists(versions.path) else ', which does not exist'}",
            "a directory with a published version",
            f"Publish rules first: fencepost publish {directory}",
        )


def _like(come: datetime | int, marker: int) -> datetime | int:
    """What a marker says, as a time of the same kind where that can be."""
    try:
        return marker if isinstance(come, int) else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=marker)
    except OverflowError:
        return marker


def _written(time: datetime | int) -> str:
    return time.isoformat() if isinstance(time, datetime) else str(time)
