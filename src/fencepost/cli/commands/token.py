"""`fencepost token`: who may call a service."""

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.options import Book, Json
from fencepost.cli.output import note, print_json, print_table, print_text

if TYPE_CHECKING:
    from fencepost.book.tokens import Token, Tokens

app = typer.Typer(help="Make, list and revoke the tokens of a service.", no_args_is_help=True)

_BOOK = "sqlite:///fencepost-data/book.db"


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is; changes made with it have this author.")],
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help="read, write, publish or admin, which allows all. Repeatable; read by default."),
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="TIME", help="End it at this time, e.g. 2030-01-01 (UTC).")
    ] = None,
    book: Book = _BOOK,
    as_json: Json = False,
) -> None:
    """Make a token and print it. It is shown this once: the book keeps only a digest."""
    from fencepost.rules.rule import checked_instant

    with _open(book) as tokens:
        text, token = tokens.create(name, scope or ["read"], checked_instant(expires, "expires"))
    if as_json:
        print_json({"token": text, **_shown(token)})
        return
    print_text(text)
    note(f"token {token.id} of {token.name}, which allows {', '.join(token.scopes)}")


@app.command("list")
def list_tokens(book: Book = _BOOK, as_json: Json = False) -> None:
    """List all tokens, also those that have ended."""
    with _open(book) as tokens:
        found = tokens.list()
    if as_json:
        print_json([_shown(token) for token in found])
        return
    headers = ("id", "name", "scopes", "made", "expires", "state")
    print_table(headers, [[_shown(token)[header] for header in headers] for token in found])


@app.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the token, or the token itself.")],
    book: Book = _BOOK,
    as_json: Json = False,
) -> None:
    """End a token. A running service takes it for at most two seconds more."""
    with _open(book) as tokens:
        token = tokens.revoke(id)
    if as_json:
        print_json(_shown(token))
    else:
        note(f"revoked token {token.id} of {token.name}")


def _open(book: str) -> "Tokens":
    from fencepost.book.tokens import Tokens

    return Tokens(book, create=False)


def _shown(token: "Token") -> dict[str, object]:
    state = "valid" if token.is_valid() else "revoked" if token.revoked is not None else "expired"
    return {
        "id": token.id,
        "name": token.name,
        "scopes": ",".join(token.scopes),
        "made": f"{token.made:%Y-%m-%d %H:%M:%S}",
        "expires": None if token.expires is None else f"{token.expires:%Y-%m-%d %H:%M:%S}",
        "state": state,
    }
