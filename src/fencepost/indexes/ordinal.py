"""Numbers as the int64 ordinals that the production indexes compare.

An int64 is its own ordinal. A float64 has the ordinal of its bit pattern, mirrored for negative numbers, so that
neighbouring floats have neighbouring ordinals, -0.0 and 0.0 share one, and order is kept. Every range, open or
closed, is then one inclusive range ``[first, last]`` of ordinals.
"""

import struct
from typing import Any, Literal, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes.arguments import Owners, bound_column, check_ends, convert_items, kernel_ready, value_column
from fencepost.indexes.arrays import Bools, Float64s, Int64s

ValueType = Literal["int64", "float64"]
VALUE_TYPES: tuple[ValueType | None, ...] = (None, "int64", "float64")
"""By their number in saved arrays; None is not settled yet."""

SMALLEST, LARGEST = -(2**63), 2**63 - 1
_EXACT = 2**53
"""Whole numbers up to this one are floats; so are few enough of those beyond."""
_PLAIN = (float, int)
_DOUBLE, _BITS = struct.Struct("<d"), struct.Struct("<q")


class Ranges(NamedTuple):
    """Inclusive ordinal ranges, and which rows have a bound that is no number or a range that is empty."""

    firsts: Int64s
    lasts: Int64s
    not_a_number: Bools
    empty: Bools


def infer_type(los: Any, his: Any) -> ValueType:
    """int64 if every bound that is given is a whole number, else float64."""
    kinds = set()
    for column in (np.asarray(los), np.asarray(his)):
        if column.dtype != object:
            kinds.add(column.dtype.kind)
            continue
        given = [bound for bound in column.tolist() if not _unbounded(bound)]
        kinds.update("i" if isinstance(bound, int | np.integer) else "f" for bound in given)
    return "int64" if kinds and kinds <= set("iu") else "float64"


def _unbounded(bound: Any) -> bool:
    return bound is None or (isinstance(bound, float) and np.isinf(bound))


def ranges(los: Any, his: Any, bounds: str, values: ValueType, owners: Owners | None = None) -> Ranges:
    """Ordinal ranges of intervals with these ends; the refusal of a bound names its owner, if those are given."""
    check_ends(bounds)
    if values == "float64":
        lows = bound_column(los, -np.inf, "lower bound", owners)
        highs = bound_column(his, np.inf, "upper bound", owners)
        firsts, lasts = floats_to_ordinals(lows), floats_to_ordinals(highs)
        open_below, open_above = lows == -np.inf, highs == np.inf
        not_a_number = np.isnan(lows[: len(highs)]) | np.isnan(highs[: len(lows)])
    else:
        firsts, open_below = _whole_column(los, SMALLEST, -np.inf, "lower bound", owners)
        lasts, open_above = _whole_column(his, LARGEST, np.inf, "upper bound", owners)
        not_a_number = np.zeros(min(len(firsts), len(lasts)), np.bool_)
    empty = np.zeros(len(not_a_number), np.bool_)
    include_ends(firsts, lasts, open_below, open_above, bounds[0] == "(", bounds[1] == ")", empty)
    return Ranges(firsts, lasts, not_a_number, empty)


def plain_range(lo: Any, hi: Any, values: ValueType | None) -> tuple[int, int] | None:
    """The ordinals of one range ``[lo, hi)`` that is not empty, between plain numbers of its type; None for all others.

    What `ranges` says of one row, where there is nothing to refuse: it is for those who change one row at a time.
    """
    if values == "int64":
        if type(lo) is int and type(hi) is int and SMALLEST <= lo < hi <= LARGEST:
            return lo, hi - 1
    elif values == "float64" and type(lo) in _PLAIN and type(hi) in _PLAIN and -_EXACT <= lo < hi <= _EXACT:
        return _float_ordinal(lo), _float_ordinal(hi) - 1
    return None


def _float_ordinal(number: float) -> int:
    bits: int = _BITS.unpack(_DOUBLE.pack(number))[0]
    return bits if bits >= 0 else SMALLEST - bits


