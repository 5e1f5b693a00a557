"""The kernels that take steps of both sides in their order: rows that come, go and move, each with what it changes."""

from typing import Any, NamedTuple

from fencepost.compiled import kernel, kernel_piece
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, i64
from fencepost.indexes.ssi.distance import LEFT, RIGHT
from fencepost.indexes.ssi.moves import ENTERED, LEFT_BAND, append_changes
from fencepost.indexes.ssi.ordered import add, discard, has_room
from fencepost.indexes.ssi.search import RowList, SSIView, ask_one

WENT, CAME, MOVED, LISTED = 1, 2, 4, 8
"""What a step does: the row goes, comes (after it went, if both), or moves in its group. The pairs of rows that come or
go are reported only where they are asked for."""
NEXT, NEEDED = 0, 1
"""Items of a progress: the next step, and how many pairs there must be room for if it is to be taken."""


class Steps(NamedTuple):
    """Steps in their order: side, slot and action, the key and group that the row then has; and those that it had.

    The groups, before and after, are there for rows that go and come.
    """

    sides: Int64s
    slots: Int64s
    actions: UInt8s
    keys: Int64s
    groups: Int64s
    old_keys: Int64s
    old_groups: Int64s


@kernel
def find_impossible(sides: Int64s, slots: Int64s, actions: UInt8s, lefts: Bools, rights: Bools) -> Any:
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
    steps: Steps,
    lefts: RowList,
    rights: RowList,
    view: SSIView,
    changed: Int64s,
    counts: Int64s,
    offsets: Int64s,
    progress: Int64s,
) -> None:
    """Take steps until there is no room for their lists or changes; `progress` says how far, and what is needed.

    `changed` is [entered or left, row or query, pair], `counts` and `offsets` have a row for entered and for left.
    """
    for i in range(progress[NEXT], len(steps.slots)):
        if not (has_room(lefts.order) and has_room(rights.order)):
            return
        # The changes of the step are appended first: if there is no room for them, nothing has happened.
        if steps.sides[i] == LEFT:
            append_changes_by(kind, LEFT, steps, i, lefts, rights, view, changed, counts)
        else:
            append_changes_by(kind, RIGHT, steps, i, rights, lefts, view, changed, counts)
        if not are_noted(changed, counts, offsets, progress, i):
            return
        # Then the row is where the step takes it.
        if steps.sides[i] == LEFT:
            apply_step(steps, i, lefts)
        else:
            apply_step(steps, i, rights)
        progress[NEXT] = i + 1


@kernel
def take_moves(
    kind: int,
    side: int,
    steps: Steps,
    own: RowList,
    others: RowList,
    view: SSIView,
    changed: Int64s,
    counts: Int64s,
    offsets: Int64s,
    progress: Int64s,
) -> None:
    """The same for steps that all move rows of one side, faster."""
    for i in range(progress[NEXT], len(steps.slots)):
        if not has_room(own.order):
            return
        slot, key = steps.slots[i], steps.keys[i]
        group = i64(own.groups[slot])
        append_changes(kind, side, own.keys[slot], key, group, others, view, changed, counts)
        if not are_noted(changed, counts, offsets, progress, i):
            return
        steps.old_keys[i] = own.keys[slot]
        put_row(own, slot, True, True, key, group)
        progress[NEXT] = i + 1


@kernel
def are_noted(changed: Int64s, counts: Int64s, offsets: Int64s, progress: Int64s, i: int) -> Any:
    """Whether there was room for the changes of a step; where they end, or how much room is needed."""
    entered, left = counts[ENTERED], counts[LEFT_BAND]
    if max(entered, left) > changed.shape[2]:
        progress[NEEDED] = max(entered, left)
        counts[ENTERED], counts[LEFT_BAND] = offsets[ENTERED, i], offsets[LEFT_BAND, i]
        return False
    offsets[ENTERED, i + 1], offsets[LEFT_BAND, i + 1] = entered, left
    return True


@kernel
def undo_steps(steps: Steps, lefts: RowList, rights: RowList, progress: Int64s) -> None:
    """Take all steps back, the last one first; the lists have room for as many additions as there were steps."""
    for i in range(progress[NEXT] - 1, -1, -1):
        own = lefts if steps.sides[i] == LEFT else rights
        action, slot = steps.actions[i], steps.slots[i]
        group = steps.old_groups[i] if action & WENT else i64(own.groups[slot])
        put_row(own, slot, action & (CAME | MOVED) != 0, action & (WENT | MOVED) != 0, steps.old_keys[i], group)
    progress[NEXT] = 0


@kernel_piece
def append_changes_by(
    kind: int,
    side: int,
    steps: Steps,
    i: int,
    own: RowList,
    others: RowList,
    view: SSIView,
    changed: Int64s,
    counts: Int64s,
) -> None:
    """Append the pairs that a step changes; what exceeds the room is counted only."""
    action, slot = steps.actions[i], steps.slots[i]
    key, group = own.keys[slot], i64(own.groups[slot])
    if action & MOVED:
        append_changes(kind, side, key, steps.keys[i], group, others, view, changed, counts)
    if action & LISTED and action & WENT:
        counts[LEFT_BAND] = ask_one(
            kind, side, key, group, others, view, changed[LEFT_BAND, 0], changed[LEFT_BAND, 1], counts[LEFT_BAND]
        )
    if action & LISTED and action & CAME:
        counts[ENTERED] = ask_one(
            kind,
            side,
            steps.keys[i],
            steps.groups[i],
            others,
            view,
            changed[ENTERED, 0],
            changed[ENTERED, 1],
            counts[ENTERED],
        )


@kernel_piece
def apply_step(steps: Steps, i: int, own: RowList) -> None:
    """Let a row be where a step takes it, and note where it was."""
    action, slot = steps.actions[i], steps.slots[i]
    steps.old_keys[i], steps.old_groups[i] = own.keys[slot], own.groups[slot]
    group = steps.groups[i] if action & CAME else i64(own.groups[slot])
    put_row(own, slot, action & (WENT | MOVED) != 0, action & (CAME | MOVED) != 0, steps.keys[i], group)


@kernel_piece
def put_row(own: RowList, slot: int, was: bool, now: bool, key: int, group: int) -> None:
    """Give a row a key and a group; `was` and `now` say whether the list has it before and after that."""
    if was and now and own.keys[slot] == key and own.groups[slot] == group:
        return
    if was:
        discard(own.order, own.groups, own.keys, slot)
    own.keys[slot] = key
    own.groups[slot] = group
    if now:
        add(own.order, own.groups, own.keys, slot)
