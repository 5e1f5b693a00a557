"""The watch over a file: a Monitor that is given its rows, some at a time."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fencepost.cli.asking import Asked
from fencepost.cli.output import note
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor

if TYPE_CHECKING:
    from fencepost.book import Progress


def watcher(asked: Asked, object: str, time: str | None, sequence: list[str] | None) -> Monitor:
    """A monitor whose columns the file has."""
    named = []
    for name in (object, time, *(sequence or ())):
        own = None if name is None else asked.data.find(name)
        if name is not None and own is None:
            raise FencepostError(
                f"{asked.data.path} without the column {name}",
                f"one of {', '.join(asked.data.schema.names)}",
                "Correct --object, --time or --sequence.",
            )
        named.append(own)
    return Monitor(asked.snapshot, object=str(named[0]), time=named[1], sequence=[str(name) for name in named[2:]])


def watch_file(monitor: Monitor, asked: Asked, report: "Progress") -> Iterator[Any]:
    """The events of each part of the file."""
    for table in asked.batches(report, "watching"):
        yield monitor.update(table)


def tell_counters(monitor: Monitor, asked: Asked) -> None:
    """What did not count, if anything."""
    counters = monitor.counters
    if asked.snapshot.bands is not None:
        note(f"{len(asked.snapshot.bands.rules):,} rules about two streams were left out: one file has one stream")
    if counters["late"]:
        note(f"{counters['late']:,} of {counters['rows']:,} rows were older than their object's last: sort by time")
    if counters["null"]:
        note(f"{counters['null']:,} of {counters['rows']:,} rows had no object, no time or no value")
