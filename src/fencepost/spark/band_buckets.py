"""The part of bands that runs in Python workers: a step of one bucket, which has all rows of its keys.

Rules are indexed once per process and version; the rows of a bucket are put under them for its step, and taken out
again for the next bucket's. The state of a bucket is its rows, an Arrow table per side.
"""

import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.monitor.band_rules import SIDES, band_rules
from fencepost.monitor.bands import Bands, Pairing, RuleChange
from fencepost.monitor.clock import Clock
from fencepost.monitor.layers import Layers
from fencepost.monitor.state_file import side_of, table_of
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, Snapshot, Table
from fencepost.spark.packing import (
    CLOCK,
    METERS,
    MOST_ROWS,
    VERSION,
    packed_bytes,
    packed_pieces,
    packed_table,
    stepped_rows,
)
from fencepost.spark.state_head import check_head, state_head
from fencepost.spark.stepping import instant_of, keep_late, last_snapshot, version_in_force
from fencepost.spark.watch_task import OBJECT, TIME
from fencepost.spark.worker import Source, begin_task, snapshot_at

__all__ = [
    "BAND_STATE",
    "DELETED",
    "SIDE_KINDS",
    "BandTask",
    "SideTask",
    "band_batch",
    "band_step",
    "needed_by_bands",
    "refuse_columns",
]

DELETED = "fencepost deleted"
SIDE_KINDS = {"left": CLOCK + 1, "right": CLOCK + 2}
"""What a packed row holds where it is neither a version nor a time: rows of one side."""
BAND_STATE = "version bigint, header string, left binary, right binary"

_FORMAT = 1
_HELD = 4


class SideTask(NamedTuple):
    """What a task must know of one side."""

    twice: tuple[tuple[str, str], ...]
    """Columns that are the same as one that arrives under another name."""
    attributes: tuple[str, ...]
    """The columns that bands may subtract."""
    keys: tuple[str, ...]
    """The columns that they may compare with strings."""
    sent: frozenset[str]
    """All columns of rules that arrive."""


class BandTask(NamedTuple):
    """What a task must know; small, and without anything that Python would have to pickle by value."""

    source: Source
    planned: int
    follow: bool
    sides: tuple[SideTask, SideTask]
    attributes: tuple[tuple[str, str], ...]
    """Every attribute of events with its type."""
    sequence: tuple[str, ...]
    pairing: Pairing
    time_type: str
    buckets: int
    first: str
    timeout: timedelta | int | None
    late: str | None
    event_schema: Any
    """The Arrow schema of events, as Spark has it."""


class _State(NamedTuple):
    version: int
    header: str
    left: bytes
    right: bytes


# -- which columns -----------------------------------------------------------------------------------------


def needed_by_bands(snapshot: Snapshot) -> list[tuple[dict[str, str], set[str], set[str]]]:
    """Of each side: the columns that bands subtract, with their types; those compared with strings; and with others."""
    rules = band_rules(snapshot, snapshot.in_force)
    return [
        (
            {rule.shape.columns[side]: str(snapshot.types[rule.shape.columns[side]]) for rule in rules},
            {name for rule in rules for name, _ in rule.keys[side]},
            {pair[side] for rule in rules for pair in rule.shape.same},
        )
        for side in (0, 1)
    ]


def refuse_columns(snapshot: Snapshot, task: BandTask) -> None:
    """Refuse a version whose bands need columns that do not arrive."""
    for name, side, (subtracted, texts, same) in zip(SIDES, task.sides, needed_by_bands(snapshot), strict=True):
        absent = sorted({*subtracted, *texts, *same} - side.sent)
        if absent:
            raise FencepostError(
                f"bands that need {name}.{absent[0]}",
                f"only columns that the query was started with: {', '.join(sorted(side.sent))}",
                "Start the query anew with a frame that has the column.",
            )


# -- rules, once per process -------------------------------------------------------------------------------


class _Held(NamedTuple):
    """The rules of one version, ready for the rows of any bucket."""

    snapshot: Snapshot
    layers: Layers
    clock: Clock
    bands: Bands
    bucket: list[int]
    """Whose rows are there, for the names of files."""


_held: "OrderedDict[tuple[Any, ...], _Held]" = OrderedDict()
_changes: "OrderedDict[tuple[Any, ...], RuleChange]" = OrderedDict()


