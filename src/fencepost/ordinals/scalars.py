"""Single values and bounds to ordinals, by exact arithmetic."""

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.ordinals.types import AttributeType

Dimension = Literal["number", "time", "truth"]
Value = int | float | Fraction | Decimal | date | datetime | bool

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MICROSECONDS_PER_DAY = 86_400_000_000
_MAGNITUDE = 2**63 - 1
_INFINITE = float("inf")
_DOUBLE = struct.Struct("<d")
_BITS = struct.Struct("<q")

_MEASURED = {"number": "a number", "time": "a date or timestamp", "truth": "TRUE or FALSE"}
_EXACT_TYPES = (float, int, bool, Decimal, Fraction, datetime, date)


def float_ordinal(value: float) -> int:
    """The ordinal of a double: its magnitude bits with the sign applied, so that -0.0 and 0.0 are both 0."""
    bits: int = _BITS.unpack(_DOUBLE.pack(value))[0]
    return bits if bits >= 0 else -(bits & _MAGNITUDE)


def double_of(ordinal: int) -> float:
    """The double of an ordinal.

    >>> double_of(float_ordinal(-0.1)), double_of(0)
    (-0.1, 0.0)
    """
    found: float = _DOUBLE.unpack(_BITS.pack(ordinal if ordinal >= 0 else -ordinal - 2**63))[0]
    return found


def nearest_double(value: float | Fraction) -> float:
    """The double nearest to a number; infinite beyond the largest.

    >>> nearest_double(Fraction(1, 10)), nearest_double(10**400)
    (0.1, inf)
    """
    try:
        return float(value)  # int and Fraction both round correctly, also to subnormals
    except OverflowError:
        return _INFINITE if value > 0 else -_INFINITE


def position(attribute: "AttributeType", bound: Any) -> tuple[int, bool]:
    """The ordinal of the largest value that is at most the bound, and whether it equals the bound.

    The ordinal may lie outside the limits of the type by as much as the bound does.
    """
    if type(bound) is not int or attribute.dimension != "number":
        bound = _measure(attribute, bound)
    measured: int | Fraction | float = bound
    if attribute.kind == "double":
        nearest = nearest_double(measured)
        if math.isinf(nearest) and measured != nearest:  # finite, but beyond every finite double
            return float_ordinal(nearest) - (nearest > 0), False
        return float_ordinal(nearest), True
    smallest, largest = attribute.limits
    if isinstance(measured, float):
        return (largest, False) if measured > 0 else (smallest - 1, False)
    units = measured / attribute.unit if attribute.unit != 1 else measured
    below = math.floor(units)
    return below, below == units


def encode_one(attribute: "AttributeType", value: Any, column: str) -> int | None:
    """See AttributeType.encode_one."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        value = value.item()
    if type(value) not in _EXACT_TYPES:
        # A scalar of numpy, pandas or Arrow: the column path knows all of them, and their nulls.
        ordinals, valid = attribute.encode(np.array([value]) if isinstance(value, np.generic) else [value], column)
        return int(ordinals[0]) if valid is None or valid[0] else None
    if value != value:
        return None
    if attribute.kind == "double" and type(value) is float:
        return float_ordinal(value)
    if attribute.kind == "bigint" and type(value) is int and -_MAGNITUDE <= value <= _MAGNITUDE:
        return value
    try:
        ordinal, exact = position(attribute, value)
    except FencepostError as error:
        raise FencepostError(f"{error.got} for {column}", error.expected, error.remedy) from None
    if attribute.kind == "double":
        exact = exact and float(value) == value
    if not exact or not attribute.limits[0] <= ordinal <= attribute.limits[1]:
        raise FencepostError(
            f"{value!r} for {column}",
            f"a value that {attribute} holds exactly",
            f"Convert the value, or bind {column} to another type.",
        )
    return ordinal


def _measure(attribute: "AttributeType", bound: Any) -> int | Fraction | float:
    """The bound as an exact number of ones or microseconds; a float only where attribute or bound needs it."""
    if isinstance(bound, np.generic) and not isinstance(bound, np.datetime64):
        bound = bound.item()
    if attribute.dimension == "time":
        if isinstance(bound, datetime):
            return _microseconds(bound)
        if isinstance(bound, date):
            return (bound.toordinal() - _EPOCH_DAY) * _MICROSECONDS_PER_DAY
    elif attribute.dimension == "truth":
        if isinstance(bound, bool):
            return int(bound)
    elif isinstance(bound, (int, Fraction)) and not isinstance(bound, bool):
        return bound
    elif isinstance(bound, float) and not math.isnan(bound):
        return bound if math.isinf(bound) or attribute.kind == "double" else Fraction(bound)
    elif isinstance(bound, Decimal) and not bound.is_nan():
        return float(bound) if bound.is_infinite() else Fraction(bound)
    raise FencepostError(
        f"{bound!r} as a value of type {attribute}",
        _MEASURED[attribute.dimension],
        "Compare with a constant of that type, or bind the column to the type of the constant.",
    )


def _microseconds(instant: datetime) -> int:
    since = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
