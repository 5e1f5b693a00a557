"""Rows of a batch: read, ordered per object, and completed with what was known before."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.emitting.engine import Counts
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.kernels.radix import sorted_positions
from fencepost.ordinals import BIGINT, AttributeType
from fencepost.ordinals.spellings import is_string
from fencepost.snapshot import Table
from fencepost.watching.clock import Clock, gone_after
from fencepost.watching.objects import plain, takeable
from fencepost.watching.positions import NO_KEY, KeyStrings, Positions
from fencepost.watching.state import State


class Rows(NamedTuple):
    """Rows of one batch, as columns."""

    numbers: Int64s
    """Their places in the batch."""
    objects: Any
    """An Arrow array."""
    slots: Int64s
    times: Int64s
    sequences: Sequence[tuple[Int64s, Bools]]
    """Of each sequence column the ordinals, and which rows have one."""
    values: Positions
    """The values that each row itself observes."""
    carried: Mapping[str, Any] = MappingProxyType({})
    """Columns of the batch that events carry, Arrow arrays, by the places of rows in the batch."""

    def take(self, chosen: Int64s) -> "Rows":
        """The chosen rows, in that order."""
        return Rows(
            self.numbers[chosen],
            self.objects.take(pa.array(chosen)),
            self.slots[chosen],
            self.times[chosen],
            [(ordinals[chosen], known[chosen]) for ordinals, known in self.sequences],
            self.values.take(chosen),
            self.carried,
        )


def read_rows(
    table: Table,
    state: State,
    columns: tuple[str, Sequence[str]],
    clock: Clock,
    values: Positions,
    observing: Bools,
    time_type: AttributeType | None = None,
) -> tuple[Rows, AttributeType | None]:
    """The rows that have an object and a time and observe something, and the type of their times.

    Their slots are not set yet: nothing of the batch is kept in the state. `columns` names the object and the sequence,
    `time_type` is the type that times must have where the clock has none yet.
    """
    objects = state.objects.read(table, columns[0])
    usable = observing & np.asarray(objects.is_valid())
    times, time_type = np.zeros(table.rows, np.int64), clock.type or time_type
    if clock.column is not None:
        column = plain(table.arrow(clock.column))
        time_type = time_type or clock.type_for(column.type)
        times, valid = time_type.encode(column, clock.column)
        usable = usable if valid is None else usable & valid
    sequences = []
    table.fill(columns[1])
    for name in columns[1]:
        column = plain(table.arrow(name))
        ordinals, valid = _sequence_type(column.type, name).encode(column, name)
        sequences.append((ordinals, np.ones(table.rows, np.bool_) if valid is None else valid))
    rows = Rows(np.arange(table.rows), objects, np.zeros(table.rows, np.int64), times, sequences, values)
    return rows if usable.all() else rows.take(np.flatnonzero(usable)), time_type


def read_carried(table: Table, names: Sequence[str], types: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The columns of a batch that events carry; records may lack them, as they may any column.

    A column of nulls alone has the type that it had before, so that tables of events can be put together.
    """
    table.fill(names)
    for name in names:
        if table.find(name) is None:
            raise FencepostError(
                f"a table without the column {name}",
                "that column, since carry= names it",
                f"Add it; the table has {', '.join(table.names) or 'no columns'}.",
            )
    columns = {name: takeable(plain(table.arrow(name))) for name in names}
    untyped = [name for name, column in columns.items() if pa.types.is_null(column.type) and name in types]
    return {**columns, **{name: pa.nulls(table.rows, types[name]) for name in untyped}}


def split_late(rows: Rows, state: State) -> tuple[Rows, Int64s | None]:
    """The rows that are not older than their object's last, and the places of those that are in the batch."""
    is_late = state.present[rows.slots] & (rows.times < state.times[rows.slots])
    if not is_late.any():
        return rows, None
    return rows.take(np.flatnonzero(~is_late)), rows.numbers[is_late]


def rows_at(table: Table, places: Int64s) -> Any:
    """These rows of a batch, as an Arrow table."""
    chosen = pa.array(places)
    return pa.table({name: takeable(table.arrow(name)).take(chosen) for name in table.names})


def _sequence_type(arrow_type: Any, column: str) -> AttributeType:
    """The type of a sequence column."""
    if pa.types.is_null(arrow_type):
        return BIGINT
    try:
        return AttributeType.parse(arrow_type)
    except FencepostError as error:
        raise FencepostError(
            f"{column} of type {arrow_type} as a sequence", error.expected, "Number the rows by an integer."
        ) from None


