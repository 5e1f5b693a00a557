"""`fencepost backtest`: how often would each rule have fired, when, and for which objects?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost._text import count
from fencepost.cli.options import (
    DEFAULT_BOOK,
    Book,
    DataPath,
    Directory,
    Json,
    Timeout,
    Types,
    read_key,
    read_timeout,
)
from fencepost.cli.output import note, print_json, print_table, progress
from fencepost.cli.rule_options import damping_options, with_options

if TYPE_CHECKING:
    from fencepost.monitor.tally import Fired

_SPARK = 24
_KINDS = ("inside", "enter", "exit", "cross", "silent")
_SPARE = ("mostly", "last", "first", *_KINDS, "objects", "name")
_HEADERS = ("rule", "name", "events", *_KINDS, "objects", "mostly", "first", "last", "when", "condition")


@with_options(damping_options, after="detect")
def backtest(
    file: DataPath,
    options: dict[str, Any],
    object: Annotated[str, typer.Option("--object", metavar="COLUMN", help="The column that names the object.")],
    time: Annotated[str, typer.Option("--time", metavar="COLUMN", help="The column of event time.")],
    sequence: Annotated[
        list[str] | None, typer.Option("--sequence", metavar="COLUMN", help="Order rows of equal time by this column.")
    ] = None,
    rule: Annotated[
        list[Any] | None,
        typer.Option(
            "--rule", metavar="ID", parser=read_key, help="Evaluate only this rule, by id or name. Repeatable."
        ),
    ] = None,
    condition: Annotated[
        str | None,
        typer.Option("--condition", metavar="SQL", help="Evaluate this condition, as rule 0, instead of the book."),
    ] = None,
    detect: Annotated[str, typer.Option("--detect", help="The events of that rule 0.")] = "enter,exit",
    top: Annotated[int, typer.Option("--top", min=0, help="Show at most this many rules; 0 shows all.")] = 20,
    events: Annotated[
        Path | None,
        typer.Option("--events", metavar="FILE", help="Write the events to this *.jsonl, *.csv or *.parquet file."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw the events to this *.svg or *.png file; with one --rule, an episode of it.",
        ),
    ] = None,
    timeout: Timeout = None,
    type: Types = None,
    rules: Directory = None,
    book: Book = DEFAULT_BOOK,
    as_json: Json = False,
) -> None:
    """Replay a file and report how often each rule would have fired, when, and for which objects.

    A file that is not in the order of time is sorted first, in memory. --for and the other options of damping are those
    of rule 0.
    """
    from contextlib import nullcontext

    from fencepost.cli.binding import bind_rules
    from fencepost.cli.data import RowWriter, open_data
    from fencepost.cli.replaying import find_roles, is_in_order, make_monitor, note_ignored, replay
    from fencepost.cli.tally import draw, draw_episode
    from fencepost.monitor.tally import Tally
    from fencepost.rules import Rules

    tried = None
    if condition is not None:
        tried = Rules()
        tried.add(0, condition, detect=detect, **options)
    elif any(value is not None for value in options.values()):
        raise typer.BadParameter("--for and the like belong to --condition; rules of a book have their own")
    tally, silent = Tally(), read_timeout(timeout)
    with progress() as report:
        data = open_data(file)
        find_roles(data, object, time, sequence)
        bound = bind_rules(book, rules, data, type, report, rule or (), tried, time)
        monitor = make_monitor(bound, object, time, sequence, silent)
        is_alone = plot is not None and len(set(rule or ()) or (tried or ())) == 1
        is_alone = is_alone and _has_ranges_alone(bound.snapshot)
        with nullcontext(None) if events is None else RowWriter(events) as writer:
            in_order = is_in_order(monitor, bound, report)
            for found in replay(monitor, bound, report, sort=not in_order):
                tally.add(found, whole=is_alone)
                if writer is not None:
                    writer.write(found)
    fired = tally.fired()
    shown = fired[: top or None]
    if plot is not None and is_alone and monitor.counters["rows"] > monitor.counters["null"]:
        draw_episode(tally, bound, monitor, plot)
    elif plot is not None:
        draw(tally, len(shown), plot)
    told = _told(bound.snapshot, shown)
    if as_json:
        counted = [
            {**each._asdict(), "name": name, "condition": condition}
            for each, (name, condition) in zip(shown, told, strict=True)
        ]
        print_json({**monitor.counters, "sorted": not in_order, "rules": counted, "over_time": tally.histogram()})
        return
    if not in_order:
        order = " and ".join([time, *(sequence or ())])
        note(f"sorted {count(monitor.counters['rows'], 'row')} by {order}: {file} is in another order")
    note_ignored(monitor, bound)
    rows_shown = [
        _row(each, tally.histogram(each.rule_id, _SPARK), *texts) for each, texts in zip(shown, told, strict=True)
    ]
    print_table(_HEADERS, rows_shown, spare=_SPARE)
    rules_there, rows = count(len(bound.snapshot), "rule"), count(monitor.counters["rows"], "row")
    hidden = f"; the first {len(shown):,} are shown" if len(shown) < len(fired) else ""
    note(f"{len(fired):,} of {rules_there} fired in {rows}{hidden}")


def _has_ranges_alone(snapshot: Any) -> bool:
    """Whether rules ask for ranges of columns, and for nothing that is computed: those can be drawn."""
    parts = [snapshot] if snapshot.stay is None else [snapshot, snapshot.stay]
    return bool(snapshot.attributes) and not any(part.computed for part in parts)


def _row(fired: "Fired", counts: list[int], name: str | None, condition: str | None) -> list[Any]:
    from fencepost.monitor.tally import sparkline

    kinds = fired.events
    return [
        fired.rule_id,
        name,
        sum(kinds.values()),
        *(kinds[kind] or "" for kind in _KINDS),
        fired.objects,
        ", ".join(map(str, fired.most)),
        fired.first,
        fired.last,
        sparkline(counts),
        condition,
    ]


def _told(snapshot: Any, shown: "list[Fired]") -> list[tuple[str | None, str | None]]:
    """The name and the condition of each of these rules."""
    import numpy as np

    rows = snapshot.rows_of(np.array([each.rule_id for each in shown], np.int64)).tolist()
    rules = snapshot.rules
    return [(rules.names[row].as_py(), rules.conditions[row].as_py()) if row >= 0 else (None, None) for row in rows]
