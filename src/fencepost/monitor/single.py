"""One row at a time, without tables: the path for callers that wait for the answer."""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fencepost.errors import FencepostError
from fencepost.events import ABSENT, event_id, time_tag
from fencepost.monitor.objects import UNKNOWN
from fencepost.monitor.positions import NO_KEY, Positions
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, Batch

if TYPE_CHECKING:
    from fencepost.monitor.core import Monitor

__all__ = ["encoded", "update_one"]

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_PACK, _UNPACK = struct.Struct("<q").pack, struct.Struct("<d").unpack
_TIDY_EVERY = 2**14
_EXIT, _ENTER, _INSIDE = DETECTS["exit"], DETECTS["enter"], DETECTS["inside"]


def update_one(monitor: "Monitor", object: Any, time: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """See Monitor.update_one.

    An object's first row, and rules or settings that look further than the two positions of the row (cross, expiry,
    timeout), go through `update`.
    """
    if not (monitor._rows + 1) % _TIDY_EVERY:
        monitor._state.tidy()
        monitor._moved()
    slot = _plain_slot(monitor, object)
    if slot == UNKNOWN:
        return _through_table(monitor, object, time, values)
    state, layers, clock = monitor._state, monitor._layers, monitor._clock
    assert clock.type is not None, "the object was seen before"
    types, strings = layers.types, state.strings
    ordinals: dict[str, int] = {}
    keys: dict[str, int] = {}
    sequence: dict[str, int | None] = dict.fromkeys(monitor.sequence)
    for own, value in _given(monitor, object, time, values).items():
        if own in types:
            ordinal = types[own].encode_one(value, own)
            if ordinal is not None:
                ordinals[own] = ordinal
        elif own in strings and value is not None:
            keys[own] = strings[own].code(_string(value, own))
        if own in sequence:
            sequence[own] = None if value is None else _type_of(value).encode_one(value, own)
    at = int(state.times[slot]) + 1 if monitor.time is None else clock.type.encode_one(time, monitor.time)
    monitor._rows += 1
    if at is None or not (ordinals or keys or not (types or strings)):
        monitor._null_rows += 1
        return []
    if at < state.times[slot]:
        monitor._late_rows += 1
        if monitor._late is not None:
            given = {monitor.object: object, **({} if monitor.time is None else {monitor.time: time}), **values}
            monitor._late(pa.table({name: [value] for name, value in given.items()}))
        return []

    held = monitor._inside_now.get(slot)
    here = slice(slot, slot + 1)
    was = state.positions(np.array([slot])) if held is None else None
    before = {name: state.value(name, slot) for name in types}
    state.store_one(slot, at, ordinals, keys)
    monitor._now = None
    after = {**before, **ordinals}
    if was is None:
        assert held is not None, "it was asked before"
        holds = _rules_at(monitor, state.positions(here), 1)[0]  # views: nothing is copied for one row
    else:
        held, holds = _rules_at(monitor, was.followed_by(state.positions(here)), 2)
    monitor._inside_now[slot] = holds
    if not held and not holds:
        return []
    detects, ids = layers.detects, layers.ids
    found: list[tuple[int, int]] = []
    for rows, bit in ((held - holds, _EXIT), (holds - held, _ENTER), (holds, _INSIDE)):
        if not layers.detected & bit:
            continue
        wanted = [row for row in rows if detects[row] & bit]
        if len(wanted) > 1:
            wanted.sort(key=ids.__getitem__)
        found += [(row, bit) for row in wanted]
    if not found:
        return []
    return _tuples(monitor, object, slot, at, found, before, after, list(sequence.values()))


def _tuples(
    monitor: "Monitor",
    object: Any,
    slot: int,
    at: int,
    found: list[tuple[int, int]],
    before: Mapping[str, int | None],
    after: Mapping[str, int | None],
    sequence: list[int | None],
) -> list[tuple[Any, ...]]:
    """The events as the columns of `update` would have them."""
    layers, clock = monitor._layers, monitor._clock
    assert clock.type is not None, "the object was seen before"
    tag, identity = time_tag(clock.type), monitor._state.objects.identity(slot)
    names = sorted(layers.types)
    moved = [(before[name], after[name]) for name in names]
    shown = _value(clock.type, at)
    values: list[Any] = []
    for name, (was, now) in zip(names, moved, strict=True):
        values += (_value(layers.types[name], now), _value(layers.types[name], was))
    events = []
    for row, bit in found:
        id, version = int(layers.ids[row]), int(layers.versions[row])
        digest = event_id(id, version, identity, ABSENT, bit, tag, at, 0, sequence, moved)
        kind = _KINDS[bit]
        monitor._events[kind] += 1
        events.append((digest, id, version, layers.version, object, None, kind, shown, None, *values))
    return events


_KINDS = {bit: kind for kind, bit in DETECTS.items()}


def _plain_slot(monitor: "Monitor", object: Any) -> int:
    """The slot of an object whose row is a plain move; `UNKNOWN` otherwise."""
    layers, state = monitor._layers, monitor._state
    if monitor._plain_rules is None:
        telling = not layers.crossing() and not len(layers.expiring)
        monitor._plain_rules = telling and monitor._clock.given_timeout is None
    if not monitor._plain_rules or object is None:
        return UNKNOWN
    slot = state.objects.slot(object)
    return slot if slot != UNKNOWN and state.present[slot] else UNKNOWN


def _rules_at(monitor: "Monitor", positions: Positions, rows: int) -> list[frozenset[int]]:
    """The rows of the rules that hold at each of a few positions."""
    strings, snapshot = monitor._state.strings, monitor._layers.snapshot()
    known = {name: None if mask.all() else mask for name, mask in positions.known.items()}
    keys = {name: strings[name].translated(positions.keys[name], snapshot.key_column(name)) for name in snapshot.keys}
    found = snapshot.match_rows(Batch(rows, positions.ordinals, known, keys))
    return [frozenset(found[row].tolist()) for row in range(rows)]


def _through_table(monitor: "Monitor", object: Any, time: Any, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The same through a table of one row."""
    columns: dict[str, Any] = {}
    for name in (*monitor._layers.types, *monitor._state.strings, *monitor.sequence):
        columns[name] = pa.nulls(1, pa.int64()) if name in monitor.sequence else pa.nulls(1)
    for name, value in _given(monitor, object, time, values).items():
        columns[name] = _column(value)
    columns[monitor.object] = _column(object)
    if monitor.time is not None:
        columns[monitor.time] = _column(time)
    events = monitor.update(columns)
    return list(zip(*(column.to_pylist() for column in events.columns), strict=True))


def _column(value: Any) -> Any:
    return pa.array([value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value])


def encoded(monitor: "Monitor", values: Mapping[str, Any]) -> Positions:
    """One position with the given values."""
    types, strings = monitor._layers.types, monitor._state.strings
    ordinals = {name: np.zeros(1, np.int64) for name in types}
    known = {name: np.zeros(1, np.bool_) for name in types}
    keys = {name: np.full(1, NO_KEY, np.int64) for name in strings}
    for name, value in values.items():
        own = _own_name(monitor, name)
        if own in types:
            ordinal = types[own].encode_one(value, own)
            if ordinal is not None:
                ordinals[own][0], known[own][0] = ordinal, True
        elif own in strings and value is not None:
            keys[own][0] = strings[own].code(_string(value, own))
    return Positions(1, ordinals, known, keys)


def _own_name(monitor: "Monitor", name: str) -> str:
    """The monitor's own name of a column."""
    types, strings = monitor._layers.types, monitor._state.strings
    if name in types or name in strings or name in monitor.sequence:
        return name
    columns = [*types, *strings, *monitor.sequence]
    near = [own for own in columns if own.lower() == name.lower()]
    if len(near) == 1:
        return near[0]
    raise FencepostError(
        f"a value for {name}", f"a column that the rules use: {', '.join(sorted(columns)) or 'none'}", "Leave it out."
    )


def _given(monitor: "Monitor", object: Any, time: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row by the monitor's own names; its object and its time are among them where rules use them."""
    given = {_own_name(monitor, name): value for name, value in values.items()}
    used = {name.lower(): name for name in (*monitor._layers.types, *monitor._state.strings)}
    for name, value in ((monitor.object, object), (monitor.time, time)):
        if name is not None and name.lower() in used:
            given[used[name.lower()]] = value
    return given


def _string(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise FencepostError(
            f"{value!r} for {column}",
            "a string, since rules compare it with quoted strings",
            "Convert it to a string in the same form that the rules use.",
        )
    return value


def _type_of(value: Any) -> AttributeType:
    return AttributeType.parse(_column(value).type)


def _value(type: AttributeType, ordinal: int | None) -> Any:
    """The value of an ordinal, as Arrow would give it to Python."""
    if ordinal is None:
        return None
    if type.kind == "double":
        return _UNPACK(_PACK(ordinal if ordinal >= 0 else (-ordinal) - 2**63))[0]
    if type.kind == "bigint":
        return ordinal
    if type.kind in ("timestamp", "timestamp_ntz"):
        return (_EPOCH_UTC if type.kind == "timestamp" else _EPOCH) + timedelta(microseconds=ordinal)
    return type.decode(np.array([ordinal]))[0].as_py()
