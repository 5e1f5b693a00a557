"""Events and figures as they come, kept in memory within bounds.

The last events, an hour of counts, and a few minutes of rates. Readers come and look, so a slow reader holds nothing
up and nothing waits for it.
"""

import threading
import time
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost._text import count as count_of
from fencepost.console.source import KINDS, EventFilter, Histogram, SeenEvent, Series, Tail

_EVENTS = 100_000
_COUNTED = 2_000_000
"""Events of the last hour of which at least rule and minute are kept."""
_MINUTES = 60
_SECONDS = 300
_SAMPLED = 400
"""Ages of events that are kept of a second."""
_QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class _Second:
    """What happened in a second."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.rows = 0
        self.kinds: Counter[str] = Counter()
        self.ages: list[float] = []


class Recorder:
    """The events of an engine, and how fast rows and events come.

    Args:
        events: how many events are kept.
    """

    def __init__(self, events: int = _EVENTS) -> None:
        self._most = events
        self._lock = threading.Lock()
        self._tables: deque[Any] = deque()
        self._firsts: deque[int] = deque()
        """The position of the first event of each table."""
        self._end = self._begin = 0
        self._minutes: deque[tuple[int, Any]] = deque()
        self._minute_events = 0
        self._seconds: deque[_Second] = deque(maxlen=_SECONDS)
        self._began = int(time.time())
        self.rows = 0
        self.kinds: Counter[str] = Counter()

    @property
    def kept(self) -> str:
        """How many events can be looked at."""
        with self._lock:
            kept, total = self._end - self._begin, self._end
        if kept == total:
            return f"{count_of(kept, 'event')} since the start."
        return f"The last {kept:,} of {count_of(total, 'event')}."

    # -- as they come --------------------------------------------------------------------------------------

    def remember(self, events: Any) -> None:
        """Take in events that were before this process: they can be looked at, and count for their minutes."""
        if not events.num_rows:
            return
        with self._lock:
            self._keep(events)
            if not pa.types.is_timestamp(events.schema.field("time").type):
                return
            minutes = np.asarray(events["time"].cast(pa.timestamp("us")).cast(pa.int64())) // 60_000_000
            ids = np.asarray(events["rule_id"])
            now = int(time.time()) // 60
            for minute in np.unique(minutes[(minutes > now - _MINUTES) & (minutes <= now)]).tolist():
                self._count_minute(minute, ids[minutes == minute])

    def count(self, rows: int, kinds: Mapping[str, int]) -> None:
        """Count rows and events that are not shown here.

        Args:
            rows: how many rows came.
            kinds: how many events there were, by kind.
        """
        with self._lock:
            second = self._second(int(time.time()))
            second.rows += rows
            second.kinds.update(kinds)
            self.rows += rows
            self.kinds.update(kinds)

    def record(self, events: Any, rows: int = 0, age: float | None = None) -> None:
        """Take in a table of events, and how many rows caused them.

        Args:
            events: as a Monitor gives them; None for none.
            rows: how many rows came.
            age: seconds from rows to events; without it, that of each event by its time, where that is an instant.
        """
        now = time.time()
        with self._lock:
            second = self._second(int(now))
            second.rows += rows
            self.rows += rows
            if events is None or not events.num_rows:
                return
            kinds = {each["values"]: each["counts"] for each in pc.value_counts(events["detect"]).to_pylist()}
            second.kinds.update(kinds)
            self.kinds.update(kinds)
            self._note_ages(second, events, now, age)
            self._keep(events)
            self._count_minute(int(now) // 60, np.asarray(events["rule_id"].combine_chunks(), np.int64))

    def _second(self, at: int) -> _Second:
        if not self._seconds or self._seconds[-1].at < at:
            self._seconds.append(_Second(at))
        return self._seconds[-1]

    def _note_ages(self, second: _Second, events: Any, now: float, age: float | None) -> None:
        room = _SAMPLED - len(second.ages)
        if room <= 0:
            return
        if age is not None:
            second.ages.extend([age] * min(room, events.num_rows))
            return
        if not pa.types.is_timestamp(events.schema.field("time").type):
            return
        plain = events.filter(pc.is_null(events["reason"]))["time"]
        times = np.asarray(plain.cast(pa.timestamp("us")).cast(pa.int64()).drop_null()) / 1e6
        ages = now - times[:: max(1, len(times) // room)]
        second.ages.extend(np.maximum(ages, 0.0).tolist())

    def _keep(self, events: Any) -> None:
        self._tables.append(events)
        self._firsts.append(self._end)
        self._end += events.num_rows
        while len(self._tables) > 1 and self._end - self._firsts[1] >= self._most:
            self._tables.popleft()
            self._firsts.popleft()
        self._begin = max(self._firsts[0], self._end - self._most)

    def _count_minute(self, minute: int, ids: Any) -> None:
        self._minutes.append((minute, ids))
        self._minute_events += len(ids)
        while self._minutes and (self._minutes[0][0] <= minute - _MINUTES or self._minute_events > _COUNTED):
            self._minute_events -= len(self._minutes.popleft()[1])

    # -- events --------------------------------------------------------------------------------------------

    def _kept_tables(self) -> list[tuple[int, Any]]:
        """Tables with the positions of their first events; nothing that is no longer kept."""
        with self._lock:
            tables = list(zip(self._firsts, self._tables, strict=True))
            begin = self._begin
        if tables and tables[0][0] < begin:
            first, table = tables[0]
            tables[0] = (begin, table.slice(begin - first))
        return tables

    def search(self, limit: int, chosen: EventFilter, before: int | None = None) -> tuple[list[SeenEvent], None]:
        """The newest events before a position, of all that are kept."""
        return self.last(limit, chosen, before), None

    def last(self, limit: int, chosen: EventFilter, before: int | None = None) -> list[SeenEvent]:
        """The newest events before a position, the last first."""
        found: list[SeenEvent] = []
        for first, table in reversed(self._kept_tables()):
            if before is not None and first >= before:
                continue
            part = table if before is None else table.slice(0, before - first)
            places = _places(part, chosen)[::-1][: limit - len(found)]
            found += _seen(part, places, first)
            if len(found) >= limit:
                break
        return found

    def since(self, position: int | None, limit: int, chosen: EventFilter) -> Tail:
        """What came since a position: all of it, or an even sample."""
        tables = self._kept_tables()
        with self._lock:
            end = self._end
        if position is None or position > end:
            return Tail((), 0, end)
        begin = bisect_right([first for first, _ in tables], position) - 1
        found: list[tuple[int, Any, Any]] = []
        total = 0
        for first, table in tables[max(0, begin) :]:
            skipped = max(0, position - first)
            part = table.slice(skipped)
            places = _places(part, chosen)
            total += len(places)
            if len(places):
                found.append((first + skipped, part, places))
                end = max(end, first + table.num_rows)
        step = max(1, -(-total // limit))
        events: list[SeenEvent] = []
        passed = 0
        for first, part, places in found:
            events += _seen(part, places[(-passed) % step :: step], first)
            passed += len(places)
        return Tail(events[:limit], total, end)

    def find(self, event_id: str) -> Mapping[str, Any] | None:
        """One event."""
        for _, table in reversed(self._kept_tables()):
            place = pc.index(table["event_id"], event_id).as_py()
            if place >= 0:
                row: dict[str, Any] = table.slice(place, 1).to_pylist()[0]
                return row
        return None

    def export(self, chosen: EventFilter) -> bytes:
        """The events that are kept as a Parquet file."""
        tables = [table.take(_places(table, chosen)) for _, table in self._kept_tables()]
        out = BytesIO()
        whole = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({"event_id": []})
        pq.write_table(whole, out)
        return out.getvalue()

    # -- counts --------------------------------------------------------------------------------------------

    def per_minute(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """Events of rules in each minute of the last hour."""
        with self._lock:
            minutes = list(self._minutes)
        wanted = np.array(sorted(ids), np.int64)
        counts = np.zeros((len(wanted), _MINUTES), np.int64)
        now = int(time.time()) // 60
        for minute, found in minutes:
            place = _MINUTES - 1 - (now - minute)
            if not len(wanted) or not 0 <= place < _MINUTES:
                continue
            at = np.minimum(np.searchsorted(wanted, found), len(wanted) - 1)
            counts[:, place] += np.bincount(at[wanted[at] == found], minlength=len(wanted))
        return {int(id): row.tolist() for id, row in zip(wanted, counts, strict=True)}

    def histogram(self, chosen: EventFilter, bins: int) -> Histogram | None:
        """Events by kind in equal parts of the time of those that are kept."""
        parts = []
        for _, table in self._kept_tables():
            some = table.select(["detect", "time"]).take(_places(table, chosen))
            if some.num_rows:
                parts.append(some)
        if not parts:
            return None
        whole = pa.concat_tables(parts, promote_options="permissive")
        ends = pc.min_max(whole["time"]).as_py()
        times = to_numbers(whole["time"])
        detects = np.array(whole["detect"].to_pylist())
        # From the first on: where all are of one instant, its microseconds are too large to be cut into parts.
        times = times - times.min()
        span = (0.0, float(times.max()) or 1.0)
        counts = {kind: np.histogram(times[detects == kind], bins, span)[0].tolist() for kind in KINDS}
        return Histogram(ends["min"], ends["max"], {kind: row for kind, row in counts.items() if any(row)})

    # -- figures -------------------------------------------------------------------------------------------

    def rates(self) -> tuple[float, float]:
        """Rows and events per second, in the last ten seconds."""
        now = int(time.time())
        with self._lock:
            last = [each for each in self._seconds if now - 10 <= each.at < now]
        seconds = max(1, min(10, now - self._began))
        return sum(each.rows for each in last) / seconds, sum(sum(each.kinds.values()) for each in last) / seconds

    def series(self, step: int = 5) -> tuple[Series, Series, Series | None]:
        """Rows per second, events per second by kind, and how old events were, over the last minutes."""
        now = int(time.time()) // step * step
        begin = now - _SECONDS
        bins = _SECONDS // step
        rows, kinds = [0.0] * bins, {kind: [0.0] * bins for kind in KINDS}
        ages: list[list[float]] = [[] for _ in range(bins)]
        with self._lock:
            for each in self._seconds:
                place = (each.at - begin) // step
                if 0 <= place < bins:
                    rows[place] += each.rows / step
                    ages[place] += each.ages
                    for kind, number in each.kinds.items():
                        kinds[kind][place] += number / step
        start, end = datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(now, UTC)
        seen = {kind: row for kind, row in kinds.items() if any(row)} or {"enter": kinds["enter"]}
        latency = None
        if any(ages):
            latency = Series(
                start, end, {name: [_quantile(some, q) for some in ages] for name, q in _QUANTILES.items()}
            )
        return Series(start, end, {"rows": rows}), Series(start, end, seen), latency

    def latency(self) -> Mapping[str, float]:
        """How old events were in the last minute, in seconds."""
        now = int(time.time())
        with self._lock:
            ages = [age for each in self._seconds if each.at >= now - 60 for age in each.ages]
        return {name: float(np.quantile(ages, q)) for name, q in _QUANTILES.items()} if ages else {}


def _quantile(some: list[float], q: float) -> float | None:
    return float(np.quantile(some, q)) if some else None


def to_numbers(times: Any) -> Any:
    """Times as float64."""
    if pa.types.is_date32(times.type):
        times = times.cast(pa.int32())
    elif pa.types.is_temporal(times.type):
        times = times.cast(pa.int64())
    return np.asarray(times.cast(pa.float64()))


def _places(table: Any, chosen: EventFilter) -> Any:
    """The places of the events that are meant."""
    if not chosen:
        return np.arange(table.num_rows)
    masks = []
    if chosen.rule is not None:
        masks.append(pc.equal(table["rule_id"], chosen.rule))
    if chosen.detect:
        masks.append(pc.equal(table["detect"], chosen.detect))
    if chosen.object:
        masks.append(pc.equal(table["object"].cast(pa.string()), chosen.object))
    mask = masks[0]
    for each in masks[1:]:
        mask = pc.and_kleene(mask, each)
    return np.flatnonzero(np.asarray(mask.fill_null(False)))


def _seen(table: Any, places: Any, first: int) -> list[SeenEvent]:
    rows = table.take(pa.array(places)).to_pylist()
    return [SeenEvent(first + int(place), row) for place, row in zip(places.tolist(), rows, strict=True)]
