"""Columns of values to ordinals and back, vectorised and exact."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fencepost._arrow import array_of, plain_array
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.ordinals.scalars import Dimension
    from fencepost.ordinals.types import AttributeType, Mask, Ordinals

_SMALLEST, _LARGEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
_EXACT_IN_DOUBLE = 2**53
_MICROSECONDS = {
    "s": Fraction(1_000_000),
    "ms": Fraction(1_000),
    "us": Fraction(1),
    "ns": Fraction(1, 1_000),
    "day": Fraction(86_400_000_000),
}


class _Units(NamedTuple):
    """A column as whole multiples of a unit, in ones or microseconds; `lost` marks what int64 cannot hold."""

    dimension: "Dimension"
    counts: "Ordinals"
    unit: Fraction
    lost: "Mask | None"


def encode(attribute: "AttributeType", values: Any, column: str) -> "tuple[Ordinals, Mask | None]":
    """See AttributeType.encode."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks == 1:
        values = values.chunk(0)
    array = values if type(values) is pa.DoubleArray else _as_arrow(values, attribute, column)
    if attribute.kind == "double" and type(array) is pa.DoubleArray and not array.null_count:
        doubles = _raw(array, np.float64)  # the usual column: for few rows every look at its type would count
        present = doubles == doubles
        ordinals = _double_ordinals(doubles)
        if present.all():
            return ordinals, None
        ordinals[~present] = 0
        return ordinals, present
    valid = None if array.null_count == 0 else np.asarray(pc.is_valid(array))
    if pa.types.is_null(array.type):
        return np.zeros(len(array), dtype=np.int64), valid
    if pa.types.is_floating(array.type):
        doubles = _raw(array, array.type.to_pandas_dtype()).astype(np.float64, copy=False)
        present = doubles == doubles  # all but NaN
        if not present.all():
            valid = present if valid is None else valid & present
        if attribute.dimension != "number":
            raise _wrong_dimension(attribute, array.type, column)
        if attribute.kind == "double":
            ordinals, lost = _double_ordinals(doubles), None
        else:
            ordinals, lost = _units_of_doubles(doubles, attribute)
    else:
        source = _units_of(array)
        if source is None or source.dimension != attribute.dimension:
            raise _wrong_dimension(attribute, array.type, column)
        if attribute.kind == "double":
            ordinals, lost = _doubles_of_units(source)
        else:
            ordinals, lost = _rescale(source.counts, source.unit / attribute.unit, attribute.limits)
        if source.lost is not None and pa.types.is_decimal(array.type):
            lost = _fill_wide(attribute, array, source.lost, ordinals, lost)
        else:
            lost = _either(lost, source.lost)
    if valid is not None:
        ordinals[~valid] = 0
        lost = None if lost is None else lost & valid
    if lost is not None and lost.any():
        row = int(np.argmax(lost))
        raise FencepostError(
            f"{_shown(array, row)} in row {row} of {column}, a column of {array.type}",
            f"values that {attribute} holds exactly",
            f"Cast the column to {attribute} yourself, or bind {column} to the type of the column.",
        )
    return ordinals, valid


def decode(attribute: "AttributeType", ordinals: "Ordinals", valid: "Mask | None") -> Any:
    """See AttributeType.decode."""
    counts = np.ascontiguousarray(ordinals, dtype=np.int64)
    if attribute.kind == "double":
        return plain_array(attribute.arrow, np.abs(counts) | (counts & _SMALLEST), valid)
    if attribute.kind in ("bigint", "timestamp", "timestamp_ntz"):
        return plain_array(attribute.arrow, counts, valid)
    absent = None if valid is None else ~np.asarray(valid, dtype=np.bool_)
    if attribute.kind == "decimal":
        # Arrow keeps 16 bytes, little-endian two's complement: the count, then its sign repeated.
        words = np.stack([counts, counts >> 63], axis=1)
        nulls = None if absent is None else pa.array(~absent).buffers()[1]
        return pa.Array.from_buffers(attribute.arrow, len(counts), [nulls, pa.py_buffer(words)])
    if attribute.kind == "boolean":
        return pa.array(counts != 0, mask=absent)
    if attribute.kind == "date":
        counts = counts.astype(np.int32)
    return pa.array(counts, mask=absent).view(attribute.arrow)


