"""One row at a time, without tables: the path for callers that wait for the answer."""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.emitting.emitter import Emitter
from fencepost.emitting.event import Event, event_class
from fencepost.emitting.further import has_since
from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS, Table
from fencepost.snapshot.labels import RuleTexts
from fencepost.watching.engine import Watch
from fencepost.watching.objects import UNKNOWN
from fencepost.watching.positions import NO_KEY, Positions, batch_of

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_PACK, _UNPACK = struct.Struct("<q").pack, struct.Struct("<d").unpack
_TIDY_EVERY = 2**14
_EXIT, _ENTER, _INSIDE = DETECTS["exit"], DETECTS["enter"], DETECTS["inside"]


class _Row(NamedTuple):
    """A row of an object that is here: what it observes, as ordinals and codes."""

    slot: int
    at: int
    ordinals: dict[str, int]
    keys: dict[str, int]
    sequence: list[int | None]


class _Move(NamedTuple):
    """What a row does: the rules after it, and the changes that become events."""

    row: _Row
    holds: frozenset[int]
    found: list[tuple[int, int]]
    """The row of each rule that changed, and the detected bit, in the order of events."""
    before: dict[str, int | None]
    keys_before: dict[str, int]


def update_one(
    watch: Watch,
    emitter: Emitter,
    update: Callable[[Any], Any],
    object: Any,
    time: Any,
    values: Mapping[str, Any],
) -> list[Event]:
    """See Monitor.update_one.

    An object's first row, and rules or settings that look further than the two positions of the row (cross, expiry,
    timeout), go through `update`, which takes a table.
    """
    _tidy(watch)
    slot = _plain_slot(watch, object)
    if slot == UNKNOWN:
        return _through_table(watch, update, object, time, values)
    state, clock, columns = watch.state, watch.clock, watch.columns
    assert clock.type is not None, "the object was seen before"

    # The row: what it observes, and whether it is taken at all.
    given = _name_values(watch, object, time, values)
    ordinals, keys = _encode(watch, given)
    sequence = [_encode_sequence(given.get(name), name) for name in columns.sequence]
    at = int(state.times[slot]) + 1 if columns.time is None else clock.type.encode_one(time, columns.time)
    if at is None or not _observes(watch, ordinals, keys):
        watch.count_row(null=True)
        return []
    if at < state.times[slot]:
        row = {columns.object: object, **({} if columns.time is None else {columns.time: time}), **values}
        watch.count_row(late=lambda: pa.table({name: [value] for name, value in row.items()}))
        return []

    move = _find_move(watch, _Row(slot, at, ordinals, keys, sequence))
    if move is None:
        return _through_table(watch, update, object, time, values)
    events: list[Event] = []
    if move.found:
        row = {**values, columns.object: object, **({} if columns.time is None else {columns.time: time})}
        tuples = _emit(watch, emitter, move, object, row)
        events = list(map(_name_fields(watch, emitter, len(tuples[0])), tuples))
    _settle(watch, move)
    return events


def update_table(watch: Watch, emitter: Emitter, table: Table) -> Any | None:
    """The events of a table of few rows, as `Monitor.update` gives them; None where it must go the long way.

    It takes rows that `update_one` would take, of objects of their own, in the order of time and in columns of the very
    types of the state: then nothing is converted, and no row has to do with another.
    """
    if not 0 < table.rows <= _FEW_ROWS or emitter.columns.carry or not watch.is_plain():
        return None
    _tidy(watch)
    named = _plain_values(table, watch.columns.object, watch.state.objects.type)
    rows = None if named is None else _read_rows(watch, table, named)
    if named is None or rows is None:
        return None
    moves = []
    for row in rows:
        move = _find_move(watch, row)
        if move is None:
            return None
        moves.append(move)
    events = emitter.no_events(watch.subjects())
    tuples = [
        event
        for object, move in zip(named, moves, strict=True)
        if move.found
        for event in _emit(watch, emitter, move, object, {})
    ]
    if tuples:
        schema = events.schema
        arrays = [pa.array(values, field.type) for values, field in zip(zip(*tuples, strict=True), schema, strict=True)]
        events = pa.Table.from_arrays(arrays, schema=schema)
    for move in moves:
        _settle(watch, move)
    return events


