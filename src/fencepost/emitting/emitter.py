"""The emitter: the one place where detections become events."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._arrow import strings_array
from fencepost.emitting.detections import ENDED, Detections, Named, Subjects, join_detections
from fencepost.emitting.engine import Step
from fencepost.emitting.event import Event
from fencepost.emitting.further import EventColumns, further_arrays, further_fields, join_types, shown_keys
from fencepost.errors import FencepostError
from fencepost.events import (
    ABSENT,
    Facts,
    Identities,
    Identity,
    Moved,
    event_id,
    event_schema,
    event_table,
    time_tag,
)
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.indexes.matches import check_room, in_pieces
from fencepost.ordinals import AttributeType
from fencepost.snapshot import DETECTS

Stage = Callable[[Detections, Subjects], Detections]
"""Decides in front of the writer which detections go on: those that one shard reports. Damping is none: it remembers
what waits, so it is a part of the engines' steps (`watching/damping.py`, `pairing/damping.py`)."""

_KINDS = {bit: kind for kind, bit in DETECTS.items()}
_BITS = max(_KINDS) + 1
_PLAIN = EventColumns()
_BYTES = 400
"""About what an event takes while it is written."""
_MANY = 512
"""From so many events on, a table of them is worth the short form."""


class Emitter:
    """Orders detections that pass its stages, counts them, gives them ids and writes them. Nobody else does.

    Args:
        stages: what detections must pass.
        columns: what events have beside their fixed columns.
        short: tables of many events are in the short form (`_coded`), since they still have a way to go.
    """

    def __init__(self, *stages: Stage, columns: EventColumns = _PLAIN, short: bool = False) -> None:
        self._stages, self.columns, self._short = stages, columns, short
        self.counts = dict.fromkeys(DETECTS, 0)
        """Events written so far, by kind."""
        self.row_class: type[Event] = Event
        """The names that the events of single rows have."""
        self._empty: dict[tuple[Any, ...], Any] = {}
        self._shown: dict[tuple[Any, ...], tuple[str, ...]] = {}
        self._makers: tuple[Any, list[Callable[[Sequence[Any]], Any]]] | None = None
        """What makes the columns of few events, of a schema."""
        self._last: tuple[Subjects, Any, Any] | None = None
        """The subjects that were asked about last, their empty table, and its schema."""

    def emit(self, step: Step) -> Any:
        """Write all events of a step as one table; refuses one that has no room.

        Events are ordered by the row that caused them; on one row by exit, cross, enter, inside, then by rule id and
        object. What no row caused is ordered by time, rule id and object.
        """
        if step.singly is not None:
            return self._table_of(step.singly(self), self._schema_of(step.about))
        pieces, count = [], 0
        for found in self._passing(step):
            count += len(found.rules)
            check_room(_BYTES * count)
            pieces.append(found)
        if not pieces:
            return self.no_events(step.about)
        found = pieces[0] if len(pieces) == 1 else join_detections(pieces)
        return self._write(_put_in_order(found, step.about), step.about, 0, count)

    def emit_pieces(self, step: Step) -> Iterator[Any]:
        """The same events in the same order, in tables that have room each; none where there is no event."""
        for found in self._passing(step):
            ordered = _put_in_order(found, step.about)
            yield from in_pieces(len(ordered.rules), partial(self._write, ordered, step.about))

    @property
    def writes_singly(self) -> bool:
        """Whether it can write events that come as tuples."""
        return not (self._stages or self.columns.of_rules or self.columns.carry)

    def _table_of(self, events: Sequence[tuple[Any, ...]], schema: Any) -> Any:
        """A table of few events, which are tuples."""
        if self._makers is None or self._makers[0] is not schema:
            self._makers = schema, [_MAKERS.get(type_, partial(pa.array, type=type_)) for type_ in schema.types]
        columns = zip(*events, strict=True)
        arrays = [make(values) for make, values in zip(self._makers[1], columns, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _passing(self, step: Step) -> Iterator[Detections]:
        """What the stages let through."""
        for found in step.pieces:
            for stage in self._stages:
                found = stage(found, step.about)
            if len(found.rules):
                yield found

    def _write(self, ordered: Detections, about: Subjects, begin: int, end: int) -> Any:
        """Write, and count, the events of a stretch of ordered detections."""
        check_room(_BYTES * (end - begin))
        found = ordered if end - begin == len(ordered.rules) else ordered.take(slice(begin, end))
        events = self._event_table(found, about)
        written = np.bincount(found.detects, minlength=_BITS).tolist()
        for kind, bit in DETECTS.items():
            self.counts[kind] += written[bit]
        return events

    def emit_row(
        self,
        found: Sequence[tuple[int, int, int]],
        object: Any,
        identity: Identity,
        time: tuple[AttributeType, int, Any],
        sequence: Sequence[int | None],
        moved: Sequence[tuple[int | None, int | None]],
        shown: Sequence[Any],
        version: int,
        further: Sequence[Sequence[Any]] | None = None,
    ) -> list[tuple[Any, ...]]:
        """Write the events of one row as tuples, in the order of the columns of `emit`.

        Found are the id, version and detected bit of each, in order; `moved` and `shown` have the attributes by name,
        as ordinals before and after and as the values of an event. `further` has the values of
        further columns for each event, where there are such columns.
        """
        type_, at, value = time
        tag, events = time_tag(type_), []
        for place, (id, rule_version, bit) in enumerate(found):
            digest = event_id(id, rule_version, identity, ABSENT, bit, tag, at, 0, sequence, moved)
            event = (digest, id, rule_version, version, object, None, _KINDS[bit], value, None, *shown)
            events.append(event if further is None else (*event, *further[place]))
        for _, _, bit in found:
            self.counts[_KINDS[bit]] += 1
        return events

    def no_events(self, about: Subjects) -> Any:
        """A table without rows, made once per schema: most changes of rules cause no event."""
        if self._last is not None and self._last[0] is about:
            return self._last[1]
        other = None if about.others is None else about.others.id_type
        carried = tuple(about.carried_types.get(name) for name in self.columns.carry)
        names = (tuple(about.types), about.key, frozenset(about.keys), carried, about.shows_since)
        shape = (about.objects.type, other, about.time, names)
        if shape not in self._empty:
            schema = self.schema(about)
            self._empty[shape] = schema.empty_table(), schema
        self._last = about, *self._empty[shape]
        return self._last[1]

    def _schema_of(self, about: Subjects) -> Any:
        """The schema of that table."""
        self.no_events(about)
        assert self._last is not None, "it was asked about just now"
        return self._last[2]

    def schema(self, about: Subjects) -> Any:
        """The Arrow schema of events; refuses names that events cannot have."""
        other = None if about.others is None else _type_or_null(about.others.id_type)
        time = pa.null() if about.time is None else about.time.arrow
        schema = event_schema(_type_or_null(about.objects.id_type), time, about.types, other)
        for name in about.key:
            check_key_name(name, schema.names)
        return pa.schema([*schema, *further_fields(about, self.columns, schema.names, self.keys_of(about))])

    def keys_of(self, about: Subjects) -> tuple[str, ...]:
        """The keys that events show."""
        asked = (frozenset(about.keys), tuple(about.types), about.key)
        if asked not in self._shown:
            names = event_schema(pa.null(), pa.null(), about.types).names
            self._shown[asked] = shown_keys(about.keys, names, about.key, self.columns)
        return self._shown[asked]

    def join(self, events: Any, about: Subjects, of_pairs: Any, about_pairs: Subjects) -> Any:
        """Events of objects and of pairs in one table, which has the columns of both."""
        object_type = about.objects.type
        object_type = of_pairs.schema.field("object").type if object_type is None else object_type
        time = pa.null() if about.time is None else about.time.arrow
        other = of_pairs.schema.field("other").type
        schema = event_schema(object_type, time, {**about_pairs.types, **about.types}, other)
        both = about_pairs._replace(
            types={**about_pairs.types, **about.types},
            keys={*about.keys, *about_pairs.keys},
            carried_types=join_types(about.carried_types, about_pairs.carried_types),
            shows_since=about.shows_since or about_pairs.shows_since,
            time=about_pairs.time or about.time,
        )
        schema = pa.schema([*schema, *further_fields(both, self.columns, schema.names, self.keys_of(both))])
        return _join_tables(events, of_pairs, schema)

    def _event_table(self, found: Detections, about: Subjects) -> Any:
        """The event table of ordered detections."""
        attributes, is_before, is_after = {}, found.before >= 0, found.after >= 0
        for name in about.types:
            ordinals, known = about.values.ordinals[name], about.values.known[name]
            attributes[name] = Moved(
                ordinals[found.before],
                is_before & known[found.before],
                ordinals[found.after],
                is_after & known[found.after],
            )
        named, identities, keys = _name_objects(found, about)
        others: Any = None
        other_identities = None
        if about.others is not None:
            others = pa.nulls(len(found.rules), _type_or_null(about.others.id_type))
            if found.others is not None:
                others, other_identities = _name(about.others, found.others)
        if about.only_movers and found.from_left is not None:
            named, identities = _hide(named, identities, ~found.from_left)
            others, other_identities = _hide(others, other_identities, found.from_left)
        assert about.time is not None, "there are objects, so there was a time"
        facts = Facts(
            about.rule_ids[found.rules],
            about.rule_versions[found.rules],
            identities,
            other_identities,
            found.detects,
            time_tag(about.time),
            found.times,
            found.reasons,
            _sequences_of(found, about),
            attributes,
        )
        short = self._short and len(found.rules) >= _MANY
        further = further_arrays(found, about, self.columns, self.keys_of(about), keys, short)
        schema = self._schema_of(about)
        return event_table(facts, named, about.time, about.types, about.version, others, further, schema, short)


def _make_numbers(type_: Any, form: str, values: Sequence[Any]) -> Any:
    if None in values:
        return _make_nulls(type_, values) or pa.array(values, type_)
    items = pa.py_buffer(struct.pack(f"{len(values)}{form}", *values))
    return pa.Array.from_buffers(type_, len(values), [None, items], 0)


def _make_texts(values: Sequence[Any]) -> Any:
    return (values[0] is None and _make_nulls(pa.string(), values)) or strings_array(values)


def _make_nulls(type_: Any, values: Sequence[Any]) -> Any | None:
    """As many nulls, if nothing else is there."""
    return _few_nulls(type_, len(values)) if values.count(None) == len(values) else None


@lru_cache(64)
def _few_nulls(type_: Any, count: int) -> Any:
    return pa.nulls(count, type_)


_MAKERS: dict[Any, Callable[[Sequence[Any]], Any]] = {
    pa.int64(): partial(_make_numbers, pa.int64(), "q"),
    pa.float64(): partial(_make_numbers, pa.float64(), "d"),
    pa.string(): _make_texts,
    pa.null(): lambda values: _few_nulls(pa.null(), len(values)),
}
"""By type of a column of few events, what makes it; likewise any other from Python's values."""


def _join_tables(events: Any, of_pairs: Any, schema: Any) -> Any:
    tables = []
    for table in (events, of_pairs):
        columns = [
            table[field.name]
            if field.name in table.schema.names and table[field.name].type == field.type
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ]
        tables.append(pa.table(columns, schema=schema))
    return pa.concat_tables(tables)


def check_names(types: Mapping[str, AttributeType], key: Sequence[str] = ()) -> None:
    """Refuse attributes, or columns of a key, whose names events cannot have."""
    names = event_schema(pa.null(), pa.null(), types).names
    for name in key:
        check_key_name(name, names)


def check_key_name(name: str, names: Sequence[str]) -> None:
    """Refuse a column of a key that events have already."""
    if name in names:
        raise FencepostError(
            f"key={name!r}, which events have as a column already",
            "a column name that no other event column has",
            f"Rename {name} in both streams and in the rules.",
        )


def _type_or_null(type_: Any) -> Any:
    return pa.null() if type_ is None else type_


def _put_in_order(found: Detections, about: Subjects) -> Detections:
    if about.ordered:
        return found
    ranks = 0 if about.ranks is None else about.ranks[found.rows]
    places: Int64s = ranks * 8 + found.phases.astype(np.int64)
    ended = found.phases == ENDED
    any_ended = bool(ended.any())
    if about.ranks is not None and found.others is None and about.ascending:
        # Rows, five phases and rules fit one int64, which is sorted at once.
        order = sorted_positions(places * len(about.rule_ids) + found.rules)
        if any_ended:  # what time ended before one row goes by its time first
            spots = np.flatnonzero(ended[order])
            few = order[spots]
            order[spots] = few[np.lexsort([found.detects[few], found.rules[few], found.times[few], places[few]])]
        return found.take(order)
    by: list[Any] = [found.detects] if any_ended else []  # an exit before the silence of the same instant
    if about.ranks is None or found.others is not None:  # else a row has one object
        for named, numbers in ((about.others, found.others), (about.objects, found.objects)):
            if named is not None and numbers is not None:
                identities = named.identities(numbers)
                by += [identities.highs, identities.lows]
    by.append(about.rule_ids[found.rules])
    if any_ended:
        by.append(np.where(ended, found.times, 0))
    return found.take(np.lexsort([*by, places]))


def _name_objects(found: Detections, about: Subjects) -> tuple[Any, Identities, Any]:
    """The names of objects in events, their identities, and the objects with their keys."""
    if about.named is not None:
        return about.named.take(pa.array(found.rows)), about.objects.identities(found.objects), None
    values = about.objects.values(found.objects)
    return about.objects.ids(values), about.objects.identities(found.objects), values


def _name(named: Named, numbers: Int64s) -> tuple[Any, Identities]:
    return named.ids(named.values(numbers)), named.identities(numbers)


def _hide(named: Any, identities: Any, hidden: Any) -> tuple[Any, Identities]:
    shown = pc.if_else(pa.array(hidden), pa.scalar(None, named.type), named)
    return shown, Identities(*(np.where(hidden, 0, column) for column in identities))


def _sequences_of(found: Detections, about: Subjects) -> list[Any]:
    """The sequence of the row that caused each event; what time ended has no row, and so no sequence."""
    if about.ranks is None:
        absent = (np.zeros(len(found.rules), np.int64), np.zeros(len(found.rules), np.bool_))
        return [absent] * about.sequence_count
    if not about.sequences:
        return []
    caused = found.phases != ENDED
    return [(ordinals[found.rows], known[found.rows] & caused) for ordinals, known in about.sequences]
