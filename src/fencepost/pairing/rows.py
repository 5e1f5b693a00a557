"""Rows of one side of a band join: read, and put in the order in which both sides are applied."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.emitting.engine import Counts
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import AttributeType
from fencepost.snapshot import Table
from fencepost.watching.positions import NO_KEY, Positions
from fencepost.watching.rows import Rows, Steps, find_steps, order_rows, strings_of
from fencepost.watching.state import State

_STRING = "string"


class SideRows(NamedTuple):
    """The rows of one side of a batch, by object."""

    rows: Rows
    moved: Steps
    ranks: Int64s
    """Of each row in the order of its side."""
    deleted: Bools
    counts: Counts = Counts()
    """The rows of the batch, for the time when it is settled."""
    late: Any = None
    """The late rows to report then, an Arrow table."""


class RowsAt(NamedTuple):
    """Rows of one side, by their places in columns."""

    times: Int64s
    keys: dict[str, Int64s]
    """Codes by column."""
    places: Int64s


def key_texts(array: Any, name: str, type_: AttributeType | None) -> tuple[Any, str | None]:
    """Keys as strings, and what they are; None where there are only nulls. What is no string stands by its ordinal.

    Args:
        array: the column.
        name: of the column.
        type_: that the column has in the rules, where it is an attribute as well.

    """
    plain = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_null(plain):
        return strings_of(array, name), None
    if type_ is None:
        try:
            type_ = AttributeType.parse(plain)
        except FencepostError:
            return strings_of(array, name), _STRING
    ordinals, known = type_.encode(array, name)
    texts = pa.array(ordinals, mask=None if known is None else ~known).cast(pa.string())
    return texts, str(type_) if type_.kind == "decimal" else type_.kind


def deletions(table: Table, column: str | None) -> Bools:
    """Which rows say that they are gone."""
    table.fill(() if column is None else (column,))
    array = pa.nulls(table.rows) if column is None else table.arrow(column)
    if pa.types.is_null(array.type):
        return np.zeros(table.rows, np.bool_)
    if not pa.types.is_boolean(array.type):
        raise FencepostError(f"{column} of type {array.type}", "booleans, true where a row is gone", "Cast the column.")
    return np.array(pc.fill_null(array, False).to_pylist(), np.bool_)


def side_rows(
    rows: Rows, deleted: Bools, state: State, timeout: int | None, *, timed: bool, unused: Collection[str] = ()
) -> SideRows:
    """The moves of rows that are not late and whose objects have slots."""
    # At one instant an object's deletion comes after its other rows, like one more sequence.
    last = (deleted.astype(np.int64), np.ones(len(deleted), np.bool_))
    sequenced = rows._replace(sequences=[*rows.sequences, last]) if timed or rows.sequences else rows
    order, ranks = order_rows(sequenced, state.strings, timed=timed, unused=unused)
    rows, deleted = rows.take(order), deleted[order]
    rows, moved = find_steps(rows, state, timeout, timed=timed, deleted=deleted)
    return SideRows(rows, moved, ranks, deleted)


class History:
    """The rows of one side at every moment of a batch, as columns: first those of the state, then those of the batch.

    Args:
        state: before the batch.
        given: the rows of the batch, if any.
        moments: of each of them: its place in the order in which the rows of both sides are applied.

    """

    def __init__(self, state: State, given: SideRows | None = None, moments: Int64s | None = None) -> None:
        self._times, self._keys = state.times, state.positions(slice(None)).keys
        self._room = len(state.times)
        self._slots, self._moments = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if given is not None and moments is not None:
            rows, after = given.rows, slice(given.moved.offset, None)
            self._slots, self._moments = rows.slots, moments
            self._times = np.concatenate([self._times, rows.times])
            keys = given.moved.positions.keys
            self._keys = {name: np.concatenate([codes, keys[name][after]]) for name, codes in self._keys.items()}

    def at(self, slots: Int64s, moments: Int64s) -> RowsAt:
        """The row of each object that was its last before a moment."""
        places = slots
        if len(self._slots):
            span = 1 + max(int(self._moments.max()), int(moments.max(initial=0)))
            latest = np.searchsorted(self._slots * span + self._moments, slots * span + moments) - 1
            in_batch = (latest >= 0) & (self._slots[latest] == slots)
            places = np.where(in_batch, self._room + latest, slots)
        return RowsAt(self._times, self._keys, places)


def last_rows(state: State, slots: Int64s) -> RowsAt:
    """The last row of each object."""
    return RowsAt(state.times, state.positions(slice(None)).keys, slots)


def together(
    parts: list[Positions], types: Mapping[str, AttributeType], shifts: Sequence[Mapping[str, int]]
) -> Positions:
    """The positions of both sides with every attribute; one that a side does not have is not known there.

    Codes of keys are shifted by `shifts`, so that those of both sides differ; other keys are left out.
    """
    ordinals, known = {}, {}
    for name in types:
        absent = [(np.zeros(each.rows, np.int64), np.zeros(each.rows, np.bool_)) for each in parts]
        columns = [
            (each.ordinals[name], each.known[name]) if name in each.ordinals else nothing
            for each, nothing in zip(parts, absent, strict=True)
        ]
        ordinals[name], known[name] = (np.concatenate(column) for column in zip(*columns, strict=True))
    keys = {}
    for name in shifts[0] if shifts else ():
        codes = []
        for each, shift in zip(parts, shifts, strict=True):
            own = each.keys.get(name, np.full(each.rows, NO_KEY, np.int64))
            codes.append(np.where(own == NO_KEY, NO_KEY, own + shift[name]) if shift[name] else own)
        keys[name] = np.concatenate(codes)
    return Positions(sum(each.rows for each in parts), ordinals, known, keys)
