"""The rows that box structures share: exact ranges by slot, points on their way in, slots on their way out."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import allocating_kernel, kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64, u64
from fencepost.indexes.kernels.id_map import spread
from fencepost.indexes.kernels.lanes import lowest_bit
from fencepost.indexes.kernels.vectors import copy_run, is_among, prefetch, widen_run
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType
from fencepost.indexes.slice_list.window_kernels import decode

EVERY_GROUP = 2**32 - 1
"""The group number of a box that holds in every group."""
UNKNOWN_GROUP = -1
FARTHEST = 65535
KEY_SPAN = 65000.0
_EXACT = 2.0**52
_HASHED_AHEAD = 16
_FEW = 64
_INFINITY_BITS = 0x7FF0000000000000


class Axes(NamedTuple):
    """How ordinals are read, one item per axis; a keyed structure has the group number as its last axis."""

    is_float: Bools
    floors: Int64s
    """A range whose first ordinal is at most this has no lower bound."""
    ceilings: Int64s


def axes_of(dimensions: int, kind: ValueType, keyed: bool) -> Axes:
    """The axes of boxes with such values; group numbers are whole."""
    is_float = kind == "float64"
    floor, ceiling = (-_INFINITY_BITS, _INFINITY_BITS) if is_float else (SMALLEST, LARGEST)
    return Axes(
        np.array([is_float] * dimensions + [False] * keyed),
        np.array([floor] * dimensions + [SMALLEST] * keyed),
        np.array([ceiling] * dimensions + [LARGEST] * keyed),
    )


@kernel
def scale_of(low: int, high: int, is_float: bool) -> tuple[float, float]:
    """Origin and keys per unit for bounds between two ordinals; a scale of 1 on whole numbers is exact."""
    origin = decode(low, is_float)
    span = decode(high, is_float) - origin
    if not is_float and span <= KEY_SPAN and abs(origin) <= _EXACT:
        return origin, 1.0
    scale = KEY_SPAN / max(span, abs(origin) * 1e-15, 1e-300)
    return origin, scale if scale != 1.0 else 0.5


@kernel
def key_of(x: float, origin: float, scale: float) -> Any:
    """The key of a decoded value, monotone in it: 1 and up from the origin on, 0 below, `FARTHEST` far above."""
    return np.uint16(i64(min(max((x - origin) * scale, -1.0), 65534.0) + 1.0))


@kernel
def contains(ranges: Int64s, groups: UInt32s, slot: int, points: Int64s, row: int) -> bool:
    """Whether the box in a slot holds a point, by its exact ranges; with groups, the point's last item is its group."""
    dimensions = ranges.shape[1] // 2
    inside = True
    for axis in range(dimensions):
        value = points[row, axis]
        inside &= ranges[slot, axis] <= value and value <= ranges[slot, dimensions + axis]
    if len(groups) > 0:
        group = groups[slot]
        inside &= group == EVERY_GROUP or i64(group) == points[row, dimensions]
    return inside


@kernel
def decide(
    passed: int, undecided: int, ranges: Int64s, groups: UInt32s, slots: UInt32s, at: int, points: Int64s, row: int
) -> Any:
    """The lanes that passed, without those of the undecided whose box does not hold the point.

    For the few cases in which keys do not tell: kernels ask whether there are any before they call.
    """
    while undecided != 0:
        lane = lowest_bit(undecided)
        undecided &= undecided - u64(1)
        if not contains(ranges, groups, i64(slots[at + lane]), points, row):
            passed &= ~(u64(1) << u64(lane))
    return passed


# -- points in ------------------------------------------------------------------------------------------


@kernel
def stage_points(
    words: Int64s,
    is_float: bool,
    missing: Bools,
    first: int,
    points: Int64s,
    absent: Bools,
) -> None:
    """Ordinals of the points from row `first` on, and which of them miss a coordinate.

    `words` are ordinals or the bits of float64 numbers; `missing` marks single coordinates, or is empty.
    """
    for row in range(len(absent)):
        absent[row] = False
        for axis in range(words.shape[1]):
            word = words[first + row, axis]
            if is_float:
                absent[row] |= (word & LARGEST) > _INFINITY_BITS
                if word < 0:
                    word = SMALLEST - word
            if len(missing) > 0:
                absent[row] |= missing[first + row, axis]
            points[row, axis] = word


