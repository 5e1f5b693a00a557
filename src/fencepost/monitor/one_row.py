"""One row at a time, without tables: the path for callers that wait for the answer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.emitting.emitter import Emitter
from fencepost.emitting.event import Event, event_class
from fencepost.errors import FencepostError, check_whole
from fencepost.indexes.slice_list.few_moves import LATE, NOTHING_SEEN, TAKEN, gather_moves, store_moves
from fencepost.ordinals import AttributeType
from fencepost.watching.engine import Watch
from fencepost.watching.few_rows import ShortWay
from fencepost.watching.moved import Moved, values_of, write_move
from fencepost.watching.objects import UNKNOWN
from fencepost.watching.positions import NO_KEY, Positions


def update_one(
    watch: Watch,
    emitter: Emitter,
    update: Callable[[Any], Any],
    object: Any,
    time: Any,
    values: Mapping[str, Any],
) -> list[Event]:
    """See Monitor.update_one.

    A row that does not go the short way, as an object's first one, goes through `update`, which takes a table.
    """
    watch.tidy_few(1)
    way = None if object is None else watch.short_way()
    slot = UNKNOWN if way is None else watch.state.objects.slot(object)
    if way is None or slot == UNKNOWN:
        return _through_table(watch, update, object, time, values)
    columns, one = watch.columns, way.one
    one.begin(slot)
    given = _name_values(watch, object, time, values)
    _put_values(watch, way, given)
    sequence = [_encode_sequence(given.get(name), name) for name in columns.sequence] if columns.sequence else []
    if columns.time is not None:
        assert watch.clock.type is not None, "there is a short way only where times have a type"
        at = watch.clock.type.encode_one(time, columns.time)
        if at is None:
            if not watch.state.present[slot]:
                return _through_table(watch, update, object, time, values)
            watch.count_row(null=True)
            return []
        one.put_at(at)
    state = way.table(watch)
    outcome = gather_moves(state, one.given, one.work, one.times)
    if outcome == NOTHING_SEEN:
        watch.count_row(null=True)
        return []
    if outcome == LATE:
        row = _whole_row(watch, object, time, values)
        watch.count_row(late=lambda: pa.table({name: [value] for name, value in row.items()}))
        return []
    found = -1
    if outcome == TAKEN and not watch.state.damped.has(slot):
        found = way.find(watch, one.work)
    if found < 0:
        return _through_table(watch, update, object, time, values)
    events: list[Event] = []
    if found:
        move = Moved(way.changes[:found].tolist(), one.work.tolist(), int(one.times[0]), slot, object, sequence)
        row = _whole_row(watch, object, time, values) if emitter.columns.carry else {}
        tuples = write_move(watch, emitter, way, move, row)
        events = list(map(_name_fields(watch, emitter, len(tuples[0])), tuples))
    watch.settle_few(lambda: store_moves(state, one.given, one.work, one.times), one.slots)
    return events


def _whole_row(watch: Watch, object: Any, time: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its object and its time."""
    columns = watch.columns
    return {**values, columns.object: object, **({} if columns.time is None else {columns.time: time})}


def _put_values(watch: Watch, way: ShortWay, given: Mapping[str, Any]) -> None:
    """Let the one row have the ordinals of attributes, and the codes of keys, that it observes."""
    types, strings, one = way.kept.types, watch.state.strings, way.one
    for name, value in given.items():
        place = way.forms.get(name)
        if place is None:
            continue
        type_ = types.get(name)
        if type_ is None:
            if value is not None:
                one.put(place, strings[name].code(_string(value, name)))
        elif type(value) is float and type_.kind == "double":
            one.put_double(place, value)
        elif (ordinal := type_.encode_one(value, name)) is not None:
            one.put(place, ordinal)


def _name_fields(watch: Watch, emitter: Emitter, fields: int) -> type[Event]:
    """The class of events. A monitor's events gain columns and never lose any: their number says which they have."""
    if len(emitter.row_class.columns) != fields:
        emitter.row_class = event_class(tuple(emitter.schema(watch.subjects()).names))
    return emitter.row_class


def _move(was: Positions, ordinals: Mapping[str, int], keys: Mapping[str, int]) -> Positions:
    """The position of an object after a row; what the row does not observe stays."""
    now = Positions(1, dict(was.ordinals), dict(was.known), dict(was.keys))
    for name, ordinal in ordinals.items():
        now.ordinals[name], now.known[name] = np.array([ordinal]), _KNOWN
    for name, code in keys.items():
        now.keys[name] = np.array([code])
    return now


_KNOWN = np.ones(1, np.bool_)


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
    rows = zip(*map(values_of, events.columns), strict=True)
    return list(map(event_class(tuple(events.column_names)), rows))


def _column(value: Any) -> Any:
    if isinstance(value, str):
        check_whole(value)
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
