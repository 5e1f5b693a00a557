"""A Monitor that is given the rows of a file, some at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fencepost._text import count
from fencepost.cli.binding import BoundRules
from fencepost.cli.output import note
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor

if TYPE_CHECKING:
    from fencepost.book import Progress


def make_monitor(bound: BoundRules, object: str, time: str | None, sequence: list[str] | None) -> Monitor:
    """A monitor over columns that the file has."""
    named = []
    for name in (object, time, *(sequence or ())):
        own = None if name is None else bound.data.find(name)
        if name is not None and own is None:
            raise FencepostError(
                f"{bound.data.path} without the column {name}",
                f"one of {', '.join(bound.data.schema.names)}",
                "Correct --object, --time or --sequence.",
            )
        named.append(own)
    return Monitor(bound.snapshot, object=str(named[0]), time=named[1], sequence=[str(name) for name in named[2:]])


def replay(monitor: Monitor, bound: BoundRules, report: "Progress") -> Iterator[Any]:
    """The events of the file, batch by batch."""
    for table in bound.batches(report, "watching"):
        yield monitor.update(table)


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
