"""A source over a rule book and a Monitor in this process: rows go in, events come out, pages look on."""

import threading
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from fencepost.book import RuleBook
from fencepost.console.book_rules import BookRules
from fencepost.console.objects import MonitorObjects
from fencepost.console.recorder import Recorder
from fencepost.console.rows import RecentRows
from fencepost.console.source import Figure, Missing, Overview, RowsPart, VersionsPart
from fencepost.console.versions import BookVersions
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor


class EngineSource:
    """A book, a monitor over it, and what they do.

    Args:
        book: the rules.
        monitor: a monitor over that book.
        directory: where versions are published; without one there are none.
        title: what pages are headed with.

    >>> import tempfile
    >>> book = RuleBook(f"sqlite:///{tempfile.mkdtemp()}/rules.db", author="ann")
    >>> rule = book.add(1, "price > 40", detect="enter,exit")
    >>> from fencepost.console.source import EventFilter
    >>> source = EngineSource(book, Monitor(book, object="symbol"))
    >>> source.take({"symbol": ["IBM"], "price": [41.5]}).num_rows
    1
    >>> [seen.fields["object"] for seen in source.events.last(10, EventFilter())]
    ['IBM']
    >>> book.close()
    """

    def __init__(
        self, book: RuleBook, monitor: Monitor, directory: Any = None, *, title: str = "fencepost", about: str = ""
    ) -> None:
        self.title = title
        self.about = about or "An engine in this process"
        self._book, self._monitor = book, monitor
        self._taking = threading.Lock()
        self.events = Recorder()
        self._recent = RecentRows(monitor.object, monitor.time)
        self.rows: RowsPart | Missing = self._recent
        self.rules = BookRules(book, lambda values: monitor.rules_at(**values), self.refresh)
        self.objects = MonitorObjects(lambda: monitor, self._recent.trail)
        self.versions: VersionsPart | Missing = Missing("This engine follows its rule book; nothing is published.")
        if directory is not None:
            self.versions = BookVersions(book, directory)

    def take(self, rows: Any) -> Any:
        """Take a batch of rows; the events they cause."""
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        with self._taking:
            started = time.monotonic()
            events = self._monitor.update(table)
            self._recent.record(table)
            self.events.record(events, table.num_rows, time.monotonic() - started)
        return events

    def refresh(self) -> None:
        """Let changes of the book take effect."""
        with self._taking:
            self.events.record(self._monitor.refresh())

    def overview(self) -> Overview:
        """How things are now."""
        counters = self._monitor.counters
        rows_per_second, events_per_second = self.events.rates()
        rows, events, latency = self.events.series()
        figures = [
            Figure("Rows per second", f"{rows_per_second:,.0f}", f"{counters['rows']:,} in all"),
            Figure("Events per second", f"{events_per_second:,.1f}", f"{sum(counters['events'].values()):,} in all"),
            Figure("From row to event", show_seconds(self.events.latency().get("p99")), "99 of 100 are faster"),
            Figure("Late rows", f"{counters['late']:,}", "older than the last row of their object"),
            Figure("Waiting", f"{counters['pending'] + counters['ending']:,}", "enters and exits that are held back"),
        ]
        facts = [
            ("Rules in force", f"{len(self._monitor.rules):,}"),
            ("Objects", f"{self.objects.count():,}"),
            ("Rows without a value", f"{counters['null']:,}"),
            ("Rule book", self._book.url),
        ]
        return Overview("running", figures, rows, events, latency, facts)

    def why(self, event: Mapping[str, Any]) -> Any:
        """The rule behind an event."""
        try:
            return self._monitor.why(event)
        except FencepostError as error:
            return Missing(str(error))


def show_seconds(seconds: float | None) -> str:
    """A short time."""
    if seconds is None:
        return "\u2013"
    return f"{seconds * 1000:,.1f} ms" if seconds < 1 else f"{seconds:,.1f} s"
