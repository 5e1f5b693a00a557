"""Whether a straight move meets a half-open box: what n-dimensional `cross` is, decided exactly."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Bools, Int64s, UInt8s, i64
from fencepost.indexes.matches import Matches
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType, from_ordinal

_CLEAR = 1e-9
"""How far apart two shares of a line must be, in float64, for their order to be beyond doubt."""
_LARGE = 1e300
_EXACT = 2.0**53
_MISSES, _MEETS, _DOUBTFUL = range(3)


def lines_meet(before: Int64s, after: Int64s, firsts: Int64s, lasts: Int64s, kinds: Sequence[ValueType]) -> Bools:
    """Which lines meet their box; one row each, a column of ordinals per axis.

    float64 decides what is clear, fractions the rest. An infinite coordinate has no straight line to it: it meets
    nothing. A box is unbounded where its first is the smallest int64, its last the largest.
    """
    before, after, firsts, lasts = (np.ascontiguousarray(each) for each in (before, after, firsts, lasts))
    verdicts = np.empty(len(after), np.uint8)
    judge_lines(before, after, firsts, lasts, np.array([kind == "float64" for kind in kinds]), verdicts)
    for row in np.flatnonzero(verdicts == _DOUBTFUL).tolist():
        verdicts[row] = _MISSES
        if _line_meets(before[row].tolist(), after[row].tolist(), firsts[row].tolist(), lasts[row].tolist(), kinds):
            verdicts[row] = _MEETS
    meets: Bools = verdicts == _MEETS
    return meets


@kernel
def judge_lines(
    before: Int64s, after: Int64s, firsts: Int64s, lasts: Int64s, is_float: Bools, verdicts: UInt8s
) -> None:
    """Whether each line meets its box, as far as float64 can tell."""
    for row in range(len(verdicts)):
        lowest, highest = 0.0, 1.0
        apart, doubtful = False, False
        for axis in range(len(is_float)):
            first, last = firsts[row, axis], lasts[row, axis]
            one, other = before[row, axis], after[row, axis]
            here, there = number_of(one, is_float[axis]), number_of(other, is_float[axis])
            apart |= min(one, other) > last or max(one, other) < first
            apart |= abs(here) == np.inf or abs(there) == np.inf
            if one == other:
                continue  # inside on this axis all along, unless its shadow is apart
            low = -np.inf if first == SMALLEST else number_of(first, is_float[axis])
            high = np.inf if last == LARGEST else number_of(last + 1, is_float[axis])
            step = there - here
            doubtful |= not (1 / _LARGE < abs(step) < _LARGE)
            if not is_float[axis]:
                for value in (here, there, low, high):
                    doubtful |= _EXACT <= abs(value) < np.inf
            to_low, to_high = (low - here) / step, (high - here) / step
            lowest = max(lowest, min(to_low, to_high))
            highest = min(highest, max(to_low, to_high))
        if apart:
            verdicts[row] = _MISSES
        elif doubtful or not abs(highest - lowest) > _CLEAR:
            verdicts[row] = _DOUBTFUL
        else:
            verdicts[row] = _MEETS if highest > lowest else _MISSES


@kernel
def number_of(ordinal: int, is_float: bool) -> Any:
    """The number of an ordinal, to the nearest float64; infinite for what is beyond infinity."""
    if not is_float:
        return np.float64(ordinal)
    bits = ordinal if ordinal >= 0 else i64(SMALLEST) - ordinal
    number = i64(bits).view(np.float64)
    return number if number == number else np.inf if ordinal > 0 else -np.inf


def _line_meets(
    before: list[int], after: list[int], firsts: list[int], lasts: list[int], kinds: Sequence[ValueType]
) -> bool:
    """Whether one line meets its box; shares of the line run from 0 (before) to 1 (after)."""
    lowest, lowest_open = Fraction(0), False
    highest, highest_open = Fraction(1), False
    for here, there, first, last, kind in zip(before, after, firsts, lasts, kinds, strict=True):
        if here == there:
            continue  # inside on this axis all along, since its shadow meets the box
        start = Fraction(from_ordinal(here, kind))
        step = Fraction(from_ordinal(there, kind)) - start
        low = _share(first, SMALLEST, start, step, kind)
        high = _share(last + 1, LARGEST + 1, start, step, kind)
        # The low end is inside, the high end is not; a falling line meets them in the other order.
        entry, entry_open, leave, leave_open = (low, False, high, True) if step > 0 else (high, True, low, False)
        if entry is not None and (entry, entry_open) > (lowest, lowest_open):
            lowest, lowest_open = entry, entry_open
        if leave is not None and (leave, not leave_open) < (highest, not highest_open):
            highest, highest_open = leave, leave_open
    return lowest < highest or (lowest == highest and not lowest_open and not highest_open)


def _share(ordinal: int, unbounded: int, start: Fraction, step: Fraction, kind: ValueType) -> Fraction | None:
    """Where on a line a bound lies; None if the side is unbounded."""
    if ordinal == unbounded:
        return None
    bound = from_ordinal(ordinal, kind)
    return (Fraction(bound) - start) / step if np.isfinite(bound) else None


def only(matches: Matches, kept: Bools) -> Matches:
    """The answer with some of its ids left out."""
    ends = np.concatenate([[0], np.cumsum(kept)])
    return Matches(ends[matches.offsets], matches.ids[kept])
