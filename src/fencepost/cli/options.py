"""Options that several commands share."""

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.book import RuleBook

Book = Annotated[
    str,
    typer.Option("--book", envvar="FENCEPOST_BOOK", metavar="URL", help="sqlite:///FILE or postgresql://USER@HOST/DB."),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Author = Annotated[str | None, typer.Option("--author", help="Who makes the change, if not the user.")]
Expect = Annotated[
    int | None, typer.Option("--expect", metavar="VERSION", help="Refuse if the rule is no longer in this version.")
]
Directory = Annotated[
    str | None, typer.Option("--rules", metavar="DIR", help="A path or URL: take the newest version published there.")
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="COLUMN=TYPE", help="The type of a column, such as price=decimal(9,2)."),
]

DEFAULT_BOOK = "sqlite:///fencepost.db"


def opened(url: str, author: str | None = None, *, create: bool = False) -> "RuleBook":
    """The book of an address; only what adds rules makes one."""
    from fencepost.book import RuleBook

    return RuleBook(url, author=author, create=create)


def named_values(given: list[str] | None, option: str, example: str) -> dict[str, str]:
    """Options such as `--label team=desk`, as a mapping."""
    values = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise FencepostError(f"{option} {each}", "a name, an equals sign and a value", f"Write {option} {example}.")
        values[name] = value
    return values
