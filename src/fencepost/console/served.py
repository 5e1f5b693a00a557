"""A source over a service: its book, its monitor, and its logs of rows and events."""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fencepost._text import count
from fencepost.console.book_rules import BookRules
from fencepost.console.engine import show_seconds
from fencepost.console.objects import MonitorObjects
from fencepost.console.recorder import Recorder
from fencepost.console.rows import find_trail
from fencepost.console.source import (
    KINDS,
    EventFilter,
    Figure,
    Histogram,
    Missing,
    Overview,
    SeenEvent,
    Series,
    Tail,
    Trail,
    Trial,
)
from fencepost.console.tries import try_rules
from fencepost.console.versions import BookVersions
from fencepost.errors import FencepostError
from fencepost.published.difference import Difference
from fencepost.rules import Rule
from fencepost.service import event_log
from fencepost.service.refusals import MissingError
from fencepost.service.service import Service

_AT_ONCE = 50_000
_REMEMBERED = 100_000
_EXPORTED = 1_000_000
_TRAIL, _TRAIL_CALLS = 100_000, 10_000
"""Rows and calls of the log in which the trail of an object is looked for."""
_TRIED, _TRIED_CALLS = 100_000, 20_000
"""Rows and calls of the log on which a condition is tried while somebody types."""
_SECONDS, _STEP = 300, 5


