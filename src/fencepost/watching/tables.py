"""Objects as Arrow tables: a row each, times and values as ordinals, keys as strings."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.damping import LONG_AGO
from fencepost.watching.entries import NONE_PENDING, entry_lists, entry_texts, read_entries
from fencepost.watching.positions import NO_KEY, Positions
from fencepost.watching.rules_in_force import KeptColumns
from fencepost.watching.state import Journal, State

_GONE, _DAMPED = "gone", "damped"


def table_of(state: State, slots: Int64s | None = None, rights: State | None = None) -> Any:
    """Objects, by default all that are present, a row each: times and values as ordinals, keys as strings.

    Where these are the left rows of pairs, what is remembered of the pairs names their `rights`.
    """
    if slots is None:
        slots = state.here()
        if state.damped.count:
            slots = np.union1d(slots, state.damped.slots())
    columns = {"object": state.objects.values(slots), "time": pa.array(state.times[slots])}
    columns |= position_columns(state.positions(slots), state)
    if state.damped.count:
        columns[_DAMPED] = entry_lists(state.damped, slots, None if rights is None else rights.objects.values)
        if not state.present[slots].all():
            columns[_GONE] = pa.array(~state.present[slots])
    return pa.table(columns)


def position_columns(positions: Positions, state: State) -> dict[str, Any]:
    """Positions as the columns of a table: values as ordinals, keys as the strings that a state has for them."""
    columns = {}
    for name, ordinals in positions.ordinals.items():
        columns[f"attribute {name}"] = pa.array(ordinals, mask=~positions.known[name])
    for name, codes in positions.keys.items():
        columns[f"key {name}"] = state.strings[name].texts(codes)
    return columns


def positions_of(table: Any, state: State, columns: KeptColumns) -> Positions:
    """The positions that `position_columns` wrote; rules may use other columns by now."""
    ordinals, known, keys = {}, {}, {}
    for name in columns.types:
        column = _column(table, f"attribute {name}", pa.int64())
        known[name] = np.asarray(column.is_valid())
        ordinals[name] = np.array(column.fill_null(0))
    for name in columns.keys:
        column = _column(table, f"key {name}", pa.string())
        keys[name] = state.strings[name].codes(column) if len(column) else np.full(0, NO_KEY)
    return Positions(len(table), ordinals, known, keys)


def _column(table: Any, name: str, type_: Any) -> Any:
    return table[name].combine_chunks() if name in table.column_names else pa.nulls(len(table), type_)


def waiting_texts(table: Any) -> Any:
    """What waits for objects of a table of `table_of`, as texts."""
    if _DAMPED not in table.column_names:
        return pa.nulls(len(table), pa.string())
    return entry_texts(table[_DAMPED].combine_chunks())


def touched_table(state: Journal, rights: State | None = None) -> Any:
    """The objects that were touched since the last call, with those that are gone; None where all were.

    `rights` as for `table_of`.
    """
    touched = state.take_touched()
    if touched is None:
        return None
    table = table_of(state, touched, rights)
    return table if _GONE in table.column_names else table.append_column(_GONE, pa.array(~state.present[touched]))


def replay_tables(state: State, tables: Iterable[Any], columns: KeptColumns, rights: State | None = None) -> None:
    """Put the objects of tables of `table_of`, then of `touched_table`, into a state; `rights` have theirs already."""

    def find_rights(values: Any) -> Int64s:
        assert rights is not None, "it is asked for pairs"
        slots = rights.objects.slots(values, add=True) if len(values) else np.zeros(0, np.int64)
        rights.make_room()
        return slots

    state.track(columns.types, tuple(sorted(columns.keys)))
    for table in tables:
        if not len(table):
            continue
        slots = state.objects.slots(table["object"].combine_chunks(), add=True)
        state.make_room()
        state.store(slots, np.asarray(table["time"]), positions_of(table, state, columns))
        if _GONE in table.column_names:
            state.forget(slots[np.asarray(table[_GONE])])
        if _DAMPED in table.column_names or state.damped.count:
            pending = NONE_PENDING
            if _DAMPED in table.column_names:
                pending = read_entries(table[_DAMPED], slots, None if rights is None else find_rights)
            state.damped.prepare(slots, pending)()
            state.damped.next_due = LONG_AGO  # the first tick looks at all of them
    if isinstance(state, Journal):
        state.take_touched()