def _read_rows(watch: Watch, table: Table, named: list[Any]) -> list[_Row] | None:
    """The rows of a table; None where one of them must go the long way."""
    state, clock, columns, needed = watch.state, watch.clock, watch.columns, watch.rules.used
    slots = [_plain_slot(watch, object) for object in named]
    if UNKNOWN in slots or len(set(slots)) < len(slots):
        return None
    lasts = [int(state.times[slot]) for slot in slots]
    times = [last + 1 for last in lasts]
    if columns.time is not None:
        assert clock.type is not None, "the objects were seen before"
        instants = _plain_instants(table, columns.time, clock.type)
        if instants is None or any(at < last for at, last in zip(instants, lasts, strict=True)):
            return None
        if instants != sorted(instants):
            return None
        times = instants
    sequences = [_plain_values(table, name, pa.int64()) for name in columns.sequence]
    if any(each is None for each in sequences) or (sequences and len(slots) > 1):
        return None  # rows of one time go by their sequence
    observed: list[tuple[dict[str, int], dict[str, int]]] = [({}, {}) for _ in slots]
    for name, type_ in watch.rules.kept.types.items():
        if name in needed or table.find(name) is not None:
            values = _plain_values(table, name, _PLAIN_TYPES.get(type_.kind))
            if values is None:
                return None
            for (ordinals, _), value in zip(observed, values, strict=True):
                ordinal = type_.encode_one(value, name)
                if ordinal is not None:
                    ordinals[name] = ordinal
    texts = {}
    for name in state.strings:
        if name in needed or table.find(name) is not None:
            texts[name] = _plain_values(table, name, pa.string())
    if None in texts.values():
        return None
    for name, own in texts.items():
        for (_, keys), text in zip(observed, own or (), strict=True):
            keys[name] = state.strings[name].code(text)
    if not all(_observes(watch, *each) for each in observed):
        return None
    first: list[int | None] = [each[0] for each in sequences if each is not None]
    return [
        _Row(slot, at, ordinals, keys, first) for slot, at, (ordinals, keys) in zip(slots, times, observed, strict=True)
    ]


_FEW_ROWS = 12
"""Rows up to which one after the other is faster than all at once."""
_PLAIN_TYPES = {"double": pa.float64(), "bigint": pa.int64()}
"""Arrow types whose values in Python are the very values of an attribute of this kind."""
_PLAIN_TIMES = ("bigint", "timestamp", "timestamp_ntz")
"""Kinds whose ordinals are what Arrow keeps."""


def _plain_column(table: Table, name: str, type_: Any) -> Any | None:
    """A column of this type as one Arrow array without nulls; None where it would have to be made."""
    if type_ is None or table.find(name) is None:
        return None
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    return column if isinstance(column, pa.Array) and column.type == type_ and not column.null_count else None


def _plain_values(table: Table, name: str, type_: Any) -> list[Any] | None:
    """The values of a column of this Arrow type; None where it has nulls, or another type."""
    column = _plain_column(table, name, type_)
    return None if column is None else column.to_pylist()


def _plain_instants(table: Table, name: str, type_: AttributeType) -> list[int] | None:
    """The times of rows; None where some are null, or have another type than clocks."""
    column = _plain_column(table, name, type_.arrow) if type_.kind in _PLAIN_TIMES else None
    if column is None:
        return None
    times: list[int] = np.frombuffer(column.buffers()[1], np.int64)[column.offset :][: len(column)].tolist()
    return times


def _tidy(watch: Watch) -> None:
    """Give back room now and then."""
    if not (watch.counts.rows + 1) % _TIDY_EVERY:
        watch.state.tidy()
        watch.forget_answers()


def _find_move(watch: Watch, row: _Row) -> _Move | None:
    """The rules before and after a row, and those that differ; None where damping has to do with it."""
    state, rules, slot = watch.state, watch.rules, row.slot
    kept = rules.kept
    before = {name: state.value(name, slot) for name in kept.types}
    keys_before = {name: state.key(name, slot) for name in state.strings}
    held = watch.inside_now.get(slot)
    if held is None:
        held = _rules_at(watch, before, keys_before)
    holds = _rules_at(watch, {**before, **row.ordinals}, {**keys_before, **row.keys})
    damped = watch.damped()
    if damped is not None and (state.damped.has(slot) or any(damped.is_damped[each] for each in held ^ holds)):
        return None
    found = _changes(watch, held, holds) if held or holds else []
    return _Move(row, holds, found, before, keys_before)