def _as_arrow(values: Any, attribute: "AttributeType", column: str) -> Any:
    """One plain Arrow array, from any column; NaN may remain, and is dealt with later."""
    try:
        if hasattr(values, "to_arrow"):  # polars
            values = values.to_arrow()
        elif isinstance(values, np.ndarray):
            values = pa.array(_arrow_ready(values))
        elif not isinstance(values, (pa.Array, pa.ChunkedArray)):
            values = array_of(values)  # pandas, sequences, and what speaks Arrow's protocol
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise FencepostError(
            f"{column} as {type(values).__name__}, which Arrow refuses ({error})",
            f"a column that converts to {attribute}",
            "Pass an Arrow, numpy, pandas or polars column, or a list of values of one type.",
        ) from None
    if isinstance(values, pa.ChunkedArray):
        values = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    return values


def _arrow_ready(values: NDArray[Any]) -> NDArray[Any]:
    """The array in native byte order and, for times, in a unit that Arrow knows."""
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        dtype = {
            "Y": np.dtype("M8[D]"),
            "M": np.dtype("M8[D]"),
            "W": np.dtype("M8[D]"),
            "h": np.dtype("M8[s]"),
            "m": np.dtype("M8[s]"),
        }.get(unit, dtype)
    return values.astype(dtype, copy=False)


def _raw(array: Any, dtype: Any) -> NDArray[Any]:
    """The data buffer of a primitive array, nulls included, without a copy."""
    if len(array) == 0:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(array.buffers()[1], dtype=dtype)[array.offset : array.offset + len(array)]


def _units_of(array: Any) -> _Units | None:
    """The column in units, or None where it is neither number, time nor truth."""
    type_ = array.type
    if pa.types.is_boolean(type_):
        return _Units("truth", _raw(array.cast(pa.int8()), np.int8).astype(np.int64), Fraction(1), None)
    if pa.types.is_uint64(type_):
        counts = _raw(array, np.int64).copy()
        return _Units("number", counts, Fraction(1), counts < 0)  # the top bit is set: beyond int64
    if pa.types.is_integer(type_):
        return _Units("number", _raw(array, type_.to_pandas_dtype()).astype(np.int64), Fraction(1), None)
    if pa.types.is_decimal(type_):
        return _units_of_decimals(array)
    if pa.types.is_timestamp(type_):
        return _Units("time", _raw(array, np.int64).copy(), _MICROSECONDS[type_.unit], None)
    if pa.types.is_date32(type_):
        return _Units("time", _raw(array, np.int32).astype(np.int64), _MICROSECONDS["day"], None)
    if pa.types.is_date64(type_):
        return _Units("time", _raw(array, np.int64).copy(), _MICROSECONDS["ms"], None)
    return None


def _units_of_decimals(array: Any) -> _Units:
    unit = Fraction(10) ** -array.type.scale
    if array.type.bit_width == 32:
        return _Units("number", _raw(array, np.int32).astype(np.int64), unit, None)
    words_each = array.type.bit_width // 64
    words = _raw(array, np.dtype((np.int64, words_each)) if words_each > 1 else np.int64)
    words = words.reshape(len(array), words_each)
    counts = words[:, 0].copy()
    lost = (words[:, 1:] != (counts >> 63)[:, None]).any(axis=1) if words_each > 1 else None
    return _Units("number", counts, unit, lost)


def _fill_wide(
    attribute: "AttributeType", array: Any, wide: "Mask", ordinals: "Ordinals", lost: "Mask | None"
) -> "Mask | None":
    """Sets the ordinals of decimals that int64 cannot count in their own unit; returns what is lost then.

    10.5 is such a value in decimal(38,18). Each distinct one is converted by itself.
    """
    wide = wide & np.asarray(pc.is_valid(array))
    if not wide.any():
        return lost
    encoded = array.filter(pa.array(wide)).dictionary_encode()
    found = np.zeros(len(encoded.dictionary), np.int64)
    inexact = np.zeros(len(encoded.dictionary), np.bool_)
    for place, value in enumerate(encoded.dictionary.to_pylist()):
        try:
            found[place] = attribute.encode_one(value) or 0  # none of them is null
        except FencepostError:
            inexact[place] = True
    indices = np.asarray(encoded.indices)
    ordinals[wide] = found[indices]
    still = np.zeros(len(array), np.bool_) if lost is None else lost.copy()
    still[wide] = inexact[indices]
    return still


