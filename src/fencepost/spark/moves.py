"""watch with rules in parts: buckets tell moves to the parts that they concern, and parts tell the events.

A bucket has the objects and no rules. What happens to objects goes, packed, to every part that may have a rule about
it: their moves; all of them where the rules change; those for which time may end something. A part has rules and no
objects. It finds the events as a monitor does, and tells those that no part before it tells.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.indexes.arrays import Bools, Int64s, UInt64s
from fencepost.monitor import Monitor
from fencepost.monitor.clock import gone_after
from fencepost.monitor.found import Found
from fencepost.monitor.positions import KeyStrings, Positions
from fencepost.monitor.state_file import fill, table_of
from fencepost.monitor.trails import read_trails, trails_of
from fencepost.snapshot import DETECTS, ShardPlan, Snapshot, Table, routing, rule_masks
from fencepost.spark.packing import METERS, MOST_ROWS, packed_pieces, packed_table, stepped_rows
from fencepost.spark.routing import PART
from fencepost.spark.stepping import instant_of
from fencepost.spark.watch_task import WatchTask, as_declared, layers_at, monitor_at
from fencepost.spark.worker import Published, begin_task, head_at

__all__ = ["MOVED", "MoveTeller", "moved_batch", "tell_moves"]

_MOVES, _RULES, _CLOCK = "moves", "rules", "clock"
"""What happened: objects moved, the rules changed, a time has come."""

MOVED = ", ".join(
    [f"`{PART}` int", "bucket int", "what string", "payload binary", *(f"{name} bigint" for name in METERS)]
)
"""What buckets give: packed objects with what happened to them, and in a row without any the meter."""
_MOVED_ARROW = pa.schema(
    [
        *((PART, pa.int32()), ("bucket", pa.int32()), ("what", pa.string()), ("payload", pa.binary())),
        *((name, pa.int64()) for name in METERS),
    ]
)
_STEPPED_ARROW = pa.schema([("payload", pa.binary()), *((name, pa.int64()) for name in METERS)])


# -- what buckets tell -------------------------------------------------------------------------------------


class MoveTeller:
    """Packs what happens to the objects of one bucket, by the parts that it concerns.

    Args:
        task: the operator's.
        bucket: its number, by which the work of a part is spread.
    """

    def __init__(self, task: WatchTask, bucket: int) -> None:
        assert task.shards is not None, "the rules are in parts"
        self._task, self._bucket, self._plan = task, bucket, task.shards.plan
        self._packed: list[dict[str, Any]] = []

    def follow(self, monitor: Monitor, version: int) -> None:
        """Other rules are in force: every object may leave one."""
        self._tell_present(_RULES, monitor, monitor._state.here(), version=version)
        monitor._follow(layers_at(self._task, version))

    def advance(self, monitor: Monitor, ordinal: int) -> None:
        """A time has come: objects that were silent for too long leave everything, others what has expired."""
        clock, state = monitor._clock, monitor._state
        assert clock.type is not None, "the clock was started"
        instant = instant_of(ordinal, clock.type)
        now, slots = clock.read(instant), state.here()
        last = state.times[slots]
        expires = clock.instants(head_at(self._task.source, monitor._layers.version).expires)
        passed = np.searchsorted(expires, [*clock.at_least(last).tolist(), now], side="right")
        ends: Bools = passed[:-1] < passed[-1]
        if clock.timeout is not None:
            ends |= gone_after(last, clock.timeout) <= now
        self._tell_present(_CLOCK, monitor, slots[ends], now=ordinal)
        monitor.advance(instant)

    def update(self, monitor: Monitor, rows: Any) -> None:
        """Objects have moved."""
        taken = monitor._take(Table(rows))
        moved, route = taken.moved, routing(self._plan)
        cells = _cells(self._plan, moved.positions, monitor._state.strings)
        crossing = head_at(self._task.source, monitor._layers.version).detected & DETECTS["cross"]
        before = np.where(moved.previous >= 0, cells[moved.previous], -1)
        visits = route.visits(before, cells[moved.offset :], between=bool(crossing))
        for part in range(self._plan.parts):
            chosen = np.flatnonzero(visits & (np.uint64(1) << np.uint64(part)))
            if len(chosen):
                self._pack(part, _MOVES, monitor, trails_of(taken, chosen, visits, monitor._state))
        monitor._settle(taken)

    def rows(self, meter: Mapping[str, int]) -> list[dict[str, Any]]:
        """All that was told, as rows of `MOVED`."""
        of_bucket = {PART: self._bucket % self._plan.parts, "bucket": self._bucket, "what": None, "payload": None}
        return [*self._packed, {**of_bucket, **meter}]

    def _tell_present(self, what: str, monitor: Monitor, slots: Int64s, **more: int) -> None:
        """Where objects are goes to the one part that has all rules they can be inside of."""
        if not len(slots):
            return
        positions = monitor._state.positions(slots)
        parts = routing(self._plan).part[_cells(self._plan, positions, monitor._state.strings)]
        for part in np.unique(parts).tolist():
            self._pack(part, what, monitor, table_of(monitor._state, slots[parts == part]), **more)

    def _pack(self, part: int, what: str, monitor: Monitor, table: Any, **more: int) -> None:
        told = {"kind": what, "before": monitor._layers.version, "clock": monitor._clock.saved(), **more}
        row = {PART: part, "bucket": self._bucket, "what": json.dumps(told, sort_keys=True)}
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


# -- what parts tell ---------------------------------------------------------------------------------------


def tell_moves(batches: Iterable[Any], task: WatchTask) -> Iterator[Any]:
    """For mapInArrow over rows of `MOVED`: the packed events of the parts that they are for, and all meters.

    Args:
        batches: Arrow record batches.
        task: the operator's.
    """
    begin_task()
    waiting: dict[tuple[int, str], list[Any]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            if row["payload"] is None:
                yield pa.RecordBatch.from_pylist([{name: row[name] for name in _STEPPED_ARROW.names}], _STEPPED_ARROW)
                continue
            tables = waiting.setdefault((row[PART], row["what"]), [])
            tables.append(packed_table(row["payload"]))
            if sum(len(table) for table in tables) >= MOST_ROWS // 4:
                yield _told(row[PART], row["what"], tables, task)
                tables.clear()
    for (part, what), tables in waiting.items():
        if tables:
            yield _told(part, what, tables, task)


def _told(part: int, what: str, tables: list[Any], task: WatchTask) -> Any:
    """The events of one part, as rows of `STEPPED`."""
    begin, happened = time.perf_counter_ns(), json.loads(what)
    monitor = monitor_at(task, happened["before"], 0, part)
    monitor._clock.restore(happened["clock"])
    state, layers = monitor._state, monitor._layers
    table = pa.concat_tables(tables)
    if happened["kind"] == _MOVES:
        taken, visits = read_trails(table, state, layers, len(task.sequence))
        events = monitor._tell(taken, partial(_reported, part, visits, _masks(task, layers.snapshot())))
    elif happened["kind"] == _RULES:
        fill(state, table, layers)
        events = monitor._follow(layers_at(task, happened["version"], part), _elsewhere(task, happened["version"]))
    else:
        fill(state, table, layers)
        assert monitor._clock.type is not None, "the clock was started"
        events = monitor.advance(instant_of(happened["now"], monitor._clock.type))
    meter = dict.fromkeys(METERS, 0) | monitor.counters["events"]
    meter["nanoseconds"] = time.perf_counter_ns() - begin
    found = [as_declared(events, task)] if events.num_rows else []
    return pa.RecordBatch.from_pylist(stepped_rows(found, meter), _STEPPED_ARROW)


def _reported(part: int, visits: UInt64s, masks: UInt64s, found: Found) -> Bools:
    """Which events this part tells: of all parts that the move is told to and that have the rule, it is the first."""
    telling = visits[found.rows] & masks[found.rules]
    first: Bools = (telling & (~telling + np.uint64(1))) == np.uint64(1) << np.uint64(part)
    return first


def _masks(task: WatchTask, snapshot: Snapshot) -> UInt64s:
    """The parts that have each rule of a part."""
    assert task.shards is not None, "the rules are in parts"
    return np.concatenate([rule_masks(task.shards.plan, layer) for layer in snapshot.layers])


def _elsewhere(task: WatchTask, version: int) -> Callable[[Int64s], Bools]:
    """Says of rules that a part no longer has whether another one has them now: then they were edited."""
    assert isinstance(task.source, Published), "only published rules change"
    return partial(task.source.versions.in_force_among, version)
