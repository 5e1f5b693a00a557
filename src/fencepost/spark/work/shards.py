"""watch with rules in shards: buckets send moves to the shards that they concern, and shards report the events.

A bucket has the objects and no rules. It packs what happens to objects for every shard that may have a rule about it:
their moves; all objects where the rules change; those for which time may end something. A shard has rules and no
objects. It finds the events as a monitor does, and reports those that no shard before it reports.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.emitting.detections import Detections, Subjects
from fencepost.emitting.emitter import Emitter
from fencepost.indexes.arrays import Bools, Int64s, UInt64s
from fencepost.published import ShardPlan, routing, rule_masks
from fencepost.snapshot import DETECTS, Snapshot
from fencepost.spark.plan.routing import SHARD
from fencepost.spark.work.caches import Published, begin_task, head_at
from fencepost.spark.work.packing import METERS, MOST_ROWS, packed_pieces, packed_table, stepped_rows
from fencepost.spark.work.usable import usable_at
from fencepost.spark.work.watch_task import WatchTask
from fencepost.watching.clock import gone_after
from fencepost.watching.engine import Watch
from fencepost.watching.positions import KeyStrings, Positions
from fencepost.watching.tables import table_of
from fencepost.watching.trails import read_trails, trails_of

_MOVES, _RULES, _CLOCK = "moves", "rules", "clock"
"""What happened: objects moved, the rules changed, a time has come."""

MOVED = ", ".join(
    [f"`{SHARD}` int", "bucket int", "what string", "payload binary", *(f"{name} bigint" for name in METERS)]
)
"""The columns that buckets give back: packed objects with what happened to them; a row without any has the meter."""
_MOVED_ARROW = pa.schema(
    [
        *((SHARD, pa.int32()), ("bucket", pa.int32()), ("what", pa.string()), ("payload", pa.binary())),
        *((name, pa.int64()) for name in METERS),
    ]
)
_STEPPED_ARROW = pa.schema([("payload", pa.binary()), *((name, pa.int64()) for name in METERS)])


# -- what buckets send -------------------------------------------------------------------------------------


class MoveSender:
    """Packs what happens to the objects of one bucket, by the shards that it concerns.

    The number of the bucket spreads the work of a shard.
    """

    def __init__(self, task: Any, bucket: int) -> None:
        assert task.shards is not None, "the rules are in shards"
        self._task, self._bucket, self._plan = task, bucket, task.shards.plan
        self._packed: list[dict[str, Any]] = []
        self.counts = dict.fromkeys(DETECTS, 0)
        """No events: shards write them."""

    def follow(self, watch: Watch, version: int) -> None:
        """Let other rules be in force: every object may leave one."""
        self._send_objects(_RULES, watch, watch.state.here(), version=version)
        watch.follow(self._task.rules_at(version)).settle()

    def advance(self, watch: Watch, marker: int) -> None:
        """Let a time come: objects that were silent for too long leave everything, others what has expired."""
        clock, state = watch.clock, watch.state
        now, slots = clock.read_marker(marker), state.here()
        last = state.times[slots]
        expires = clock.instants(head_at(self._task.source, watch.version).expires)
        passed = np.searchsorted(expires, [*clock.at_least(last).tolist(), now], side="right")
        ends: Bools = passed[:-1] < passed[-1]
        if clock.timeout is not None:
            ends |= gone_after(last, clock.timeout) <= now
        self._send_objects(_CLOCK, watch, slots[ends], now=marker)
        watch.advance(now).settle()
        clock.advance(now)

    def update(self, watch: Watch, rows: Sequence[Any]) -> None:
        """Let objects move."""
        moves = watch.take(rows[0])
        moved, route = moves.steps, routing(self._plan)
        cells = _cells(self._plan, moved.positions, watch.state.strings)
        crossing = head_at(self._task.source, watch.version).detected & DETECTS["cross"]
        before = np.where(moved.previous >= 0, cells[moved.previous], -1)
        visits = route.visits(before, cells[moved.offset :], between=bool(crossing))
        for shard in range(self._plan.shards):
            chosen = np.flatnonzero(visits & (np.uint64(1) << np.uint64(shard)))
            if len(chosen):
                self._pack(shard, _MOVES, watch, trails_of(moves, chosen, visits, watch.state))
        watch.settle(moves)

    def rows(self, meter: Mapping[str, int]) -> list[dict[str, Any]]:
        """All that the bucket sends, as rows of `MOVED`."""
        of_bucket = {SHARD: self._bucket % self._plan.shards, "bucket": self._bucket, "what": None, "payload": None}
        return [*self._packed, {**of_bucket, **meter}]

    def _send_objects(self, what: str, watch: Watch, slots: Int64s, **more: int) -> None:
        """Send where objects are to the one shard that has all rules they can be inside of."""
        if not len(slots):
            return
        positions = watch.state.positions(slots)
        shards = routing(self._plan).shard[_cells(self._plan, positions, watch.state.strings)]
        for shard in np.unique(shards).tolist():
            self._pack(shard, what, watch, table_of(watch.state, slots[shards == shard]), **more)

    def _pack(self, shard: int, what: str, watch: Watch, table: Any, **more: int) -> None:
        happened = {"kind": what, "before": watch.version, "clock": watch.clock.saved(), **more}
        row = {SHARD: shard, "bucket": self._bucket, "what": json.dumps(happened, sort_keys=True)}
        for payload in packed_pieces(table):
            self._packed.append({**row, "payload": payload, **dict.fromkeys(METERS, 0)})


def _cells(plan: ShardPlan, positions: Positions, strings: Mapping[str, KeyStrings]) -> Int64s:
    """The cell of each position."""
    route, lanes = routing(plan), np.zeros(positions.rows, np.int64)
    if plan.key is not None:
        codes, where = np.unique(positions.keys[plan.key], return_inverse=True)
        lanes = route.lanes([strings[plan.key].text(code) for code in codes.tolist()])[where]
    if plan.attribute is None:
        return route.cells(lanes, None)
    return route.cells(lanes, positions.ordinals[plan.attribute], positions.known[plan.attribute])


def moved_batch(rows: list[dict[str, Any]]) -> Any:
    """Rows of `MOVED` as Arrow has them."""
    return pa.RecordBatch.from_pylist(rows, _MOVED_ARROW)


# -- what shards write --------------------------------------------------------------------------------------


def detect_moves(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """For mapInArrow over rows of `MOVED`: the packed events of the shards that they are for, and all meters."""
    begin_task()
    waiting: dict[tuple[int, str], list[Any]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            if row["payload"] is None:
                yield pa.RecordBatch.from_pylist([{name: row[name] for name in _STEPPED_ARROW.names}], _STEPPED_ARROW)
                continue
            tables = waiting.setdefault((row[SHARD], row["what"]), [])
            tables.append(packed_table(row["payload"]))
            if sum(len(table) for table in tables) >= MOST_ROWS // 4:
                yield from _detect(row[SHARD], row["what"], tables, task)
                tables.clear()
    for (shard, what), tables in waiting.items():
        if tables:
            yield from _detect(shard, what, tables, task)


def _detect(shard: int, what: str, tables: list[Any], task: WatchTask) -> Iterator[Any]:
    """The events of one shard, as rows of `STEPPED`, in batches that have room; the last has the meter."""
    assert task.shards is not None, "the rules are in shards"
    begin, happened = time.perf_counter_ns(), json.loads(what)
    watch = task.make_engine(happened["before"], 0, shard)
    watch.clock.restore(happened["clock"])
    table = pa.concat_tables(tables)
    stages: tuple[Any, ...] = ()
    if happened["kind"] == _MOVES:
        moved, visits = read_trails(table, watch.state, watch.rules.kept, len(task.sequence), task.columns.carry)
        stages = (partial(_only_first, shard, visits, _masks(task, watch.rules.snapshot())),)
        step = watch.detect(moved)
    else:
        watch.restore([[table]])
        if happened["kind"] == _RULES:
            version = happened["version"]
            step = watch.follow(task.rules_at(version, shard), _elsewhere(task, version))
        else:
            step = watch.advance(watch.clock.read_marker(happened["now"]))
    emitter, none = Emitter(*stages, columns=task.columns, short=True), dict.fromkeys(METERS, 0)
    payloads: list[bytes] = []
    for events in emitter.emit_pieces(step):
        if payloads:
            yield pa.RecordBatch.from_pylist(stepped_rows(payloads, none), _STEPPED_ARROW)
        payloads = packed_pieces(task.fit_events(events))
    skipped = usable_at(task.shards.sources[shard], watch.version, task.stream).skipped
    meter = {**none, **emitter.counts, "nanoseconds": time.perf_counter_ns() - begin, "skipped": skipped}
    yield pa.RecordBatch.from_pylist(stepped_rows(payloads, meter), _STEPPED_ARROW)


def _only_first(
    shard: int,
    visits: UInt64s,
    masks: UInt64s,
    found: Detections,
    about: Subjects,  # noqa: ARG001
) -> Detections:
    """The detections that this shard reports: of all shards that got the move and have the rule, it is the first."""
    having = visits[found.rows] & masks[found.rules]
    is_first = (having & (~having + np.uint64(1))) == np.uint64(1) << np.uint64(shard)
    return found.take(np.flatnonzero(is_first))


def _masks(task: WatchTask, snapshot: Snapshot) -> UInt64s:
    """The shards that have each rule of a shard, as bits."""
    assert task.shards is not None, "the rules are in shards"
    return np.concatenate([rule_masks(task.shards.plan, layer) for layer in snapshot.layers])


def _elsewhere(task: WatchTask, version: int) -> Callable[[Int64s], Bools]:
    """Says of rules that a shard no longer has whether another one has them now: then they were edited."""
    assert isinstance(task.source, Published), "only published rules change"
    return partial(task.source.versions.in_force_among, version)