@allocating_kernel
def find_groups(asked: Int64s, first: int, keys: Int64s, table: UInt32s, points: Int64s, axis: int) -> None:
    """Write the number of each point's group to its last axis, or `UNKNOWN_GROUP`."""
    count = len(points)
    homes = np.empty(_HASHED_AHEAD, np.int64)
    for step in range(count + _HASHED_AHEAD):
        if step >= _HASHED_AHEAD:
            row = step - _HASHED_AHEAD
            key = asked[first + row]
            at = homes[row % _HASHED_AHEAD]
            number = i64(UNKNOWN_GROUP)
            while table[at] != 0:
                if keys[i64(table[at]) - 1] == key:
                    number = i64(table[at]) - 1
                    break
                at = at + 1 if at + 1 < len(table) else 0
            points[row, axis] = number
        if step < count:
            at = spread(asked[first + step], len(table))
            homes[step % _HASHED_AHEAD] = at
            prefetch(table, at)


# -- slots out ------------------------------------------------------------------------------------------


@kernel
def differ(
    was: UInt32s,
    was_begin: int,
    was_end: int,
    now: UInt32s,
    now_begin: int,
    now_end: int,
    ticks: Int64s,
    tick: int,
    entered: UInt32s,
    a: int,
    left: UInt32s,
    b: int,
) -> tuple[int, int]:
    """Write the slots that are only in `now` and those only in `was`; where both end.

    Few are looked for among the others, a vector at a time; many are marked in `ticks` by two numbers from `tick` on.
    """
    if min(was_end - was_begin, now_end - now_begin) <= _FEW:
        for i in range(now_begin, now_end):
            slot = now[i]
            entered[a] = slot
            a += not is_among(was, was_begin, was_end - was_begin, slot)
        for i in range(was_begin, was_end):
            slot = was[i]
            left[b] = slot
            b += not is_among(now, now_begin, now_end - now_begin, slot)
        return a, b
    for i in range(was_begin, was_end):
        ticks[was[i]] = tick
    for i in range(now_begin, now_end):
        slot = now[i]
        entered[a] = slot
        a += ticks[slot] != tick
        ticks[slot] = tick + 1
    for i in range(was_begin, was_end):
        slot = was[i]
        left[b] = slot
        b += ticks[slot] != tick + 1
    return a, b


@kernel
def differ_all(
    was_offsets: Int64s,
    was: UInt32s,
    now_offsets: Int64s,
    now: UInt32s,
    ticks: Int64s,
    tick: int,
    ends: Int64s,
    entered: UInt32s,
    left: UInt32s,
) -> None:
    """`differ` for every row of two answers; `ends` has a row for what is entered and one for what is left."""
    a, b = i64(0), i64(0)
    for row in range(len(now_offsets) - 1):
        a, b = differ(
            was,
            was_offsets[row],
            was_offsets[row + 1],
            now,
            now_offsets[row],
            now_offsets[row + 1],
            ticks,
            tick + 2 * row,
            entered,
            a,
            left,
            b,
        )
        ends[0, row + 1], ends[1, row + 1] = a, b


@kernel
def drop_gone(offsets: Int64s, slots: UInt32s, gone: UInt32s) -> None:
    """Keep of each row's slots those that are not gone, in place."""
    at = i64(0)
    begin = i64(0)
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        for i in range(begin, end):
            slot = slots[i]
            slots[at] = slot
            at += 1 - i64((gone[slot >> np.uint32(5)] >> (slot & np.uint32(31))) & np.uint32(1))
        begin = end
        offsets[row + 1] = at


@kernel
def place_slots(offsets: Int64s, slots: UInt32s, alone: bool, cursor: Int64s, out: UInt32s) -> None:
    """Copy each row's slots to its cursor, and move it.

    Vectors write beyond the end of a row: only the first structure may do so, what others add stands there later.
    """
    for row in range(len(cursor)):
        at = cursor[row]
        begin, end = offsets[row], offsets[row + 1]
        if alone:
            copy_run(out, at, slots, begin, end - begin)
        else:
            for i in range(begin, end):
                out[at + i - begin] = slots[i]
        cursor[row] = at + end - begin


@kernel
def place_ids(
    offsets: Int64s, slots: UInt32s, alone: bool, slot_ids: Int64s, origin: int, cursor: Int64s, out: Int64s
) -> None:
    """Like `place_slots`, translated to ids: ``slot_ids[slot]``, or ``origin + slot`` where `slot_ids` is empty."""
    for row in range(len(cursor)):
        at = cursor[row]
        begin, end = offsets[row], offsets[row + 1]
        if len(slot_ids) > 0:
            for i in range(begin, end):
                out[at + i - begin] = slot_ids[slots[i]]
        elif alone:
            widen_run(out, at, slots, begin, end - begin, origin)
        else:
            for i in range(begin, end):
                out[at + i - begin] = i64(slots[i]) + origin
        cursor[row] = at + end - begin