def read_values(
    table: Table, types: Mapping[str, AttributeType], strings: Mapping[str, KeyStrings], needed: Collection[str]
) -> Positions:
    """The values of every row; a column that is not needed may be missing."""
    table.fill(needed)
    ordinals, known, keys = {}, {}, {}
    for name, type_ in types.items():
        if name not in needed and table.find(name) is None:
            ordinals[name], known[name] = np.zeros(table.rows, np.int64), np.zeros(table.rows, np.bool_)
            continue
        ordinals[name], valid = type_.encode(table.column(name), name)
        known[name] = np.ones(table.rows, np.bool_) if valid is None else valid
    for name, own in strings.items():
        if name not in needed and table.find(name) is None:
            keys[name] = np.full(table.rows, NO_KEY, np.int64)
            continue
        keys[name] = own.codes(strings_of(table.arrow(name), name))
    return Positions(table.rows, ordinals, known, keys)


def strings_of(array: Any, name: str) -> Any:
    """The array, which must have strings."""
    values = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if pa.types.is_null(values):
        return array.cast(pa.string())
    if not is_string(values):
        raise FencepostError(
            f"column {name} of type {array.type}",
            "strings, since rules compare it with quoted strings",
            "Cast the column to a string in the same form that the rules use.",
        )
    return array


def find_observing(values: Positions, naming: Collection[str] = ()) -> Bools:
    """Which rows observe anything at all; columns that only say which row it is are no observations."""
    any_known = np.zeros(values.rows, np.bool_)
    for name, known in values.known.items():
        if name not in naming:
            any_known |= known
    for name, codes in values.keys.items():
        if name not in naming:
            any_known |= codes != NO_KEY
    if {*values.known, *values.keys} <= {*naming}:
        return ~any_known  # rules without columns hold for every row
    return any_known


def order_rows(
    rows: Rows, strings: Mapping[str, KeyStrings], *, timed: bool, unused: Collection[str] = ()
) -> tuple[Int64s, Int64s]:
    """The rows by object and time, and the rank of each place in the order of time over all objects.

    Ties of time go by sequence, and further ties of one object by its values: first those that rules use, then those of
    `unused` columns. Without time or sequence rows stay as they came.
    """
    count = len(rows.slots)
    if not timed and not rows.sequences:
        by_object = sorted_positions(rows.slots).astype(np.int64)
        return by_object, by_object
    times = rows.times if timed else np.zeros(count, np.int64)
    if not rows.sequences and (times[1:] >= times[:-1]).all():
        by_time = None
    else:
        by_time = np.arange(count, dtype=np.uint32)
        for ordinals, known in reversed(rows.sequences):
            by_time = sorted_positions(known.astype(np.int64), sorted_positions(ordinals, by_time))
        by_time = sorted_positions(times, by_time)
    order = sorted_positions(rows.slots, by_time).astype(np.int64)
    ranks = order
    if by_time is not None:
        ranks = np.empty(count, np.int64)
        ranks[by_time] = np.arange(count)
        ranks = ranks[order]

    slots, times = rows.slots[order], times[order]
    tied = (slots[1:] == slots[:-1]) & (times[1:] == times[:-1])
    for ordinals, known in rows.sequences:
        here, there = order[1:], order[:-1]
        tied &= (ordinals[here] == ordinals[there]) & (known[here] == known[there])
    if tied.any():
        order = _ties_by_value(order, tied, rows.values, strings, unused)
    return order, ranks


def _ties_by_value(
    order: Int64s, tied: Bools, values: Positions, strings: Mapping[str, KeyStrings], unused: Collection[str]
) -> Int64s:
    """The order with every run of ties sorted by its values: attributes, then keys, by name; absent ones first."""
    places = np.flatnonzero(np.append(tied, False) | np.append(False, tied))
    runs = np.cumsum(~np.append(False, tied))[places]
    among = order[places]
    by: list[Int64s] = []
    for is_unused in (False, True):
        for name in sorted(name for name in values.ordinals if (name in unused) == is_unused):
            by += [values.known[name][among], np.where(values.known[name][among], values.ordinals[name][among], 0)]
        names = sorted(name for name in values.keys if (name in unused) == is_unused)
        by += [strings[name].ranks(values.keys[name][among]) for name in names]
    settled = order.copy()
    settled[places] = among[np.lexsort([*reversed(by), runs])]
    return settled


