"""`fencepost publish`: the rules of the book as the next version of a directory."""

from datetime import timedelta
from typing import Annotated

import typer

from fencepost.cli.options import DEFAULT_BOOK, Book, Json, Types, open_book, read_pairs
from fencepost.cli.output import print_done, progress


def publish(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="The directory that streams follow: a path, or a URL like s3://bucket/rules."
        ),
    ],
    type: Types = None,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", metavar="K", help="Also write K shards, for rule sets too large for one Spark worker."
        ),
    ] = None,
    keep_days: Annotated[
        float,
        typer.Option("--keep-days", min=0, max=36_500, help="Delete versions that nobody has used for this long."),
    ] = 7.0,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Publish the rules of the book as a new version.

    The first version writes all rules, later ones only changes. The first version fixes the columns, their types and
    the number of shards; use --type to declare columns that no rule uses yet.
    """
    schema = read_pairs(type, "--type", "price=double") or None
    with open_book(book) as rules, progress() as report:
        number = rules.publish(directory, schema, keep=timedelta(days=keep_days), progress=report, shards=shards)
    print_done(as_json, {"version": number, "directory": directory}, f"published version {number} to {directory}")
