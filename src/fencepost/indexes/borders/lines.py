"""Whether a straight move meets a half-open box: what n-dimensional `cross` is, decided exactly."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.indexes.matches import Matches
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType, from_ordinal

__all__ = ["lines_meet", "only"]

_CLEAR = 1e-9
"""How far apart two shares of a line must be, in float64, for their order to be beyond doubt."""
_LARGE = 1e300
_EXACT = 2.0**53


def lines_meet(before: Int64s, after: Int64s, firsts: Int64s, lasts: Int64s, kinds: Sequence[ValueType]) -> Bools:
    """Which lines meet their box; one row each, a column of ordinals per axis.

    float64 decides what is clear, fractions the rest. An infinite coordinate has no straight line to it: it meets
    nothing.

    Args:
        before: where the lines start.
        after: where they end.
        firsts: of the boxes; the smallest int64 where they are unbounded.
        lasts: of the boxes; the largest int64 where they are unbounded.
        kinds: what the ordinals of each axis stand for.
    """
    meets: Bools = np.all(((np.minimum(before, after) <= lasts) & (np.maximum(before, after) >= firsts)), axis=1)
    near = np.flatnonzero(meets)
    before, after, firsts, lasts = before[near], after[near], firsts[near], lasts[near]
    here, there = _decoded(before, kinds), _decoded(after, kinds)
    low = np.where(firsts == SMALLEST, -np.inf, _decoded(firsts, kinds))
    bounded = lasts < LARGEST
    high = np.where(bounded, _decoded(lasts + bounded, kinds), np.inf)
    still = before == after
    with np.errstate(all="ignore"):
        step = there - here
        to_low, to_high = (low - here) / step, (high - here) / step
    lowest = np.where(still, 0.0, np.fmax(0.0, np.fmin(to_low, to_high))).max(axis=1, initial=0.0)
    highest = np.where(still, 1.0, np.fmin(1.0, np.fmax(to_low, to_high))).min(axis=1, initial=1.0)
    doubtful = ~still & ~((np.abs(step) < _LARGE) & (np.abs(step) > 1 / _LARGE))
    whole = np.array([kind == "int64" for kind in kinds])
    for value in (here, there, low, high):
        doubtful |= whole & np.isfinite(value) & (np.abs(value) >= _EXACT)
    exactly = doubtful.any(axis=1) | ~(np.abs(highest - lowest) > _CLEAR)
    nowhere = ~(np.isfinite(here) & np.isfinite(there)).all(axis=1)
    found: Bools = (highest > lowest) & ~nowhere
    for row in np.flatnonzero(exactly & ~nowhere).tolist():
        found[row] = _line_meets(
            before[row].tolist(), after[row].tolist(), firsts[row].tolist(), lasts[row].tolist(), kinds
        )
    meets[near] = found
    return meets


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


def _decoded(ordinals: Int64s, kinds: Sequence[ValueType]) -> Float64s:
    """The numbers of ordinals, to the nearest float64; nothing but order is asked of what is beyond infinity."""
    numbers = ordinals.astype(np.float64)
    floats = [axis for axis, kind in enumerate(kinds) if kind == "float64"]
    own = np.ascontiguousarray(ordinals[:, floats])
    found = np.where(own >= 0, own, SMALLEST - own).view(np.float64)
    numbers[:, floats] = np.where(np.isnan(found), np.where(own > 0, np.inf, -np.inf), found)
    return numbers


def only(matches: Matches, kept: Bools) -> Matches:
    """The answer with some of its ids left out."""
    ends = np.concatenate([[0], np.cumsum(kept)])
    return Matches(ends[matches.offsets], matches.ids[kept])