class Steps(NamedTuple):
    """The moves of a batch, in the order of `order_rows`; the positions they touch are in one array.

    First come the last known positions of objects that were present, then one position per row.
    """

    positions: Positions
    clocks: Int64s
    """The time at each position."""
    previous: Int64s
    """Of each row: the position the object had before, or -1."""
    is_new: Bools
    """Whether the row begins anew: the object was not there, or had gone silent for too long."""
    offset: int
    """The position of the first row."""
    is_last: Bools
    """Whether the row is its object's last in the batch."""

    def only(self, chosen: Int64s) -> tuple["Steps", Int64s]:
        """The moves of some rows, ascending, with no other positions than theirs, and the places these have here."""
        own, previous = self.offset + chosen, self.previous[chosen]
        at = np.searchsorted(own, previous)
        is_own = own[np.minimum(at, len(own) - 1)] == previous
        starts = np.unique(previous[(previous >= 0) & ~is_own])
        places = np.concatenate([starts, own])
        moved = np.where(is_own, at + len(starts), np.searchsorted(starts, previous))
        steps = Steps(
            self.positions.take(places),
            self.clocks[places],
            np.where(previous < 0, -1, moved),
            self.is_new[chosen],
            len(starts),
            self.is_last[chosen],
        )
        return steps, places


class MovedRows(NamedTuple):
    """A batch between its rows and its events."""

    rows: Rows
    """In the order of `order_rows`."""
    steps: Steps
    ranks: Int64s
    """Of each row, in the order of time over all objects."""
    counts: Counts = Counts()
    """The rows of the batch, for the time when it is settled."""
    late: Any = None
    """The late rows to report then, an Arrow table."""


def find_steps(
    rows: Rows, state: State, timeout: int | None, *, timed: bool, deleted: Bools | None = None
) -> tuple[Rows, Steps]:
    """The moves of ordered rows that are not late and whose slots the state has.

    Without times, rows are counted per object. After a row that is `deleted`, the object's next row is its first again.
    """
    count = len(rows.slots)
    places = np.arange(count)
    is_first = np.ones(count, np.bool_)
    is_first[1:] = rows.slots[1:] != rows.slots[:-1]
    is_last = np.ones(count, np.bool_)
    is_last[:-1] = is_first[1:]
    was_present = state.present[rows.slots]
    is_again = np.zeros(count, np.bool_)
    if deleted is not None:
        is_again[1:] = deleted[:-1] & ~is_first[1:]
    firsts = np.maximum.accumulate(np.where(is_first | is_again, places, 0))
    if not timed:
        counted = np.where(was_present & ~is_again[firsts], state.times[rows.slots], 0)
        rows = rows._replace(times=counted + 1 + places - firsts)

    known = np.flatnonzero(is_first & was_present)
    offset = len(known)
    previous = offset + places - 1
    previous[is_first | is_again] = -1
    previous[known] = np.arange(offset)
    is_new = previous < 0
    clocks = np.concatenate([state.times[rows.slots[known]], rows.times])
    if timeout is not None:
        is_new |= rows.times >= gone_after(clocks[previous], timeout)  # where previous is -1 it is new already

    before = state.positions(rows.slots[known])
    begins = np.maximum.accumulate(np.where(is_first | is_new, places, 0))
    after = complete_positions(rows, before, begins, previous, is_new)
    return rows, Steps(before.followed_by(after), clocks, previous, is_new, offset, is_last)


def complete_positions(rows: Rows, before: Positions, begins: Int64s, previous: Int64s, is_new: Bools) -> Positions:
    """The position at each row: the values it observes, else those that earlier rows or `before` knew.

    `begins` has the place of the row that each row's history in this batch begins with. A first row's `previous` is its
    place in `before`.
    """
    places = np.arange(len(rows.slots))
    continued = ~is_new[begins]
    inherited = np.where(continued, previous[begins], 0)  # a place in `before`, where continued

    def sources(known: Bools) -> tuple[Int64s, Bools, Bools]:
        latest = np.maximum.accumulate(np.where(known, places, -1))
        in_batch = latest >= begins
        return latest, in_batch, ~in_batch & continued

    ordinals, knowns, keys = {}, {}, {}
    for name, own in rows.values.ordinals.items():
        known = rows.values.known[name]
        if known.all():
            ordinals[name], knowns[name] = own, known
            continue
        latest, in_batch, in_state = sources(known)
        value, is_known = np.where(in_batch, own[latest], 0), in_batch.copy()
        value[in_state] = before.ordinals[name][inherited[in_state]]
        is_known[in_state] = before.known[name][inherited[in_state]]
        ordinals[name], knowns[name] = value, is_known
    for name, own in rows.values.keys.items():
        known = own != NO_KEY
        if known.all():
            keys[name] = own
            continue
        latest, in_batch, in_state = sources(known)
        value = np.where(in_batch, own[latest], NO_KEY)
        value[in_state] = before.keys[name][inherited[in_state]]
        keys[name] = value
    return Positions(len(places), ordinals, knowns, keys)