def _at(task: BandTask, version: int) -> _Held:
    place = (task, version)
    found = _held.pop(place, None) or _built(task, version)
    _held[place] = found
    while len(_held) > _HELD:
        _held.popitem(last=False)
    return found


def _built(task: BandTask, version: int) -> _Held:
    snapshot, bucket = last_snapshot(task.source, version), [0]
    late = None

    def keep(side: str, rows: Any) -> None:
        names = {OBJECT: "object", TIME: "time", DELETED: "deleted"}
        rows = rows.drop_columns([name for name, _ in task.sides[SIDES.index(side)].twice])
        rows = rows.rename_columns([names.get(name, name) for name in rows.column_names])
        keep_late(rows, Path(str(task.late), side), bucket[0])

    if task.late is not None:
        late = keep
    clock, layers = Clock(TIME, task.timeout), Layers(snapshot, None)
    clock.start(AttributeType.parse(task.time_type), layers)
    bands = Bands((OBJECT, task.sequence), clock, task.pairing, silent=task.first == "silent", late=late)
    types = {name: AttributeType.parse(kind) for name, kind in task.attributes}
    bands.track(types, [(side.attributes, (*side.keys, *task.pairing.key)) for side in task.sides])
    bands.change(bands.prepared(None, snapshot, {}))
    return _Held(snapshot, layers, clock, bands, bucket)


def _change(task: BandTask, before: _Held, after: _Held) -> RuleChange:
    place = (task, before.snapshot.version, after.snapshot.version)
    found = _changes.pop(place, None) or before.bands.prepared(before.snapshot, after.snapshot, {})
    _changes[place] = found
    while len(_changes) > _HELD:
        _changes.popitem(last=False)
    return found


# -- one step of one bucket --------------------------------------------------------------------------------


def band_step(key: tuple[Any, ...], frames: Iterable[Any], state: Any, task: BandTask) -> Iterator[Any]:
    """For applyInPandasWithState: markers first, then the rows; the events of both, packed, with their meter.

    Args:
        key: the bucket.
        frames: its packed rows, pandas frames.
        state: Spark's state of the bucket.
        task: everything else.
    """
    import pandas as pd

    begin_task()
    begin = time.perf_counter_ns()
    rows, markers = _unpacked(frames)
    before = _State(*state.get) if state.exists else None
    held, newest = None if before is None else before.version, max(markers[VERSION], default=None)

    def check(version: int) -> None:
        refuse_columns(snapshot_at(task.source, version), task)

    claim = version_in_force(task, held, newest, "bands", check)
    found = []
    rules = _at(task, claim.version)
    if before is not None and before.version != claim.version:
        old = _at(task, before.version)
        _load(old, before, task, int(key[0]))
        found.append(old.bands.caused_by(_change(task, old, rules)))
    told = _counted(found)
    _load(rules, before, task, int(key[0]))
    bands = rules.bands
    if markers[CLOCK]:
        now = rules.clock.read(instant_of(max(markers[CLOCK]), AttributeType.parse(task.time_type)))
        found.append(bands.advance(now))
        rules.clock.advance(now)
    if any(rows):
        found.append(bands.update(_tables(rows, task), rules.layers, None))
    state.update((claim.version, *_saved(rules, task)))
    events = [_as_declared(each, task) for each in found if each.num_rows]
    meter = [bands.rows, bands.late_rows, bands.null_rows]
    meter += [bands.events[kind] + told[kind] for kind in DETECTS]
    meter += [time.perf_counter_ns() - begin, claim.version, len(rules.snapshot), claim.rejected]
    yield pd.DataFrame(stepped_rows(events, dict(zip(METERS, meter, strict=True))))


def _unpacked(frames: Iterable[Any]) -> tuple[tuple[list[Any], list[Any]], dict[int, list[int]]]:
    """The tables of either side, and the numbers of markers."""
    markers: dict[int, list[int]] = {VERSION: [], CLOCK: []}
    rows: tuple[list[Any], list[Any]] = ([], [])
    kinds = list(SIDE_KINDS.values())
    for frame in frames:
        for kind, number, payload in zip(frame["kind"], frame["number"], frame["payload"], strict=True):
            if kind in kinds:
                rows[kinds.index(kind)].append(packed_table(payload))
            else:
                markers[kind].append(int(number))
    return rows, markers


