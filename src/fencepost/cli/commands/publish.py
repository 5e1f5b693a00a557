"""`fencepost publish`: the rules of the book as the next version of a directory."""

from datetime import timedelta
from typing import Annotated

import typer

from fencepost.cli.options import DEFAULT_BOOK, Book, Json, Types, named_values, opened
from fencepost.cli.output import note, print_json, progress


def publish(
    directory: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Where streams follow the rules: a path, or a URL like s3://bucket/rules."),
    ],
    type: Types = None,
    shards: Annotated[
        int | None,
        typer.Option("--shards", metavar="K", help="Also write K parts, for rules that a Spark worker cannot hold."),
    ] = None,
    keep_days: Annotated[
        float, typer.Option("--keep-days", min=0, max=36_500, help="How long unused versions stay.")
    ] = 7.0,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Publish the rules: everything the first time, later only what changed.

    The first version fixes the columns and their types; --type names them, also those that no rule uses yet. It also
    fixes the number of parts.
    """
    schema = named_values(type, "--type", "price=double") or None
    with opened(book) as rules, progress() as report:
        number = rules.publish(directory, schema, keep=timedelta(days=keep_days), progress=report, shards=shards)
    if as_json:
        print_json({"version": number, "directory": directory})
    else:
        note(f"published version {number} to {directory}")
