"""`fencepost publish`: the rules of the book as the next version of a directory."""

from datetime import timedelta
from typing import Annotated

import typer

from fencepost.cli.options import DEFAULT_BOOK, Book, Json, Types, open_book
from fencepost.cli.output import note, print_done, print_json, print_text, progress
from fencepost.rules.table_arguments import read_pairs


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
    strict: Annotated[bool, typer.Option("--strict", help="Publish nothing if any rule is faulty.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and write nothing.")] = False,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Publish the rules of the book as a new version.

    The first version writes all rules, later ones only changes. Rules that are faulty, for example because no column
    has that name, are left out and listed; they count as paused.

    The first version fixes the number of shards. Its columns are those that rules use; use --type for others. A later
    --type adds a column. The type of a column never changes.
    """
    from fencepost.rules.faults import RuleFault, describe_faults

    schema = read_pairs(type, "--type", "price=double") or None
    faults: list[RuleFault] = []
    with open_book(book) as rules, progress() as report:
        if dry_run:
            difference = rules.preview(directory, schema, infer=True, progress=report)
        else:
            number = rules.publish(
                directory,
                schema,
                keep=timedelta(days=keep_days),
                progress=report,
                shards=shards,
                strict=strict,
                infer=True,
                faults=faults,
            )
    if dry_run:
        if as_json:
            print_json(difference)
        else:
            print_text(difference)
        if strict and difference.faulty:
            raise typer.Exit(1)
        return
    if faults and not as_json:
        note(describe_faults(faults))
    print_done(
        as_json,
        {"version": number, "directory": directory, "faults": [fault._asdict() for fault in faults]},
        f"published version {number} to {directory}",
    )
