"""Events of few moves, written one after the other: values of Python in place of columns."""

import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.emitting.emitter import Emitter
from fencepost.emitting.further import has_since
from fencepost.ordinals import AttributeType
from fencepost.snapshot.labels import RuleTexts

if TYPE_CHECKING:
    from fencepost.watching.engine import Watch
    from fencepost.watching.few_rows import ShortWay

_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_PACK, _UNPACK = struct.Struct("<q").pack, struct.Struct("<d").unpack


class Moved(NamedTuple):
    """A row that changes something: what, and where its object was and is."""

    changes: list[list[int]]
    """The move, the row of the rule, and the bit of what is detected, in the order of events."""
    ends: list[list[int]]
    """The rows of `work` that the move has: before and after it."""
    at: int
    slot: int
    object: Any
    sequence: list[int | None]


def write_move(
    watch: "Watch",
    emitter: Emitter,
    way: "ShortWay",
    move: Moved,
    given: Mapping[str, Any],
    *,
    for_arrow: bool = False,
) -> list[tuple[Any, ...]]:
    """The events of one row, as tuples; `given` are its values, for what events carry.

    Where it is `for_arrow`, they have numbers for times: Arrow takes them, and Python has no values for the farthest.
    """
    show = _item if for_arrow else _value
    rules, type_ = watch.rules, watch.clock.type
    assert type_ is not None, "the object was seen before"
    before, after = move.ends
    moved: list[tuple[int | None, int | None]] = []
    shown: list[Any] = []
    for attribute, own, known in way.shown:
        was, now = before[own] if before[known] else None, after[own] if after[known] else None
        moved.append((was, now))
        shown += (show(attribute, now), show(attribute, was))
    facts = [(int(rules.ids[row]), int(rules.versions[row]), bit) for _, row, bit in move.changes]
    further = _further(watch, emitter, way, move, given)
    identity, instant = watch.state.objects.identity(move.slot), (type_, move.at, show(type_, move.at))
    return emitter.emit_row(facts, move.object, identity, instant, move.sequence, moved, shown, rules.version, further)


def _further(
    watch: "Watch", emitter: Emitter, way: "ShortWay", move: Moved, given: Mapping[str, Any]
) -> list[tuple[Any, ...]] | None:
    """The values of further columns, for each event of the one row."""
    columns, about, (before, after) = emitter.columns, way.about, move.ends
    rows = [row for _, row, _ in move.changes]
    keys: list[Any] = [None] if has_since(about, columns) else []  # what a row causes is so since the row
    for name in emitter.keys_of(about):
        strings, place = watch.state.strings[name], way.codes[name]
        keys += (strings.text(after[place]), strings.text(before[place]))
    if not (columns.of_rules or columns.carry):
        return [tuple(keys)] * len(rows) if keys else None
    texts_of: list[list[Any]] = []
    if columns.of_rules:
        texts, asked = RuleTexts(watch.rules.compiled), np.array(rows, np.int64)
        if columns.labels:
            texts_of = [texts.names(asked).to_pylist(), values_of(texts.labels(asked))]
        if columns.condition:
            texts_of.append(texts.conditions(asked).to_pylist())
    by_name = {name.lower(): value for name, value in given.items()}
    carried = [by_name.get(name.lower()) for name in columns.carry]
    return [(*keys, *(column[place] for column in texts_of), *carried) for place in range(len(rows))]


def values_of(column: Any) -> list[Any]:
    """The values of a column; maps as dicts."""
    values: list[Any] = (
        column.to_pylist(maps_as_pydicts="strict") if pa.types.is_map(column.type) else column.to_pylist()
    )
    return values


def _item(type: AttributeType, ordinal: int | None) -> Any:
    """What Arrow makes the value of an ordinal from."""
    return ordinal if type.kind in ("timestamp", "timestamp_ntz") else _value(type, ordinal)


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
