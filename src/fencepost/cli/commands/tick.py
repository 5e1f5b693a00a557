"""`fencepost tick`: announces a time to streams."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.options import Json
from fencepost.cli.output import print_done
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.published import VersionDirectory

_NUMBER = re.compile(r"[-+]?[0-9]+")


def tick(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="The directory that streams follow: a path, or a URL like s3://bucket/rules."
        ),
    ],
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]",
            help="A time such as 2030-01-01T12:00 (UTC unless it has a zone), a date, or a number. Default: now.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Announce a time to all streams that follow a directory.

    Rules then expire, silent objects time out and durations are over, although no row comes. A tick promises that no
    row older than TIME will follow. It cannot be undone. A time that is not later than the last announced one has no
    effect.
    """
    from fencepost.published import VersionDirectory
    from fencepost.published.markers import number_of

    come = datetime.now(UTC) if time is None else _read_time(time)
    versions = VersionDirectory(directory)
    _check_published(versions, directory)
    last = versions.markers.newest()[1]
    if last is None or number_of(come) > last:
        versions.tick(come)
        text, is_new, newest = f"announced {_format(come)} to {directory}", True, come
    else:
        newest = _like(come, last)
        text = f"no effect: {_format(come)} is not later than {_format(newest)}, which {directory} already has"
        is_new = False
    print_done(as_json, {"directory": directory, "time": come, "announced": is_new, "newest": newest}, text)


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
            f"{directory}{' has no version' if exists(versions.path) else ' does not exist'}",
            "a directory with a published version",
            f"Publish rules first: fencepost publish {directory}",
        )


def _like(come: datetime | int, marker: int) -> datetime | int:
    """The time of a marker, as a datetime or a number like `come`, where that is possible."""
    try:
        return marker if isinstance(come, int) else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=marker)
    except OverflowError:
        return marker


def _format(time: datetime | int) -> str:
    return time.isoformat() if isinstance(time, datetime) else str(time)
