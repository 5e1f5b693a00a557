"""`fencepost verify`: compares the answers of the index with brute force."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost._text import count
from fencepost.cli.options import DEFAULT_BOOK, Book, DataPath, Json, Timeout, Types, read_timeout
from fencepost.cli.output import print_done, progress
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.book import Progress
    from fencepost.cli.binding import BoundRules


def verify(
    file: DataPath,
    sample: Annotated[int, typer.Option("--sample", min=1, help="Compare this many rows with every rule.")] = 1000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Choose another sample.")] = 0,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="PATH", help="Check these events of a run over the file.")
    ] = None,
    object: Annotated[
        str | None, typer.Option("--object", metavar="COLUMN", help="The object column of the run.")
    ] = None,
    time: Annotated[str | None, typer.Option("--time", metavar="COLUMN", help="The time column of the run.")] = None,
    sequence: Annotated[
        list[str] | None, typer.Option("--sequence", metavar="COLUMN", help="A sequence column of the run.")
    ] = None,
    timeout: Timeout = None,
    type: Types = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Check the index, or a recorded run, against brute force.

    Without --events, a sample of rows is matched, and every rule of the book is compared with each of them. With
    --events, the run is computed again: every event id must be there once, and the enters, exits and insides of a
    sample of objects are found again by comparing every rule with each of their rows. Rules that expire, and damped
    ones that detect cross, are compared by their ids alone; it says how many. Exit code 1 if anything differs.
    """
    from fencepost.cli.binding import bind_rules
    from fencepost.cli.data import open_data
    from fencepost.cli.recorded_run import check_run, open_recorded
    from fencepost.cli.replaying import find_roles

    if events is not None and (object is None or time is None):
        raise typer.BadParameter("--events needs --object and --time, as the run had them")
    silent = read_timeout(timeout)
    with progress() as report:
        data = open_data(file)
        if object is not None or time is not None or sequence:
            find_roles(data, object, time, sequence)
        if events is not None:
            open_recorded(events)
        bound = bind_rules(book, None, data, type, report, time=time)
        if events is None or object is None or time is None:
            checked = _check_rows(bound, sample, seed, report)
        else:
            checked = check_run(bound, events, object, time, sequence, sample, seed, report, silent)
    counts = ", ".join(_count_words(number, name) for name, number in checked.items())
    print_done(as_json, checked, f"{counts}: no difference from brute force")


def _count_words(number: int, name: str) -> str:
    """A count by its name in JSON, such as `rows compared`."""
    noun, blank, rest = name.partition(" ")
    return count(number, noun.removesuffix("es" if noun == "matches" else "s")) + blank + rest


def _check_rows(bound: "BoundRules", sample: int, seed: int, report: "Progress") -> dict[str, int]:
    from fencepost.snapshot import BruteForce

    rows, seen = _sample(bound, sample, seed, report)
    brute_force = BruteForce(bound.columns())
    matches = checked = 0
    for part in rows:
        found = bound.snapshot.match(part).sets()
        for place in range(part.num_rows):
            expected = brute_force.holding(part.slice(place, 1))[0]
            if found[place] != expected:
                raise FencepostError(
                    f"rules {sorted(found[place])} for the row {part.slice(place, 1).to_pylist()[0]}",
                    f"{sorted(expected)}, by comparing every rule",
                    "Please report this: the answer of the index is wrong.",
                )
            matches += len(expected)
            checked += 1
            report("comparing", checked, min(sample, seen))
    return {"rows": checked, "matches": matches, "rules": len(bound.snapshot)}


def _sample(bound: "BoundRules", sample: int, seed: int, report: "Progress") -> tuple[list[Any], int]:
    """Rows from all over the file, each as likely as any other, and how many rows the file has."""
    import numpy as np

    rng = np.random.default_rng(seed)
    parts: list[Any] = []
    marks: list[Any] = []
    seen, limit = 0, 1.0
    for table in bound.batches(report, "sampling"):
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
