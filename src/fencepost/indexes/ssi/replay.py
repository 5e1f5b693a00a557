"""The kernels that take steps of both sides in their order: rows that come, go and move, each with what it changes."""

from typing import Any

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, i64
from fencepost.indexes.ssi.distance import LEFT, RIGHT
from fencepost.indexes.ssi.moves import ENTERED, LEFT_BAND, changes_of
from fencepost.indexes.ssi.ordered import add, discard, has_room, put_back
from fencepost.indexes.ssi.search import RowList, SSIView, pairs_in, span

WENT, CAME, MOVED, LISTED = 1, 2, 4, 8
"""What a step does: the row goes, comes (after it went, if both), or moves in its group; of rows that come or go the
pairs are told only if asked for."""


@kernel
def possible(sides: Int64s, slots: Int64s, actions: UInt8s, lefts: Bools, rights: Bools) -> Any:
    """The first step of a row that is not there, or comes while it is; -1 if there is none.

    `lefts` and `rights` say which rows are there, and in the end which will be.
    """
    for i in range(len(slots)):
        there = lefts if sides[i] == LEFT else rights
        if actions[i] & (WENT | MOVED) and not there[slots[i]]:
            return i
        if actions[i] & WENT:
            there[slots[i]] = False
        if actions[i] & CAME:
            if there[slots[i]]:
                return i
            there[slots[i]] = True
    return i64(-1)


@kernel
def take_steps(
    kind: int,
    start: int,
    sides: Int64s,
    slots: Int64s,
    actions: UInt8s,
    keys: Int64s,
    groups: Int64s,
    lefts: RowList,
    rights: RowList,
    view: SSIView,
    released: Int64s,
    changed: Int64s,
    counts: Int64s,
    offsets: Int64s,
    needed: Int64s,
) -> Any:
    """Take steps, from the `start`-th on, until there is no room for their lists or changes; the next step.

    As `move_rows`; `released` has the number of the group that each row which went belonged to. Of steps that are
    taken, `keys` has the key before.
    """
    for i in range(start, len(slots)):
        if not (has_room(lefts.order) and has_room(rights.order)):
            return i
        entered, left = counts[ENTERED], counts[LEFT_BAND]
        if sides[i] == LEFT:
            changes_by(kind, LEFT, actions[i], slots[i], keys[i], groups[i], lefts, rights, view, changed, counts)
        else:
            changes_by(kind, RIGHT, actions[i], slots[i], keys[i], groups[i], rights, lefts, view, changed, counts)
        if max(counts[ENTERED], counts[LEFT_BAND]) > changed.shape[2]:
            needed[0] = max(counts[ENTERED], counts[LEFT_BAND])
            counts[ENTERED], counts[LEFT_BAND] = entered, left
            return i
        if sides[i] == LEFT:
            released[i], keys[i] = step(actions[i], slots[i], keys[i], groups[i], lefts)
        else:
            released[i], keys[i] = step(actions[i], slots[i], keys[i], groups[i], rights)
        offsets[ENTERED, i + 1] = counts[ENTERED]
        offsets[LEFT_BAND, i + 1] = counts[LEFT_BAND]
    return len(slots)


@kernel
def changes_by(
    kind: int,
    side: int,
    action: int,
    slot: int,
    key: int,
    group: int,
    own: RowList,
    others: RowList,
    view: SSIView,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append the pairs that a step changes; what exceeds the room is counted only."""
    if action & MOVED:
        changes_of(kind, side, own.keys[slot], key, i64(own.groups[slot]), others, view, changed, counts)
    if action & LISTED and action & WENT:
        list_pairs(kind, side, own.keys[slot], i64(own.groups[slot]), others, view, changed, counts, LEFT_BAND)
    if action & LISTED and action & CAME:
        list_pairs(kind, side, key, group, others, view, changed, counts, ENTERED)


@kernel
def list_pairs(
    kind: int, side: int, key: int, group: int, rows: RowList, view: SSIView, changed: Int64s, counts: Int64s, to: int
) -> None:
    """Append all pairs of a row."""
    begin, end = span(rows, group)
    if begin == end:
        return
    count = pairs_in(kind, side, key, begin, end, rows, view, 0, changed[to, 0], changed[to, 1], counts[to])
    if group > 0:
        count = pairs_in(kind, side, key, begin, end, rows, view, group, changed[to, 0], changed[to, 1], count)
    counts[to] = count


@kernel
def step(action: int, slot: int, key: int, group: int, own: RowList) -> Any:
    """Let a row be where the step takes it; the number of the group it went from, or -1, and its key before."""
    released, before = i64(-1), own.keys[slot]
    if action & WENT:
        released = i64(own.groups[slot])
        discard(own.order, own.groups, own.keys, slot)
    if action & CAME:
        own.keys[slot] = key
        own.groups[slot] = group
        add(own.order, own.groups, own.keys, slot)
    if action & MOVED and own.keys[slot] != key:
        discard(own.order, own.groups, own.keys, slot)
        own.keys[slot] = key
        add(own.order, own.groups, own.keys, slot)
    return released, before


@kernel
def undo_steps(
    done: int,
    sides: Int64s,
    slots: Int64s,
    actions: UInt8s,
    keys: Int64s,
    released: Int64s,
    lefts: RowList,
    rights: RowList,
) -> None:
    """Undo the first steps, the last of them first; `keys` and `released` are as `take_steps` left them.

    It takes no memory: before each step the lists had a chunk to spare, so that their rows have room again.
    """
    for i in range(done - 1, -1, -1):
        if sides[i] == LEFT:
            undo(actions[i], slots[i], keys[i], released[i], lefts)
        else:
            undo(actions[i], slots[i], keys[i], released[i], rights)


@kernel
def undo(action: int, slot: int, key: int, group: int, own: RowList) -> None:
    """Let a row be where it was before a step."""
    if action & MOVED and own.keys[slot] != key:
        discard(own.order, own.groups, own.keys, slot)
        own.keys[slot] = key
        put_back(own.order, own.groups, own.keys, slot)
    if action & CAME:
        discard(own.order, own.groups, own.keys, slot)
    if action & WENT:
        own.keys[slot] = key
        own.groups[slot] = group
        put_back(own.order, own.groups, own.keys, slot)
