"""`fencepost backtest`: how often would the rules have told something, when, and of whom?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.options import DEFAULT_BOOK, Book, Directory, Json, Types
from fencepost.cli.output import note, print_json, print_table, progress

if TYPE_CHECKING:
    from fencepost.cli.tally import Fired

_SPARK = 24
_KINDS = ("inside", "enter", "exit", "cross")
_HEADERS = ("rule", "events", *_KINDS, "objects", "mostly", "first", "last", "when", "condition")


def backtest(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="*.jsonl, *.csv or *.parquet, or a directory of them.")],
    object: Annotated[str, typer.Option("--object", metavar="COLUMN", help="The column that names what moves.")],
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column of event time.")],
    sequence: Annotated[
        list[str] | None, typer.Option("--sequence", metavar="COLUMN", help="Orders rows of equal time.")
    ] = None,
    rule: Annotated[
        list[int] | None, typer.Option("--rule", metavar="ID", help="Only this rule; may be repeated.")
    ] = None,
    condition: Annotated[
        str | None, typer.Option("--condition", help="A rule that is in no book yet, as rule 0, in place of the book.")
    ] = None,
    detect: Annotated[str, typer.Option("--detect", help="What that rule tells.")] = "enter,exit",
    top: Annotated[int, typer.Option("--top", min=0, help="Show so many rules; 0 for all that told something.")] = 20,
    events: Annotated[
        Path | None, typer.Option("--events", metavar="FILE", help="Write the events: *.jsonl, *.csv, *.parquet.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw them: *.svg, *.png.")] = None,
    type: Types = None,
    rules: Directory = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Run the watch over historical rows: how often would each rule have told something, when, and of whom?"""
    from contextlib import nullcontext

    from fencepost.cli.asking import ask
    from fencepost.cli.data import RowsOut, open_data
    from fencepost.cli.tally import Tally, draw
    from fencepost.cli.watching import tell_counters, watch_file, watcher
    from fencepost.rules import Rules

    tried = None
    if condition is not None:
        tried = Rules()
        tried.add(0, condition, detect=detect)
    tally = Tally()
    with progress() as report:
        asked = ask(book, rules, open_data(file), type, report, rule or (), tried, time)
        monitor = watcher(asked, object, time, sequence)
        with nullcontext(None) if events is None else RowsOut(events) as written:
            for found in watch_file(monitor, asked, report):
                tally.add(found)
                if written is not None:
                    written.write(found)
    fired = tally.fired()
    shown = fired[: top or None]
    if plot is not None:
        draw(tally, shown, plot)
    conditions = _conditions(asked.snapshot, shown)
    if as_json:
        counted = [{**each._asdict(), "condition": conditions[each.rule_id]} for each in shown]
        print_json({**monitor.counters, "rules": counted, "over_time": tally.histogram()})
        return
    tell_counters(monitor, asked)
    print_table(_HEADERS, [_row(each, tally.histogram(each.rule_id, _SPARK), conditions) for each in shown])
    silent = len(asked.snapshot) - len(fired)
    rows = monitor.counters["rows"]
    note(f"{len(fired):,} rules told something in {rows:,} rows, {silent:,} nothing; {len(shown):,} are shown")


def _row(fired: "Fired", counts: list[int], conditions: dict[int, str | None]) -> list[Any]:
    from fencepost.cli.tally import sparkline

    kinds = fired.events
    return [
        fired.rule_id,
        sum(kinds.values()),
        *(kinds[kind] or "" for kind in _KINDS),
        fired.objects,
        ", ".join(map(str, fired.most)),
        fired.first,
        fired.last,
        sparkline(counts),
        conditions[fired.rule_id],
    ]


def _conditions(snapshot: Any, shown: "list[Fired]") -> dict[int, str | None]:
    import numpy as np

    ids = [each.rule_id for each in shown]
    rows = snapshot.rows_of(np.array(ids, np.int64)).tolist()
    return {id: snapshot.rules.conditions[row].as_py() if row >= 0 else None for id, row in zip(ids, rows, strict=True)}
