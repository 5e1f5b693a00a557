"""`fencepost match`: which rules hold for each row of a file."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost._text import count
from fencepost.cli.options import DEFAULT_BOOK, Book, DataPath, Directory, Json, Types
from fencepost.cli.output import print_done, progress


def match(
    file: DataPath,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write to this *.jsonl, *.csv or *.parquet file.")
    ] = None,
    only_matches: Annotated[
        bool, typer.Option("--only-matches", help="Leave out rows for which no rule holds.")
    ] = False,
    type: Types = None,
    rules: Directory = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Print every row of a file with the ids of its rules.

    The column rule_ids lists the rules that hold for the row. Rows are printed as JSON lines unless --out names a file;
    then the number of rows and matches is printed, with --json as JSON.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from fencepost.cli.binding import bind_rules
    from fencepost.cli.data import RowWriter, open_data
    from fencepost.errors import FencepostError

    rows = matches = 0
    data = open_data(file)
    with progress() as report:
        bound = bind_rules(book, rules, data, type, report)
        with RowWriter(out) as writer:
            for table in bound.batches(report, "matching"):
                if "rule_ids" in table.column_names:
                    raise FencepostError(
                        f"{file} with a column rule_ids",
                        "that name free for the answer",
                        "Rename or remove the column.",
                    )
                for first, found in bound.snapshot.match_pieces(table):
                    ids = pa.LargeListArray.from_arrays(pa.array(found.offsets), pa.array(found.ids))
                    rows, matches = rows + len(found), matches + len(found.ids)
                    answered = table.slice(first, len(found)).append_column("rule_ids", ids)
                    if only_matches:
                        answered = answered.filter(pc.greater(pc.list_value_length(ids), 0))
                    writer.write(answered)
    if out is not None:
        text = f"{count(matches, 'match')} of {count(rows, 'row')} written to {out}"
        print_done(as_json, {"rows": rows, "matches": matches, "file": str(out)}, text)
