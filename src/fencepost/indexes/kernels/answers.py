"""Answers of several structures, checked against further ranges and joined row by row."""

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt32s, i64

SHORT_ROW = 64


@kernel
def drop_outside(
    offsets: Int64s,
    boxes: UInt32s,
    firsts: Int64s,
    lasts: Int64s,
    ordinals: Int64s,
    valid: Bools,
) -> None:
    """Keep of each row's boxes those whose further ranges hold its further values, in place.

    `ordinals` and `valid` have a column per further attribute, as `firsts` and `lasts` have.
    """
    at = i64(0)
    begin = i64(0)
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        for i in range(begin, end):
            box = boxes[i]
            holds = True
            for column in range(ordinals.shape[1]):
                value = ordinals[row, column]
                holds &= valid[row, column] and firsts[box, column] <= value and value <= lasts[box, column]
            boxes[at] = box
            at += holds
        begin = end
        offsets[row + 1] = at


@kernel
def drop_hidden(offsets: Int64s, rules: Int64s, hidden: Bools) -> None:
    """Keep of each row's rules those that are not hidden, in place."""
    at = i64(0)
    begin = i64(0)
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        for i in range(begin, end):
            rule = rules[i]
            rules[at] = rule
            at += not hidden[rule]
        begin = end
        offsets[row + 1] = at


@kernel
def join_rows(offsets: Int64s, boxes: UInt32s, rules: Int64s, cursor: Int64s, out: Int64s) -> None:
    """Append the rules of each row's boxes at the row's cursor, and move it."""
    for row in range(len(cursor)):
        at = cursor[row]
        for i in range(offsets[row], offsets[row + 1]):
            out[at] = rules[boxes[i]]
            at += 1
        cursor[row] = at


@kernel
def rules_of(boxes: UInt32s, rules: Int64s, out: Int64s) -> None:
    """The rule of each box."""
    for i in range(len(boxes)):
        out[i] = rules[boxes[i]]


@kernel
def unique_rows(offsets: Int64s, rules: Int64s, seen: Int64s) -> None:
    """Keep each rule once per row, in place.

    `seen` is -1 for every rule; it may be empty if no row has more than `SHORT_ROW` rules, which are compared.
    """
    at = i64(0)
    begin = i64(0)
    for row in range(len(offsets) - 1):
        end = offsets[row + 1]
        kept = at
        for i in range(begin, end):
            rule = rules[i]
            new = True
            if end - begin > SHORT_ROW:
                new = seen[rule] != row
                seen[rule] = row
            else:
                for j in range(kept, at):
                    new &= rules[j] != rule
            rules[at] = rule
            at += new
        begin = end
        offsets[row + 1] = at
