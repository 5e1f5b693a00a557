"""The types an attribute can have: their names, their limits, and the way to and from ordinals.

All types but double count whole units (of a number, of a microsecond, of truth), so one rational factor
converts between any two of the same dimension. Double counts its own bit patterns.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fencepost.errors import FencepostError
from fencepost.ordinals import arrays, scalars
from fencepost.ordinals.spellings import TYPES, Kind, decimal_digits, spark_name

Ordinals = NDArray[np.int64]
Mask = NDArray[np.bool_]

LARGEST_PRECISION = 18  # the largest whose unscaled integers all fit int64
EXPECTED = "double, bigint, decimal(p,s) with p <= 18, timestamp, timestamp_ntz, date or boolean"

_INT64 = np.iinfo(np.int64)
_INT32 = np.iinfo(np.int32)
_INFINITY = scalars.float_ordinal(float("inf"))
_DAY = 86_400_000_000


@dataclass(frozen=True)
class AttributeType:
    """The type of an attribute, and its exact, order-preserving code in int64.

    Two values compare as their ordinals do, and consecutive ordinals are consecutive values. Null and NaN have
    none; -0.0 has that of 0.0. A time without a zone is read as UTC.

    >>> AttributeType.parse("decimal(12, 4)").range(lower=1, upper=2, upper_closed=False)
    (10000, 19999)
    """

    kind: Kind
    precision: int = 0
    scale: int = 0

    def __post_init__(self) -> None:
        if self.kind == "decimal" and not (
            1 <= self.precision <= LARGEST_PRECISION and 0 <= self.scale <= self.precision
        ):
            raise FencepostError(
                f"decimal({self.precision},{self.scale})",
                f"decimal(p,s) with 1 <= p <= {LARGEST_PRECISION} and 0 <= s <= p",
                "Cast the column to a narrower decimal where its values fit, or to double.",
            )

    @classmethod
    def parse(cls, description: Any) -> Self:
        """The attribute type for an Arrow type, a numpy dtype or a name; narrower numbers are widened.

        >>> [str(AttributeType.parse(t)) for t in ("BIGINT", pa.float32(), np.dtype("datetime64[s]"))]
        ['bigint', 'double', 'timestamp_ntz']
        """
        if isinstance(description, cls):
            return description
        if isinstance(description, (np.dtype, type)):
            return cls._from_numpy(description)
        if isinstance(description, (str, pa.DataType)):
            return cls._from_name(str(description))
        raise _unknown_type(description)

    @classmethod
    def _from_numpy(cls, description: Any) -> Self:
        try:
            dtype = np.dtype(description)
        except TypeError:
            raise _unknown_type(description) from None
        if dtype.kind == "M":
            return cls("date" if np.datetime_data(dtype)[0] == "D" else "timestamp_ntz")
        return cls._from_name(dtype.name)

    @classmethod
    def _from_name(cls, written: str) -> Self:
        name = spark_name(written)
        if name is not None and (digits := decimal_digits(name)):
            return cls("decimal", *digits)
        kind = TYPES[name].kind if name in TYPES else None
        if kind is None or kind == "key":
            raise _unknown_type(written)
        return cls(kind)

    def __str__(self) -> str:
        """The name to store; parse reads it back."""
        return f"decimal({self.precision},{self.scale})" if self.kind == "decimal" else self.kind

    @cached_property
    def dimension(self) -> scalars.Dimension:
        """What the type measures: only values of the same dimension convert into each other."""
        if self.kind in ("double", "bigint", "decimal"):
            return "number"
        return "truth" if self.kind == "boolean" else "time"

    @cached_property
    def unit(self) -> Fraction:
        """What one step of the ordinal is worth, in ones or in microseconds (of no meaning for double)."""
        return Fraction(_DAY) if self.kind == "date" else Fraction(1, 10**self.scale)

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest ordinal that a value can have.

        >>> BIGINT.limits == (-(2**63), 2**63 - 1)
        True
        """
        if self.kind == "double":
            return -_INFINITY, _INFINITY
        if self.kind == "decimal":
            return 1 - 10**self.precision, 10**self.precision - 1
        if self.kind == "date":
            return int(_INT32.min), int(_INT32.max)
        if self.kind == "boolean":
            return 0, 1
        return int(_INT64.min), int(_INT64.max)

    @cached_property
    def arrow(self) -> Any:
        """The Arrow type that decode produces."""
        if self.kind == "decimal":
            return pa.decimal128(self.precision, self.scale)
        return TYPES[self.kind].arrow

    def encode(self, values: Any, column: str = "values") -> tuple[Ordinals, Mask | None]:
        """The ordinals of a column, and which rows have one (None where all do); the arrays are the caller's own.

        >>> ordinals, valid = BIGINT.encode([3.0, None, -1.0])
        >>> ordinals.tolist(), valid.tolist()
        ([3, 0, -1], [True, False, True])
        """
        return arrays.encode(self, values, column)

    def decode(self, ordinals: Ordinals, valid: Mask | None = None) -> Any:
        """The Arrow array of the values that have these ordinals; null where not valid.

        >>> DATE.decode(np.array([-1, 0])).to_pylist()
        [datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)]
        """
        return arrays.decode(self, ordinals, valid)

    def encode_one(self, value: Any, column: str = "value") -> int | None:
        """The ordinal of one value, or None for null and NaN; refuses what encode refuses.

        >>> DOUBLE.encode_one(-0.0), DOUBLE.encode_one(5e-324), DOUBLE.encode_one(float("nan"))
        (0, 1, None)
        """
        return scalars.encode_one(self, value, column)

    def range(
        self,
        lower: scalars.Value | None = None,
        upper: scalars.Value | None = None,
        *,
        lower_closed: bool = True,
        upper_closed: bool = True,
    ) -> tuple[int, int] | None:
        """The first and last ordinal inside a range, or None where no value of the type is.

        A bound need not be a value of the type: 2.5 bounds integers, a date bounds timestamps. It is compared
        exactly, except that against double a number stands for the double nearest to it, as where SQL casts a
        literal: `price = 0.1` holds for the double 0.1. A finite number beyond all doubles is not rounded; it
        lies between the largest and infinity. None is unbounded.

        >>> BIGINT.range(lower=2.5, upper=7, upper_closed=False)
        (3, 6)
        >>> BIGINT.range(lower=2.1, upper=2.9) is None
        True
        """
        first, last = self.limits
        if lower is not None:
            below, exact = scalars.position(self, lower)
            first = max(first, below if exact and lower_closed else below + 1)
        if upper is not None:
            below, exact = scalars.position(self, upper)
            last = min(last, below - 1 if exact and not upper_closed else below)
        return (first, last) if first <= last else None


def _unknown_type(description: object) -> FencepostError:
    return FencepostError(
        f"{description!r} as the type of an attribute",
        EXPECTED,
        "Cast the column to one of these; a string column is a key, to be compared with = or IN.",
    )


DOUBLE = AttributeType("double")
BIGINT = AttributeType("bigint")
TIMESTAMP = AttributeType("timestamp")
TIMESTAMP_NTZ = AttributeType("timestamp_ntz")
DATE = AttributeType("date")
BOOLEAN = AttributeType("boolean")

KEY: Literal["key"] = "key"
"""In place of a type: a column of strings, which rules compare for equality."""
ColumnType = AttributeType | Literal["key"]
