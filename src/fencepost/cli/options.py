"""Options that several commands share."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from datetime import timedelta

    from fencepost.book import RuleBook

Book = Annotated[
    str,
    typer.Option(
        "--book",
        envvar="FENCEPOST_BOOK",
        metavar="URL",
        help="The rule book: sqlite:///FILE or postgresql://USER@HOST/DB.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Author = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Record this author instead of the user's name.")
]
Expect = Annotated[
    int | None, typer.Option("--expect", metavar="VERSION", help="Refuse unless the rule is still in this version.")
]
Directory = Annotated[
    str | None,
    typer.Option("--rules", metavar="DIR", help="Use the newest version published here, a path or a URL."),
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="COLUMN=TYPE", help="The type of a column, e.g. price=decimal(9,2). Repeatable."),
]
DataPath = Annotated[
    Path, typer.Argument(metavar="FILE", help="Rows: *.jsonl, *.csv or *.parquet, or a directory of such files.")
]

Zone = Annotated[
    str | None,
    typer.Option(
        "--zone", metavar="ZONE", help="Make the book with this time zone, e.g. America/New_York (UTC by default)."
    ),
]

Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", metavar="LENGTH", help='How long an object may be silent: "10 minutes", or a number of the time.'
    ),
]

DEFAULT_BOOK = "sqlite:///fencepost.db"


def open_book(url: str, author: str | None = None) -> "RuleBook":
    """The book at an address; only commands that add rules create one, with `make_book`."""
    from fencepost.book import RuleBook

    return RuleBook(url, author=author, create=False)


@contextmanager
def make_book(
    url: str, author: str | None = None, zone: str | None = None, *, at_once: bool = False
) -> "Iterator[RuleBook]":
    """The book at an address, made where there is none: its file appears `at_once`, or if the block ends well."""
    from sqlalchemy import URL

    from fencepost._files.whole import draft_beside, sync
    from fencepost.book import RuleBook

    file = None if at_once else _missing_file(url)
    if file is None:
        with RuleBook(url, author=author, zone=zone) as book:
            yield book
        return
    with draft_beside(file, made_by_writer=True) as draft:  # SQLite locks it
        with RuleBook(str(URL.create("sqlite", database=str(draft))), author=author, zone=zone) as book:
            yield book
        try:
            os.link(draft, file)  # which replaces no file, as a rename would
        except FileExistsError:
            raise FencepostError(
                f"{file}, which another process has made meanwhile", "a book that is not there yet", "Try again."
            ) from None
        except OSError:  # a file system without links
            draft.rename(file)
        sync(file.parent)


def _missing_file(url: str) -> Path | None:
    """The file of a book of SQLite that is not there, in a directory that is; None for all other books."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        return None
    name = parsed.database or ":memory:"
    if parsed.get_backend_name() != "sqlite" or parsed.query or name.startswith(("file:", ":")):
        return None
    file = Path(name)
    return file if not os.path.lexists(file) and os.access(file.parent, os.W_OK) else None


def read_key(text: str) -> Any:
    """What a rule is called by: an integer is its id, anything else its name."""
    try:
        return int(text)
    except ValueError:
        return text


def read_timeout(text: str | None) -> "timedelta | int | None":
    """The value of --timeout."""
    from fencepost.rules.durations import parse_duration

    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() else parse_duration(text)
