"""Rows of one side of a band join: read, and put in the order in which both sides are applied."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.emitting.engine import Counts
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import AttributeType, ColumnType
from fencepost.snapshot import NEVER, Table
from fencepost.watching.clock import gone_after
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
    return texts, key_kind(type_)


def key_kind(type_: ColumnType | None) -> str:
    """What keys of a type are compared as."""
    if not isinstance(type_, AttributeType):
        return _STRING
    return str(type_) if type_.kind == "decimal" else type_.kind


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


class AllRows:
    """The rows of both sides of a batch, one side after the other, each side by slot and then in its order.

    Args:
        sides: the rows of each side that has any.
        moments: of each row, its place in the order in which the rows of both sides are applied.
        timeout: how long a row may be silent.

    """

    def __init__(self, sides: Sequence[tuple[int, SideRows]], moments: Int64s, timeout: int | None) -> None:
        self.moments, self.span = moments, len(moments) + 1
        self.sides: Int64s = np.concatenate([np.full(len(each.ranks), side, np.int64) for side, each in sides])
        self.slots: Int64s = np.concatenate([each.rows.slots for _, each in sides])
        self.times: Int64s = np.concatenate([each.rows.times for _, each in sides])
        self.is_new: Bools = np.concatenate([each.moved.is_new for _, each in sides])
        self.deleted: Bools = np.concatenate([each.deleted for _, each in sides])
        self.gone: Int64s = np.full(len(moments), NEVER)
        """When silence had ended the row's object before it; `NEVER` where it had not."""
        previous, after = [], []
        self._stretches = [(0, 0), (0, 0)]
        """Where the rows of each side are."""
        rows = places = 0
        for side, each in sides:
            moved, count = each.moved, len(each.ranks)
            previous.append(np.where(moved.previous < 0, -1, moved.previous + places))
            after.append(places + moved.offset + np.arange(count))
            self._stretches[side] = (rows, rows + count)
            if timeout is not None:
                again = np.flatnonzero(moved.is_new & (moved.previous >= 0))
                self.gone[rows + again] = gone_after(moved.clocks[moved.previous[again]], timeout)
            rows, places = rows + count, places + moved.positions.rows
        self._previous, self._after = np.concatenate(previous), np.concatenate(after)
        self._keys = [(self.slots * self.span + moments)[begin:end] for begin, end in self._stretches]

    def between(self, side: int, slots: Int64s, begin: int, end: int) -> tuple[Int64s, Int64s]:
        """The first row of each object of a side in a stretch of moments, and the one behind the last."""
        keys, start = self._keys[side], self._stretches[side][0]
        first, last = (np.searchsorted(keys, slots * self.span + moment) for moment in (begin, end))
        return start + first, start + last

    def slots_between(self, side: int, begin: int, end: int) -> Int64s:
        """The objects of a side that have rows in a stretch of moments, ascending."""
        own = slice(*self._stretches[side])
        chosen = (self.moments[own] >= begin) & (self.moments[own] < end)
        return np.unique(self.slots[own][chosen])

    def own_places(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """The places of the values that rows find and leave; -1 for nowhere."""
        before = np.where(self.is_new[rows], -1, self._previous[rows])
        return before, np.where(self.deleted[rows], -1, self._after[rows])

    def _latest(self, side: int, slots: Int64s, moments: Int64s) -> tuple[Int64s, Bools]:
        """The last row of each object of a side before a moment, and which objects have one."""
        keys, (start, behind) = self._keys[side], self._stretches[side]
        latest = start + np.searchsorted(keys, slots * self.span + moments) - 1
        return latest, (latest >= start) & (self.slots[np.clip(latest, 0, max(0, behind - 1))] == slots)

    def left_places(self, slots: Int64s, moments: Int64s, place: Callable[[Int64s], Int64s]) -> Int64s:
        """The places of the values that left rows have at moments; `place` gives those of objects without any row."""
        places = np.full(len(slots), -1, np.int64)
        behind = self._stretches[0][1]
        latest, has_row = self._latest(0, slots, moments)
        places[has_row] = self._after[latest[has_row]]
        comes = ~has_row & (latest + 1 < behind)
        comes[comes] = self.slots[latest[comes] + 1] == slots[comes]
        places[comes] = self._previous[latest[comes] + 1]
        rest = ~has_row & ~comes
        places[rest] = place(slots[rest])
        return places

    def last_times(self, side: int, slots: Int64s, moments: Int64s, state: State) -> tuple[Int64s, Bools]:
        """The time of the last row of each object of a side before a moment, and which objects have one."""
        latest, has_row = self._latest(side, slots, moments)
        times = state.times[slots]
        times[has_row] = self.times[latest[has_row]]
        return times, has_row | state.present[slots]


class GrowingValues:
    """The values of a batch, to which those of objects without a row in it are added as they are needed."""

    def __init__(self, values: Positions, find: Callable[[Int64s], Positions]) -> None:
        self.ordinals, self.known, self.keys = dict(values.ordinals), dict(values.known), dict(values.keys)
        self._rows, self._find = values.rows, find

    def place(self, slots: Int64s) -> Int64s:
        """Add the values of objects; their places."""
        places = self._rows + np.arange(len(slots))
        if len(slots):
            more = self._find(slots)
            for own, added in ((self.ordinals, more.ordinals), (self.known, more.known), (self.keys, more.keys)):
                for name in own:
                    own[name] = np.concatenate([own[name], added[name]])
            self._rows += len(slots)
        return places
