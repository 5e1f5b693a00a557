"""`fencepost verify`: answers checked against a comparison of every rule with every row."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.options import DEFAULT_BOOK, Book, Json, Types
from fencepost.cli.output import note, print_json, progress
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.book import Progress
    from fencepost.cli.asking import Asked


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet, or a directory of them.")],
    sample: Annotated[int, typer.Option("--sample", min=1, help="How many rows are compared with every rule.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which sample.")] = 0,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="PATH", help="Check a recorded run over the file.")
    ] = None,
    object: Annotated[str | None, typer.Option("--object", metavar="COLUMN", help="As in the run.")] = None,
    time: Annotated[str | None, typer.Option("--time", metavar="COLUMN", help="As in the run.")] = None,
    sequence: Annotated[list[str] | None, typer.Option("--sequence", metavar="COLUMN", help="As in the run.")] = None,
    type: Types = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Check a sample of rows, or a recorded run, against brute force; refused (1) if anything differs.

    Without --events, rules are matched with a sample of the file's rows, and every rule of the book is compared with
    each of them. With --events, the run is computed again, every event id must be there once, and the enters, exits
    and insides of a sample of objects are found again by comparing every rule with each of their rows.
    """
    from fencepost.cli.asking import ask
    from fencepost.cli.data import open_data

    if events is not None and (object is None or time is None):
        raise typer.BadParameter("--events needs --object and --time, as the run had them")
    with progress() as report:
        asked = ask(book, None, open_data(file), type, report, time=time)
        if events is None or object is None or time is None:
            told = _check_rows(asked, sample, seed, report)
        else:
            from fencepost.cli.recorded_run import check_run

            told = check_run(asked, events, object, time, sequence, sample, seed, report)
    if as_json:
        print_json(told)
    else:
        note(", ".join(f"{count:,} {name}" for name, count in told.items()) + ": all as brute force has it")


def _check_rows(asked: "Asked", sample: int, seed: int, report: "Progress") -> dict[str, int]:
    from fencepost.snapshot import BruteForce

    rows, seen = _sample(asked, sample, seed, report)
    assert asked.rules is not None
    brute_force = BruteForce(asked.rules.columns(asked.schema))
    matches = checked = 0
    for part in rows:
        found = asked.snapshot.match(part).sets()
        for place in range(part.num_rows):
            expected = brute_force.holding(part.slice(place, 1))[0]
            if found[place] != expected:
                raise FencepostError(
                    f"rules {sorted(found[place])} for the row {part.slice(place, 1).to_pylist()[0]}",
                    f"{sorted(expected)}, as comparing every rule tells",
                    "Please report this: the answer of the index is wrong.",
                )
            matches += len(expected)
            checked += 1
            report("comparing", checked, min(sample, seen))
    return {"rows": checked, "matches": matches, "rules": len(asked.snapshot)}


def _sample(asked: "Asked", sample: int, seed: int, report: "Progress") -> tuple[list[Any], int]:
    """Rows from all over the file, each as likely as any other."""
    import numpy as np

    rng = np.random.default_rng(seed)
    parts: list[Any] = []
    marks: list[Any] = []
    seen, limit = 0, 1.0
    for table in asked.batches(report, "sampling"):
        drawn = rng.random(table.num_rows)  # the rows with the least numbers of all are the sample
        chosen = np.flatnonzero(drawn <= limit)
        parts.append(table.take(chosen))
        marks.append(drawn[chosen])
        seen += table.num_rows
        together = np.concatenate(marks)
        if len(together) > sample:
            limit = float(np.partition(together, sample - 1)[sample - 1])
            kept = [np.flatnonzero(mark <= limit) for mark in marks]
            parts = [part.take(rows) for part, rows in zip(parts, kept, strict=True)]
            marks = [mark[rows] for mark, rows in zip(marks, kept, strict=True)]
    return [part for part in parts if part.num_rows], seen
