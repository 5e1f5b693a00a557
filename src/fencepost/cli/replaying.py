"""A Monitor that is given the rows of a file, some at a time."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import count
from fencepost.cli.binding import BoundRules
from fencepost.cli.data import DataFile
from fencepost.cli.output import note
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.monitor.pieces import sort_rows
from fencepost.watching.clock import Clock

if TYPE_CHECKING:
    from fencepost.book import Progress


_ROWS_AT_ONCE = 100_000


def find_roles(data: DataFile, object: str | None, time: str | None, sequence: list[str] | None) -> list[str | None]:
    """The file's own names of the columns that name and order rows; refused before any rule is read."""
    named: list[str | None] = []
    for name in (object, time, *(sequence or ())):
        own = None if name is None else data.find(name)
        if name is not None and own is None:
            raise FencepostError(
                f"{data.path} without the column {name}",
                f"one of {', '.join(data.schema.names)}",
                "Correct --object, --time or --sequence.",
            )
        named.append(own)
    if named[1] is not None and not (data.is_text and pa.types.is_string(data.schema.field(named[1]).type)):
        Clock(named[1], None).type_for(data.schema.field(named[1]).type)
    return named


def make_monitor(
    bound: BoundRules,
    object: str,
    time: str | None,
    sequence: list[str] | None,
    timeout: timedelta | int | None = None,
) -> Monitor:
    """A monitor over columns that the file has."""
    named = find_roles(bound.data, object, time, sequence)
    order = [str(name) for name in named[2:]]
    return Monitor(bound.snapshot, object=str(named[0]), time=named[1], sequence=order, timeout=timeout)


def replay(monitor: Monitor, bound: BoundRules, report: "Progress", *, sort: bool = False) -> Iterator[Any]:
    """The events of the file, batch by batch; with `sort`, in the order of time and sequence, which takes memory."""
    for table in _sorted(monitor, bound, report) if sort else bound.batches(report, "watching"):
        yield from monitor.update_pieces(table)


def is_in_order(monitor: Monitor, bound: BoundRules, report: "Progress") -> bool:
    """Whether the rows of the file are in the order of time and sequence; those without a time do not count."""
    order = _order(monitor)
    last: Any = None
    for table in bound.batches(report, "looking at the order"):
        times = table.select(order).filter(pc.is_valid(table[order[0]]))
        times = times if last is None else pa.concat_tables([last, times], promote_options="permissive")
        places = np.asarray(sort_rows(times, order))
        if (places[1:] < places[:-1]).any():  # it is stable, so rows that are in order stay where they are
            return False
        last = times.slice(max(0, len(times) - 1))
    return True


def _sorted(monitor: Monitor, bound: BoundRules, report: "Progress") -> Iterator[Any]:
    tables = list(bound.batches(report, "reading"))
    whole = pa.concat_tables(tables, promote_options="default")
    places = sort_rows(whole, _order(monitor))
    for start in range(0, len(whole), _ROWS_AT_ONCE):
        yield whole.take(places.slice(start, _ROWS_AT_ONCE))
        report("watching", start, len(whole))


def _order(monitor: Monitor) -> list[str]:
    return [str(monitor.time), *monitor.sequence]


def note_ignored(monitor: Monitor, bound: BoundRules) -> None:
    """Say which rules and rows were ignored, if any."""
    late, empty, rows = (monitor.counters[name] for name in ("late", "null", "rows"))
    if bound.snapshot.bands is not None:
        note(f"ignored {count(len(bound.snapshot.bands.rules), 'rule')} about two streams: one file has one stream")
    if late:
        note(
            f"ignored {late:,} of {count(rows, 'row')}: older than the last row of their object; sort the file by time"
        )
    if empty:
        note(f"ignored {empty:,} of {count(rows, 'row')}: without an object, a time or any value")
