"""The demo at work: files of moves, rules that change, a Spark query that watches, and its events."""

import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fencepost.lab.demo.world import BY_HAND, DISTRICTS, SCHEMA, Change, World
from fencepost.rules import RuleFault, Rules

if TYPE_CHECKING:
    from fencepost.lab.demo.watching import DemoSource

_MOVES = "object string, ts timestamp, symbol string, price double, x double, y double"
_SHOWN = 12
_SAMPLED = 200
_CHANGED_EVERY = 5.0
_CHANGED = 200
_BUCKETS = 8


class Figures(NamedTuple):
    """What is shown of the moment."""

    rows: int
    events: int
    rows_per_second: float
    events_per_second: float
    median_latency: float
    highest_latency: float
    rules: int
    version: int
    first_event: float | None
    """Seconds from the start to the first event."""
    last_change: str
    words: list[str]


class _Published(NamedTuple):
    version: int
    change: Change
    at: float


class Live:
    """A world, its rules and the query that watches it.

    `folder` is an empty directory for everything, `every` the seconds between two files of moves, `started` the time of
    the command by `time.monotonic`.
    """

    def __init__(self, world: World, folder: Path, every: float, started: float) -> None:
        self._world, self._folder, self._every, self._started = world, folder, every, started
        self._rules: Rules | None = None
        self._query: Any = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._changes_lock = threading.Lock()
        self.watched: DemoSource | None = None
        """The console's view, where there is a console."""
        self._files = self._rows = self._events = 0
        self._last_batch = -1
        self._version = 0
        self._first_event: float | None = None
        self._words: deque[str] = deque(maxlen=_SHOWN)
        self._batches: deque[tuple[float, int, int]] = deque(maxlen=10)
        """When each of the last ones ended, and the rows and events before it."""
        self._latencies: deque[float] = deque(maxlen=2_000)
        self._waiting: deque[_Published] = deque()
        self._last_change = "no change yet"
        self._fault: BaseException | None = None
        names = [*world.symbols, *world.vehicles]
        chosen = np.random.default_rng(1).choice(len(names), min(_SAMPLED, len(names)), replace=False)
        self._inside: dict[str, set[int]] = {str(names[place]): set() for place in chosen}
        """The rules that sampled objects are inside, by the events alone."""
        works = (self._keep_moving, self._keep_changing)
        self._threads = [threading.Thread(target=self._guard, args=(work,), daemon=True) for work in works]

    @property
    def published(self) -> Path:
        """The directory of rules."""
        return self._folder / "rules"

    @property
    def rules(self) -> Rules:
        """All rules."""
        assert self._rules is not None, "the rules were published"
        return self._rules

    def watch_on_pages(self) -> "DemoSource":
        """Let a console look on."""
        from fencepost.lab.demo.watching import DemoSource

        self.watched = DemoSource(self, self._world, self._changes_lock)
        return self.watched

    def publish_by_hand(self) -> dict[int, str]:
        """Publish what somebody has changed, with the lock of changes held; why rules cannot be used, by id."""
        faults: list[RuleFault] = []
        self.rules.publish(self.published, faults=faults)
        return {fault.id: fault.reason for fault in faults}

    def publish(self) -> int:
        """Compile the rules and write them for the first time; how many there are."""
        self._rules = self._world.rules()
        self._version = self._rules.publish(self.published, SCHEMA)
        return len(self._rules)

    def start(self, spark: Any) -> None:
        """Let things move, and the query run."""
        from fencepost.spark import watch

        moves = self._folder / "moves"
        moves.mkdir()
        self._write_moves()
        source = spark.readStream.schema(_MOVES).option("maxFilesPerTrigger", 20).parquet(str(moves))
        events = watch(source, self.published, object="object", time="ts", buckets=_BUCKETS, observe="demo")
        writer = events.writeStream.foreachBatch(self._see_events)
        self._query = writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Report everything that has moved, then end."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._query is not None:
            if self._query.isActive:
                self._query.processAllAvailable()
            self._query.stop()
            with self._lock:
                self._see_progress(time.monotonic())

    def abandon(self) -> None:
        """End without waiting for what is under way."""
        self._ended.set()
        if self._query is not None:
            self._query.stop()

    def raise_fault(self) -> None:
        """Raise what has ended the query or one of the threads, if anything has."""
        if self._fault is not None:
            raise self._fault
        if self._query is not None and self._query.exception() is not None:
            raise self._query.exception()

    def figures(self) -> Figures:
        """What there is to see."""
        assert self._rules is not None, "the rules were published"
        with self._lock:
            batches = list(self._batches)
            seconds, rows, events = (batches[-1][n] - batches[0][n] if batches else 0.0 for n in range(3))
            latencies = np.array(self._latencies or [0.0])
            return Figures(
                self._rows,
                self._events,
                rows / seconds if seconds else 0.0,
                events / seconds if seconds else 0.0,
                float(np.median(latencies)),
                float(latencies.max()),
                len(self._rules),
                self._version,
                self._first_event,
                self._last_change,
                list(self._words),
            )

    def wrong_objects(self) -> list[str]:
        """Sampled objects whose rules, by the events, differ from a comparison with every rule."""
        return [object for object, inside in self._inside.items() if inside != self._world.rules_around(object)]

    @property
    def sampled(self) -> int:
        """How many objects are compared."""
        return len(self._inside)

    # -- what goes on beside the query ---------------------------------------------------------------------

    def _guard(self, work: Any) -> None:
        try:
            work()
        except BaseException as fault:
            self._fault = fault

    def _keep_moving(self) -> None:
        due = time.monotonic() + self._every
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            self._write_moves()
            due = max(due + self._every, time.monotonic())

    def _write_moves(self) -> None:
        with self._changes_lock:
            table = self._world.moved(datetime.now(UTC))
        draft = self._folder / "moves" / f".{self._files}"
        pq.write_table(table, draft)
        draft.rename(draft.with_name(f"{self._files:06}.parquet"))
        self._files += 1
        if self.watched is not None:
            self.watched.record_rows(table)

    def _keep_changing(self) -> None:
        assert self._rules is not None, "the rules were published"
        while not self._ended.wait(_CHANGED_EVERY):
            with self._changes_lock:
                change = self._world.change(self._rules, _CHANGED)
                version = self._rules.publish(self.published)
            with self._lock:
                self._waiting.append(_Published(version, change, time.monotonic()))

    # -- what comes back -----------------------------------------------------------------------------------

    def _see_events(self, batch: Any, number: int) -> None:  # noqa: ARG002 (Spark passes it)
        events = batch.toArrow()
        now, clock = datetime.now(UTC), time.monotonic()
        if self.watched is not None:
            self.watched.events.record(events)
        with self._lock:
            self._see_progress(clock)
            self._count(events, now, clock)
            self._see_version(pc.max(events["snapshot_version"]).as_py() or 0, clock)
            self._follow(events)
            self._words.extend(self._describe(row) for row in events.slice(0, _SHOWN // 2).to_pylist())

    def _see_progress(self, clock: float) -> None:
        """Take in what Spark says of micro-batches that have ended."""
        for report in [] if self._query is None else self._query.recentProgress:
            watched = report["observedMetrics"].get("demo")
            if report["batchId"] > self._last_batch and watched is not None and watched["rows"] is not None:
                self._last_batch = report["batchId"]
                self._rows += watched["rows"]
                self._see_version(watched["version"], clock)

    def _count(self, events: pa.Table, now: datetime, clock: float) -> None:
        self._batches.append((clock, self._rows, self._events))
        self._events += len(events)
        if len(events) and self._first_event is None:
            self._first_event = clock - self._started
        plain = events.filter(pc.is_null(events["reason"]))["time"]
        ages = now.timestamp() - np.asarray(plain.cast(pa.timestamp("us")).cast(pa.int64())) / 1e6
        self._latencies.extend(ages[:: max(1, len(ages) // 200)].tolist())

    def _see_version(self, version: int, clock: float) -> None:
        self._version = max(self._version, version)
        while self._waiting and self._waiting[0].version <= self._version:
            made = self._waiting.popleft()
            self._last_change = (
                f"{made.change.added} rules added and {made.change.removed} removed: version {made.version} was in "
                f"force {clock - made.at:.1f} s later"
            )

    def _follow(self, events: pa.Table) -> None:
        events = events.filter(pc.less(events["rule_id"], BY_HAND))  # the world does not know what people add
        chosen = events.filter(pc.is_in(events["object"], pa.array(list(self._inside))))
        columns = [chosen[name].to_pylist() for name in ("object", "rule_id", "detect")]
        order = np.lexsort([np.array(columns[2]) == "enter", np.asarray(chosen["time"].cast(pa.timestamp("us")))])
        for place in order.tolist():
            object, rule, detect = (column[place] for column in columns)
            (self._inside[object].add if detect == "enter" else self._inside[object].discard)(rule)

    def _describe(self, event: dict[str, Any]) -> str:
        object, rule, enters = event["object"], event["rule_id"], event["detect"] == "enter"
        at = event["time"].strftime("%H:%M:%S")
        if event["reason"] is not None:
            what = f"{object} is inside" if enters else f"{object} was inside"
            return f"{at}  {what} rule {rule:,} ({event['reason']})"
        if event["price"] is not None:
            before, price = event["price_before"], event["price"]
            way = "is at" if before is None else "rose to" if price > before else "fell to"
            return f"{at}  {object} {way} {price:.2f}, {'into' if enters else 'out of'} the range of rule {rule:,}"
        fence = f"{DISTRICTS[rule % len(DISTRICTS)]} {rule:,}"
        return f"{at}  {object} {'drove into' if enters else 'left'} {fence}"
