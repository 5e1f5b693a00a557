"""Sorting positions by an int64 key: a stable radix sort that skips the digits all keys share."""

from typing import Any

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, UInt32s, UInt64s, i64, u64

_DIGIT_BITS = 11
_SIGN = -(2**63)


def sorted_positions(keys: Int64s, order: UInt32s | None = None) -> UInt32s:
    """The positions of `keys` in ascending order of key, ties in the order given.

    Args:
        keys: what to sort by.
        order: positions to start from, if not 0, 1, ...: sort by the minor key first, then by the major one.
    """
    n = len(keys)
    positions = np.arange(n, dtype=np.uint32) if order is None else order.copy()
    if n < 2:
        return positions
    here, there, swap = np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(n, np.uint32)
    counts = np.empty((1 << _DIGIT_BITS) + 1, np.int64)
    return swap if sort_by_digits(keys, positions, here, there, swap, counts) else positions


@kernel
def sort_by_digits(
    keys: Int64s, positions: UInt32s, here: UInt64s, there: UInt64s, swap: UInt32s, counts: Int64s
) -> Any:
    """Sort positions by their keys, from `positions` to `swap` and back; whether the last pass went to `swap`."""
    differing = gather_unsigned(keys, positions, here)
    swapped = False
    for shift in range(0, 64, _DIGIT_BITS):
        if (differing >> u64(shift)) & u64((1 << _DIGIT_BITS) - 1):
            counts[:] = 0
            if swapped:
                scatter(there, swap, shift, counts, here, positions)
            else:
                scatter(here, positions, shift, counts, there, swap)
            swapped = not swapped
    return swapped


@kernel
def gather_unsigned(keys: Int64s, positions: UInt32s, out: UInt64s) -> Any:
    """Order-preserving unsigned keys in the given order; the bits in which any two of them differ."""
    first = u64(keys[positions[0]] ^ _SIGN)
    differing = u64(0)
    for i in range(len(positions)):
        key = u64(keys[positions[i]] ^ _SIGN)
        out[i] = key
        differing |= key ^ first
    return differing


@kernel
def scatter(
    keys: UInt64s,
    positions: UInt32s,
    shift: int,
    counts: Int64s,
    keys_out: UInt64s,
    positions_out: UInt32s,
) -> None:
    """One stable counting pass by one digit."""
    mask = u64((1 << _DIGIT_BITS) - 1)
    by = u64(shift)
    for i in range(len(keys)):
        counts[i64((keys[i] >> by) & mask) + 1] += 1
    for d in range(1, len(counts)):
        counts[d] += counts[d - 1]
    for i in range(len(keys)):
        digit = i64((keys[i] >> by) & mask)
        at = counts[digit]
        counts[digit] = at + 1
        keys_out[at] = keys[i]
        positions_out[at] = positions[i]