def _emit(watch: Watch, emitter: Emitter, move: _Move, object: Any, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The events of a move, as tuples."""
    rules, row, before = watch.rules, move.row, move.before
    assert watch.clock.type is not None, "the object was seen before"
    after = {**before, **row.ordinals}
    names = sorted(rules.types)
    shown = [_value(rules.types[name], values[name]) for name in names for values in (after, before)]
    moved = [(before[name], after[name]) for name in names]
    instant = (watch.clock.type, row.at, _value(watch.clock.type, row.at))
    identity = watch.state.objects.identity(row.slot)
    facts = [(int(rules.ids[each]), int(rules.versions[each]), bit) for each, bit in move.found]
    further = _further(watch, emitter, move, given)
    return emitter.emit_row(facts, object, identity, instant, row.sequence, moved, shown, rules.version, further)


def _settle(watch: Watch, move: _Move) -> None:
    """Remember where the object is now. Nothing can fail from here on."""
    row = move.row
    watch.state.store_one(row.slot, row.at, row.ordinals, row.keys)
    watch.count_row()
    watch.forget_answers(about_rules=False)
    watch.inside_now[row.slot] = move.holds


def _further(watch: Watch, emitter: Emitter, move: _Move, given: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
    """The values of further columns, for each event of a move."""
    rows = [row for row, _ in move.found]
    columns, about = emitter.columns, watch.subjects()
    keys: list[Any] = [None] if has_since(about, columns) else []  # what a row causes is so since the row
    for name in emitter.keys_of(about):
        was = move.keys_before[name]
        keys += [watch.state.strings[name].text(code) for code in (move.row.keys.get(name, was), was)]
    if not (columns.of_rules or columns.carry):
        return [tuple(keys)] * len(rows) if keys else None
    texts_of: list[list[Any]] = []
    if columns.of_rules:
        texts, asked = RuleTexts(watch.rules.compiled), np.array(rows, np.int64)
        if columns.labels:
            texts_of = [texts.names(asked).to_pylist(), _values(texts.labels(asked))]
        if columns.condition:
            texts_of.append(texts.conditions(asked).to_pylist())
    by_name = {name.lower(): value for name, value in given.items()}
    carried = [by_name.get(name.lower()) for name in columns.carry]
    return [(*keys, *(column[place] for column in texts_of), *carried) for place in range(len(rows))]


def _values(column: Any) -> list[Any]:
    """The values of a column; maps as dicts."""
    values: list[Any] = (
        column.to_pylist(maps_as_pydicts="strict") if pa.types.is_map(column.type) else column.to_pylist()
    )
    return values


def _name_fields(watch: Watch, emitter: Emitter, fields: int) -> type[Event]:
    """The class of events. A monitor's events gain columns and never lose any: their number says which they have."""
    if len(emitter.row_class.columns) != fields:
        emitter.row_class = event_class(tuple(emitter.schema(watch.subjects()).names))
    return emitter.row_class


def _observes(watch: Watch, ordinals: Mapping[str, int], keys: Mapping[str, int]) -> bool:
    """Whether a row observes anything at all, as `find_observing` says."""
    kept, naming = watch.rules.kept, watch.naming()
    if not naming:
        return bool(ordinals or keys or not (kept.types or kept.keys))
    return any(name not in naming for name in (*ordinals, *keys)) or {*kept.types, *kept.keys} <= naming


def _changes(watch: Watch, held: frozenset[int], holds: frozenset[int]) -> list[tuple[int, int]]:
    """The changes that a row causes, in the order of events: the row of each rule, and the detected bit."""
    rules = watch.rules
    found: list[tuple[int, int]] = []
    for rows, bit in ((held - holds, _EXIT), (holds - held, _ENTER), (holds, _INSIDE)):
        if not rules.detected & bit:
            continue
        wanted = [row for row in rows if rules.detects[row] & bit]
        if len(wanted) > 1:
            wanted.sort(key=rules.ids.__getitem__)
        found += [(row, bit) for row in wanted]
    return found


def _move(was: Positions, ordinals: Mapping[str, int], keys: Mapping[str, int]) -> Positions:
    """The position of an object after a row; what the row does not observe stays."""
    now = Positions(1, dict(was.ordinals), dict(was.known), dict(was.keys))
    for name, ordinal in ordinals.items():
        now.ordinals[name], now.known[name] = np.array([ordinal]), _KNOWN
    for name, code in keys.items():
        now.keys[name] = np.array([code])
    return now


_KNOWN = np.ones(1, np.bool_)


def _plain_slot(watch: Watch, object: Any) -> int:
    """The number of an object whose row is a plain move; `UNKNOWN` otherwise."""
    if object is None or not watch.is_plain():
        return UNKNOWN
    slot = watch.state.objects.slot(object)
    return slot if slot != UNKNOWN and watch.state.present[slot] else UNKNOWN


def _rules_at(watch: Watch, ordinals: Mapping[str, int | None], keys: Mapping[str, int]) -> frozenset[int]:
    """The rows of the rules that hold at one position."""
    strings, snapshot = watch.state.strings, watch.rules.snapshot()
    if not snapshot.computed:
        codes = {name: strings[name].translate_one(keys[name], snapshot.key_column(name)) for name in snapshot.keys}
        return snapshot.rows_at(ordinals, codes)
    known = {name: ordinal for name, ordinal in ordinals.items() if ordinal is not None}
    positions = _move(_nowhere(watch), known, keys)
    return frozenset(snapshot.match_rows(batch_of(snapshot, positions, strings))[0].tolist())


def _through_table(
    watch: Watch, update: Callable[[Any], Any], object: Any, time: Any, values: Mapping[str, Any]
) -> list[Event]:
    """The same through a table of one row."""
    columns: dict[str, Any] = {}
    for name in (*watch.rules.kept.types, *watch.state.strings, *watch.columns.sequence):
        columns[name] = pa.nulls(1, pa.int64()) if name in watch.columns.sequence else pa.nulls(1)
    for name, value in _name_values(watch, object, time, values).items():
        columns[name] = _column(value)
    by_name, named = {name.lower(): value for name, value in values.items()}, watch.columns
    for name in named.carry:
        if name.lower() not in {named.object.lower(), (named.time or named.object).lower()}:
            columns[name] = _column(by_name[name.lower()]) if name.lower() in by_name else pa.nulls(1)
    columns[watch.columns.object] = _column(object)
    if watch.columns.time is not None:
        columns[watch.columns.time] = _column(time)
    events = update(columns)
    rows = zip(*map(_values, events.columns), strict=True)
    return list(map(event_class(tuple(events.column_names)), rows))


def _column(value: Any) -> Any:
    return pa.array([value.item() if isinstance(value, np.generic) and value.dtype.kind in "biuf" else value])


def encode(watch: Watch, values: Mapping[str, Any]) -> Positions:
    """One position with the given values."""
    types, strings = watch.rules.kept.types, watch.state.strings
    names = watch.own_names()
    given = {}
    for name, value in values.items():
        own = names[name]
        if own is None:
            columns = ", ".join(sorted([*types, *strings])) or "none"
            raise FencepostError(f"a value for {name}", f"a column that the rules use: {columns}", "Leave it out.")
        given[own] = value
    return _move(_nowhere(watch), *_encode(watch, given))


def _nowhere(watch: Watch) -> Positions:
    """A position of which nothing is known."""
    types, strings = watch.rules.kept.types, watch.state.strings
    return Positions(
        1,
        {name: np.zeros(1, np.int64) for name in types},
        {name: np.zeros(1, np.bool_) for name in types},
        {name: np.full(1, NO_KEY, np.int64) for name in strings},
    )


def _encode(watch: Watch, given: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """The ordinals of attributes, and the codes of keys, that a row observes."""
    types, strings = watch.rules.kept.types, watch.state.strings
    ordinals: dict[str, int] = {}
    keys: dict[str, int] = {}
    for name, value in given.items():
        if name in types:
            ordinal = types[name].encode_one(value, name)
            if ordinal is not None:
                ordinals[name] = ordinal
        elif name in strings and value is not None:
            keys[name] = strings[name].code(_string(value, name))
    return ordinals, keys


def _encode_sequence(value: Any, name: str) -> int | None:
    return None if value is None else AttributeType.parse(_column(value).type).encode_one(value, name)


def _name_values(watch: Watch, object: Any, time: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a row by the watch's own names, without those of columns that no rule uses.

    Its object and its time are among them where rules use them.
    """
    names, columns = watch.own_names(), watch.columns
    given: dict[str, Any] = {}
    for name, value in values.items():
        own = names[name]
        if own is not None and (own == name or own not in values):
            if own in given:
                spelled = " and ".join(each for each in values if each.lower() == own.lower())
                raise FencepostError(f"values {spelled} for {own}", "one value of that name", "Rename one of the two.")
            given[own] = value
    for column, value in ((columns.object, object), (columns.time, time)):
        if column is not None and (own := names[column]) is not None and own not in columns.sequence:
            given[own] = value
    return given


def _string(value: Any, column: str) -> str:
    if not isinstance(value, str):
        raise FencepostError(
            f"{value!r} for {column}",
            "a string, since rules compare it with quoted strings",
            "Convert it to a string in the same form that the rules use.",
        )
    return value


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