class ServiceSource:
    """A service that runs in this process.

    Args:
        service: it is open as long as the source is used.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.title = "fencepost"
        self.about = f"A service over {service.settings.data}"
        self.rules = BookRules(
            service.book, lambda values: self._monitor.rules_at(**values), service.settle, service.rules.check
        )
        self.events = ServiceEvents(service)
        self.objects = MonitorObjects(lambda: self._monitor, self._trail)
        self.versions = ServiceVersions(service)
        self.rows = ServiceRows(service)

    @property
    def _monitor(self) -> Any:
        return self._service.engine.watcher.monitor

    def close(self) -> None:
        """End the thread that follows the events."""
        self.events.close()

    def _trail(self, name: str, rows: int) -> Trail | None:
        settings = self._service.settings
        tables = self._service.recent_rows(_TRAIL, _TRAIL_CALLS)
        return find_trail(tables, settings.object, settings.time, name, rows)

    def refresh(self) -> None:
        """Let changed rules be in force."""
        self._service.settle()

    def why(self, event: Mapping[str, Any]) -> Any:
        """The rule behind an event, as it was then."""
        try:
            return self._service.why(str(event["event_id"]))[1]
        except FencepostError as error:
            return Missing(str(error))

    def overview(self) -> Overview:
        """How things are now."""
        service = self._service
        now, totals = service.metrics(), service.samples(_SECONDS + _STEP)
        rows, events, latency = _series(totals)
        last = rows.values["rows"][-1] or 0.0
        happened = sum((row[-1] or 0.0) for row in events.values.values())
        figures = [
            Figure("Rows per second", f"{last:,.0f}", f"{now['rows']:,} since the start"),
            Figure("Events per second", f"{happened:,.1f}", f"{now['last_event']:,} in all"),
            Figure("From row to event", show_seconds(now["latency"]["p99"] or None), "99 of 100 calls are faster"),
            Figure("Late rows", f"{now['late']:,}", "older than the last row of their object"),
            Figure("Held back", f"{now['pending'] + now['ending']:,}", "enters and exits that wait"),
        ]
        facts = [
            ("Rules in force", f"{now['rules']:,}, version {now['version']}"),
            ("Objects", f"{self.objects.count():,}"),
            ("Rows that wait for the engine", f"{now['waiting']:,}"),
            ("Log of rows", f"{now['position']:,} calls, {now['log_bytes'] / 1e6:,.1f} MB"),
            ("Log of events", f"{now['event_bytes'] / 1e6:,.1f} MB"),
        ]
        problem = ""
        failure = service.engine.failure
        if failure is not None:
            problem = f"The engine stopped: {failure}. Start the service again: it goes on where it stopped."
        elif service.fault is not None:
            problem = f"{service.fault.one_line} Rows are taken as before; this is tried again every second."
        elif now["faulty"]:
            problem = (
                f"{count(now['faulty'], 'rule')} of the book cannot be used; look at what publishing would change."
            )
        state = "running" if failure is None else "stopped"
        return Overview(state, figures, rows, events, latency, facts, problem)


def _series(samples: Sequence[Any]) -> tuple[Series, Series, Series | None]:
    """Totals, a line a second, as rates over the last minutes."""
    end = int(samples[-1].at if samples else datetime.now(UTC).timestamp())
    begin, bins = end - _SECONDS, _SECONDS // _STEP
    edges: list[Any] = [None] * (bins + 1)
    for sample in samples:
        place = int(sample.at - begin) // _STEP
        if 0 <= place <= bins:
            edges[place] = sample
    rows: list[float | None] = []
    kinds: dict[str, list[float | None]] = {kind: [] for kind in KINDS}
    ages: dict[str, list[float | None]] = {name: [] for name in ("p50", "p95", "p99")}
    before: Any = None
    for after in edges[:bins]:
        is_known = before is not None and after is not None
        seconds = after.at - before.at if is_known else 1.0
        rows.append((after.rows - before.rows) / seconds if is_known else 0.0)
        for kind, row in kinds.items():
            more = after.events.get(kind, 0) - before.events.get(kind, 0) if is_known else 0
            row.append(more / seconds)
        for name, row in ages.items():
            row.append(getattr(after, name) or None if is_known else None)
        before = after if after is not None else before
    ends = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(end, UTC)
    seen = {kind: row for kind, row in kinds.items() if any(row)} or {"enter": kinds["enter"]}
    latency = Series(*ends, ages) if any(value for row in ages.values() for value in row) else None
    return Series(*ends, {"rows": rows}), Series(*ends, seen), latency


class ServiceEvents:
    """The log of events; counts of the last hour are kept in memory by a thread that follows it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._recorder = Recorder()
        self._ended, self._woken = threading.Event(), threading.Event()
        self._position = service.last_event
        past = service.newest_events(limit=_REMEMBERED)
        self._recorder.remember(past.events)
        self._thread = threading.Thread(target=self._follow, name="fencepost console events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._woken.set()
        self._thread.join(5)

    def _follow(self) -> None:
        with self._service.listening(self._woken.set):
            while not self._ended.is_set():
                self._woken.wait(1.0)
                self._woken.clear()
                page = self._service.events(self._position, None, _AT_ONCE)
                self._position = page.next
                self._recorder.record(page.events)
                if self._position < self._service.last_event:
                    self._woken.set()
                else:
                    self._ended.wait(0.2)  # so that a call for each event is not followed by a look for each

    @property
    def kept(self) -> str:
        """How many events can be looked at."""
        first, last = self._service.first_event, self._service.last_event
        kept = max(0, last - first + 1)
        return f"{count(kept, 'event')} in the log{'; the picture has the last 100,000' if kept > _REMEMBERED else ''}."

    def last(self, limit: int, chosen: EventFilter, before: int | None = None) -> list[SeenEvent]:
        """The newest events before a position, the last first."""
        return self.search(limit, chosen, before)[0]

    def search(self, limit: int, chosen: EventFilter, before: int | None = None) -> tuple[list[SeenEvent], int | None]:
        """The same, and the position before which to look on; None where all were looked at, or enough found."""
        page = self._service.newest_events(_filter(chosen), limit, before)
        is_cut = page.events.num_rows < limit and page.next > self._service.first_event
        return _seen(page.events)[::-1], page.next if is_cut else None

    def since(self, position: int | None, limit: int, chosen: EventFilter) -> Tail:
        """What came since a position: all of it, or an even sample."""
        if position is None or position > self._service.last_event:
            return Tail((), 0, self._service.last_event)
        page = self._service.events(position, _filter(chosen), _AT_ONCE)
        total = page.events.num_rows
        step = max(1, -(-total // max(1, limit)))
        sample = page.events.take(pa.array(range(0, total, step), pa.int64()))
        return Tail(_seen(sample)[:limit], total, page.next)

    def find(self, event_id: str) -> Mapping[str, Any] | None:
        """One event."""
        try:
            return self._service.event(event_id)
        except MissingError:
            return None

    def per_minute(self, ids: Sequence[int]) -> Mapping[int, Sequence[int]]:
        """Events of rules in each minute of the last hour."""
        return self._recorder.per_minute(ids)

    def histogram(self, chosen: EventFilter, bins: int) -> Histogram | None:
        """The last events over their time, by kind."""
        return self._recorder.histogram(chosen, bins)

    def export(self, chosen: EventFilter) -> bytes:
        """The newest events as a Parquet file."""
        out = BytesIO()
        pq.write_table(self._service.newest_events(_filter(chosen), _EXPORTED).events, out)
        return out.getvalue()


def _filter(chosen: EventFilter) -> event_log.EventFilter:
    return event_log.EventFilter(
        None if chosen.rule is None else frozenset([chosen.rule]),
        chosen.object or None,
        frozenset([chosen.detect]) if chosen.detect else None,
    )


def _seen(events: pa.Table) -> list[SeenEvent]:
    return [SeenEvent(row.pop("position"), row) for row in events.to_pylist()]


class ServiceVersions(BookVersions):
    """Versions that the engine of a service follows."""

    def __init__(self, service: Service) -> None:
        super().__init__(service.book, service.settings.data / "published")
        self._service = service

    def preview(self) -> Difference:
        """What publishing would change."""
        return self._service.preview()

    def publish(self, author: str) -> int:  # noqa: ARG002 (as in VersionsPart)
        """Let the rules be in force as the book has them now."""
        return self._service.publish().version


class ServiceRows:
    """The log of rows."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def try_condition(self, old: Rule | None, condition: str, options: Mapping[str, Any]) -> Trial:
        """What a rule and its next condition would have reported on the last rows of the log."""

        def replay(rules: list[Rule]) -> Any:
            return self._service.backtest(rules, last=_TRIED, calls=_TRIED_CALLS, shown=0)

        return try_rules(old, condition, options, self._service.rules.check, replay)