def _tables(rows: tuple[list[Any], list[Any]], task: BandTask) -> tuple[Table | None, Table | None]:
    """The rows of either side, if any, under the names that rules have for their columns."""
    found: list[Table | None] = []
    for parts, side in zip(rows, task.sides, strict=True):
        if not parts:
            found.append(None)
            continue
        table = pa.concat_tables(parts)
        for name, same in side.twice:
            table = table.append_column(name, table.column(same))
        found.append(Table(table))
    return found[0], found[1]


def _counted(found: list[Any]) -> dict[str, int]:
    """How many events there are of each kind."""
    kinds = [kind for each in found for kind in each["detect"].to_pylist()]
    return {kind: kinds.count(kind) for kind in DETECTS}


def _as_declared(events: Any, task: BandTask) -> Any:
    return events.rename_columns(task.event_schema.names).cast(task.event_schema)


# -- state -------------------------------------------------------------------------------------------------


def _saved(rules: _Held, task: BandTask) -> tuple[str, bytes, bytes]:
    header = state_head(task, _FORMAT, rules.snapshot.version, rules.clock.saved()) | {"key": list(task.pairing.key)}
    left, right = (packed_bytes(table_of(state)) for state in rules.bands.states)
    return json.dumps(header), left, right


def _load(rules: _Held, before: _State | None, task: BandTask, bucket: int) -> None:
    """Put the rows of a bucket under rules, in place of those that are there."""
    rules.bucket[0] = bucket
    nothing = pa.table({"object": pa.nulls(0)})
    tables, clock = [nothing, nothing], {"type": task.time_type, "marker": None}
    if before is not None:
        header = json.loads(before.header)
        check_head(header, task, "bands", _FORMAT, {"key": list(task.pairing.key)})
        tables, clock = [packed_table(before.left), packed_table(before.right)], header["clock"]
    states = [side_of(table, rules.bands, side) for side, table in enumerate(tables)]
    rules.clock.restore(clock)
    rules.bands.restore(states, ({}, {}))


# -- batch frames ------------------------------------------------------------------------------------------


def band_batch(frame: Any, task: BandTask) -> Any:
    """For applyInPandas on the packed rows of one bucket of a batch frame: its events, packed.

    Rows are taken in the order of time, a part at a time, so that only the rows themselves need room at once.
    """
    import pandas as pd

    begin_task()
    rows, _ = _unpacked([frame])
    rules = _at(task, task.planned)
    _load(rules, None, task, 0)
    payloads = []
    for part in _parts([pa.concat_tables(each) if each else None for each in rows]):
        events = rules.bands.update(_tables(part, task), rules.layers, None)
        if events.num_rows:
            payloads += packed_pieces(_as_declared(events, task))
    return pd.DataFrame({"payload": payloads}, dtype=object)


def _parts(tables: list[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """Rows of both sides by time, no time in two parts."""
    kind: AttributeType | None = None
    ordered: list[Any] = []
    times: list[Int64s] = []
    for table in tables:
        if table is None:
            ordered.append(None)
            times.append(np.zeros(0, np.int64))
            continue
        table = table.take(pc.sort_indices(table, [(TIME, "ascending")], null_placement="at_start"))
        column = table.column(TIME).combine_chunks()
        kind = kind or AttributeType.parse(column.type)
        ordinals, known = kind.encode(column, TIME)
        ordered.append(table)
        times.append(ordinals if known is None else np.where(known, ordinals, np.iinfo(np.int64).min))
    every = np.sort(np.concatenate(times))
    cuts = np.unique(every[MOST_ROWS // 4 :: MOST_ROWS // 4])
    places = [[0, *np.searchsorted(own, cuts, "right").tolist(), len(own)] for own in times]
    for number in range(len(cuts) + 1):
        part: tuple[list[Any], list[Any]] = ([], [])
        for side, (table, at) in enumerate(zip(ordered, places, strict=True)):
            if table is not None and at[number + 1] > at[number]:
                part[side].append(table.slice(at[number], at[number + 1] - at[number]))
        if any(part):
            yield part
