"""Options that several commands share."""

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


def open_book(url: str, author: str | None = None, *, create: bool = False, zone: str | None = None) -> "RuleBook":
    """The book at an address; only commands that add rules create one."""
    from fencepost.book import RuleBook

    return RuleBook(url, author=author, create=create, zone=zone)


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


def read_pairs(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """The values of a repeatable option such as `--label team=desk`, as a mapping."""
    values = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise FencepostError(f"{option} {each}", "a name, an equals sign and a value", f"Write {option} {example}.")
        values[name] = value
    return values
