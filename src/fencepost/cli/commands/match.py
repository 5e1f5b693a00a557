"""`fencepost match`: which rules hold for each row of a file."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.options import DEFAULT_BOOK, Book, Directory, Json, Types
from fencepost.cli.output import note, print_json, progress


def match(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet, or a directory of them.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="*.jsonl, *.csv or *.parquet; else JSON lines.")
    ] = None,
    only_matches: Annotated[bool, typer.Option("--only-matches", help="Leave out rows without any rule.")] = False,
    type: Types = None,
    rules: Directory = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Write every row of a file with `rule_ids`, the rules that hold for it.

    Rows go to standard output as JSON lines, or to --out; --json then tells how many there were.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from fencepost.cli.asking import ask
    from fencepost.cli.data import RowsOut, open_data
    from fencepost.errors import FencepostError

    rows = matches = 0
    data = open_data(file)
    with progress() as report:
        asked = ask(book, rules, data, type, report)
        with RowsOut(out) as written:
            for table in asked.batches(report, "matching"):
                if "rule_ids" in table.column_names:
                    raise FencepostError(
                        f"{file} with a column rule_ids",
                        "that name free for the answer",
                        "Rename or remove the column.",
                    )
                found = asked.snapshot.match(table)
                ids = pa.LargeListArray.from_arrays(pa.array(found.offsets), pa.array(found.ids))
                rows, matches = rows + table.num_rows, matches + len(found.ids)
                told = table.append_column("rule_ids", ids)
                if only_matches:
                    told = told.filter(pc.greater(pc.list_value_length(ids), 0))
                written.write(told)
    if out is not None and as_json:
        print_json({"rows": rows, "matches": matches, "file": str(out)})
    elif out is not None:
        note(f"{matches:,} matches of {rows:,} rows written to {out}")
