"""Moves as a table, for shards to find what they do to rules, and back.

A trail is the way of one object through a batch: a row per position, each but the first a move from the row above. A
table holds trails one after the other. Where some moves of a trail are left out, the next one begins a new trail, with
the position it starts from.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.indexes.arrays import Int64s, UInt64s
from fencepost.watching.rows import MovedRows, Rows, Steps
from fencepost.watching.rules_in_force import KeptColumns
from fencepost.watching.state import State
from fencepost.watching.tables import position_columns, positions_of

_START, _MOVE, _FIRST, _AGAIN = range(4)
"""Kinds of rows: the start of a trail; a move; one from nowhere; one of an object that was silent for too long."""


def trails_of(taken: MovedRows, chosen: Int64s, visits: UInt64s, state: State) -> Any:
    """The chosen moves, ascending, as a table; `visits` has a number that goes with each of all moves."""
    rows, moved = taken.rows, taken.steps
    previous = moved.previous[chosen]
    goes_on = np.zeros(len(chosen), np.bool_)
    goes_on[1:] = (chosen[1:] == chosen[:-1] + 1) & (previous[1:] == moved.offset + chosen[:-1])
    starts = (previous >= 0) & ~goes_on
    counts = 1 + starts
    ends = np.cumsum(counts) - 1
    """The row of each move in the table; where a trail starts, that is the row above."""
    places = np.empty(int(counts.sum()), np.int64)
    places[ends] = moved.offset + chosen
    places[ends[starts] - 1] = previous[starts]
    kinds = np.full(len(places), _START, np.uint8)
    kinds[ends] = np.where(previous < 0, _FIRST, np.where(moved.is_new[chosen], _AGAIN, _MOVE))
    owners = np.repeat(chosen, counts)
    columns = {
        "object": rows.objects.take(pa.array(owners)),
        "time": pa.array(moved.clocks[places]),
        "kind": pa.array(kinds),
        "visits": pa.array(visits[owners]),
    }
    for number, (ordinals, known) in enumerate(rows.sequences):
        columns[f"sequence {number}"] = pa.array(ordinals[owners], mask=~known[owners])
    for name, column in rows.carried.items():
        columns[f"carried {name}"] = column.take(pa.array(rows.numbers[owners]))
    return pa.table(columns | position_columns(moved.positions.take(places), state))


def read_trails(
    table: Any, state: State, columns: KeptColumns, sequences: int, carry: Sequence[str] = ()
) -> tuple[MovedRows, UInt64s]:
    """The moves in tables of `trails_of`, and the number that goes with each; a state gets their objects and keys."""
    kinds, times = np.asarray(table["kind"]), np.asarray(table["time"])
    starts, moves = np.flatnonzero(kinds == _START), np.flatnonzero(kinds != _START)
    order = np.concatenate([starts, moves])
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    is_first = kinds[moves] == _FIRST
    previous = np.where(is_first, -1, places[moves - 1])
    positions = positions_of(table, state, columns).take(order)
    chosen = pa.array(moves)
    objects = table["object"].combine_chunks().take(chosen)
    slots = state.objects.slots(objects, add=True)
    state.make_room()
    ordered = []
    for number in range(sequences):
        column = table[f"sequence {number}"].combine_chunks().take(chosen)
        ordered.append((np.asarray(column.fill_null(0)), np.asarray(column.is_valid())))
    values = positions.take(np.arange(len(starts), len(order)))
    carried = {name: table[f"carried {name}"].combine_chunks().take(chosen) for name in carry}
    rows = Rows(np.arange(len(moves)), objects, slots, times[moves], ordered, values, carried)
    is_new = is_first | (kinds[moves] == _AGAIN)
    is_last = np.append(slots[1:] != slots[:-1], [True] * min(1, len(slots)))
    steps = Steps(positions, times[order], previous, is_new, len(starts), is_last)
    return MovedRows(rows, steps, np.arange(len(moves))), np.asarray(table["visits"])[moves]