def _rescale(counts: "Ordinals", ratio: Fraction, limits: tuple[int, int]) -> "tuple[Ordinals, Mask | None]":
    """Counts times the ratio, and where that is not a whole number within the limits."""
    lost = None
    if ratio.denominator > _LARGEST:
        counts, lost = np.zeros_like(counts), counts != 0
    elif ratio.denominator > 1:
        counts, remainder = np.divmod(counts, ratio.denominator)
        lost = remainder != 0
    # Bounds on the count before it is multiplied, so that the product cannot overflow.
    lowest, highest = -(-limits[0] // ratio.numerator), limits[1] // ratio.numerator
    if (lowest, highest) != (_SMALLEST, _LARGEST):
        outside = (counts < lowest) | (counts > highest)
        if outside.any():
            lost = _either(lost, outside)
            counts[outside] = 0
    if highest > 0 and ratio.numerator > 1:
        counts = counts * ratio.numerator
    return counts, lost


def _double_ordinals(values: NDArray[Any]) -> "Ordinals":
    """The ordinals of doubles: their magnitude with the sign applied, so that both zeros are 0."""
    bits = values.view(np.int64)
    negative = bits >> 63
    magnitude = bits & _LARGEST
    magnitude ^= negative
    magnitude -= negative
    return magnitude


def _units_of_doubles(doubles: NDArray[np.float64], attribute: "AttributeType") -> "tuple[Ordinals, Mask | None]":
    """Doubles as whole units of 10**-scale. x * 10**s is whole where x * 2**s is, for 5**s is odd."""
    with np.errstate(invalid="ignore", over="ignore"):
        halves = np.ldexp(doubles, attribute.scale)
        lost = ~((np.abs(halves) < 2.0**63) & (halves == np.floor(halves)))
    # -2**63 is the one double at the edge that int64 holds.
    lost &= halves != -(2.0**63)
    counts = np.where(lost, 0.0, halves).astype(np.int64)
    ordinals, outside = _rescale(counts, Fraction(5**attribute.scale), attribute.limits)
    return ordinals, _either(lost, outside)


def _doubles_of_units(source: _Units) -> "tuple[Ordinals, Mask | None]":
    """Ordinals of the doubles that equal whole units; n / 10**s is one only where 5**s divides n."""
    scale = len(str(source.unit.denominator)) - 1
    counts, lost = _rescale(source.counts, Fraction(source.unit.numerator, 5**scale), (_SMALLEST, _LARGEST))
    doubles = counts.astype(np.float64)
    if len(counts) and (counts.max() > _EXACT_IN_DOUBLE or counts.min() < -_EXACT_IN_DOUBLE):
        inside = doubles < 2.0**63  # the largest int64 rounds up to 2**63, which does not convert back
        lost = _either(lost, ~inside | (np.where(inside, doubles, 0.0).astype(np.int64) != counts))
    return _double_ordinals(np.ldexp(doubles, -scale)), lost


def _either(one: "Mask | None", other: "Mask | None") -> "Mask | None":
    if one is None or other is None:
        return one if other is None else other
    return one | other


def _shown(array: Any, row: int) -> str:
    """The value as text; Arrow prints also what Python's own types cannot hold."""
    return str(array[row].as_py() if not pa.types.is_temporal(array.type) else array[row].cast(pa.string()))


def _wrong_dimension(attribute: "AttributeType", offered: Any, column: str) -> FencepostError:
    own = f"bind {column} to a type of its own"
    if str(attribute) == "double" and str(offered) in ("string", "large_string", "string_view"):
        own += f": compile({{{column!r}: 'string'}}), --type {column}=string"  # perhaps nothing told what it is
    return FencepostError(
        f"{column}, a column of {offered}",
        f"a column that converts to {attribute}",
        f"Cast the column to {attribute}, or {own}.",
    )