def _whole_column(
    bounds: Any, unbounded: int, infinity: float, what: str, owners: Owners | None
) -> tuple[Int64s, Bools]:
    column = np.asarray(bounds)
    if column.ndim == 1 and column.dtype.kind in "iu" and column.dtype != np.uint64:
        return column.astype(np.int64), np.zeros(len(column), np.bool_)
    items = bounds if isinstance(bounds, list | tuple) else column.tolist()
    missing = [item is None or item == infinity for item in items]

    def converted(item: Any, what: str) -> int:
        return unbounded if item is None or item == infinity else _whole(item, what)

    return np.array(convert_items(items, converted, what, owners), np.int64), np.array(missing, np.bool_)


def _whole(value: Any, what: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not SMALLEST <= value <= LARGEST:
        raise FencepostError(
            f"{what} {value!r} ({type(value).__name__}) in an index of int64 values",
            "a whole number that fits int64",
            "Make the index with values='float64' to mix whole numbers and fractions.",
        )
    return int(value)


def values_to_ordinals(
    values: Any, kind: ValueType, owners: Owners | None = None, what: str = "value"
) -> tuple[Int64s, Bools]:
    """Ordinals of data values, and which are missing (an empty mask if none is)."""
    if kind == "float64":
        floats = value_column(values, owners)
        ordinals = np.empty(len(floats), np.int64)
        return ordinals, np.isnan(floats) if mirror(floats, ordinals) else np.zeros(0, np.bool_)
    column = np.asarray(values)
    if column.ndim == 1 and column.dtype == np.int64:
        return kernel_ready(column), np.zeros(0, np.bool_)
    items = [values] if column.ndim == 0 else values
    ordinals, missing = _whole_column(
        [None if isinstance(item, float) and np.isnan(item) else item for item in np.asarray(items, object)]
        if column.dtype.kind not in "iu" or column.ndim == 0
        else items,
        0,
        np.nan,
        what,
        owners,
    )
    return ordinals, missing if missing.any() else np.zeros(0, np.bool_)


def floats_to_ordinals(floats: Float64s) -> Int64s:
    """The ordinals of float64 numbers."""
    ordinals = np.empty(floats.shape, np.int64)
    mirror(floats.reshape(-1), ordinals.reshape(-1))
    return ordinals


@kernel
def mirror(floats: Float64s, ordinals: Int64s) -> Any:
    """Write the ordinals of numbers; whether one of them is NaN."""
    bits = floats.view(np.int64)
    not_a_number = False
    for i in range(len(bits)):
        ordinals[i] = bits[i] if bits[i] >= 0 else SMALLEST - bits[i]
        not_a_number |= floats[i] != floats[i]
    return not_a_number


@kernel
def include_ends(
    firsts: Int64s,
    lasts: Int64s,
    open_below: Bools,
    open_above: Bools,
    without_low: bool,
    without_high: bool,
    empty: Bools,
) -> None:
    """Move the ends that do not belong to their range inwards, and mark the ranges that are empty."""
    for i in range(len(empty)):
        first, last = firsts[i], lasts[i]
        if without_low and not open_below[i]:
            empty[i] = first == LARGEST
            first += first < LARGEST
        if open_above[i]:
            last = LARGEST
        elif without_high:
            empty[i] |= last == SMALLEST
            last -= last > SMALLEST
        empty[i] |= first > last
        firsts[i] = first
        lasts[i] = last


def bounds_of(first: int, last: int, kind: ValueType) -> tuple[float, float]:
    """The bounds ``[lo, hi)`` of an inclusive range of ordinals, infinite where it is unbounded."""
    low = -np.inf if first == SMALLEST else from_ordinal(first, kind)
    return low, np.inf if last == LARGEST else from_ordinal(last + 1, kind)


def from_ordinal(ordinal: int, kind: ValueType) -> float:
    """The number with this ordinal."""
    if kind == "int64":
        return ordinal
    bits = ordinal if ordinal >= 0 else SMALLEST - ordinal
    return float(np.int64(bits).view(np.float64))
