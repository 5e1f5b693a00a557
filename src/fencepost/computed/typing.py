"""The types of expressions: those of their columns decide.

Bigints stay bigints and decimals stay exact, in 18 digits; whatever has a double in it is one, and so is a quotient.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction

from fencepost.computed.terms import Term, decimal_digits_of
from fencepost.errors import FencepostError
from fencepost.ordinals import BIGINT, BOOLEAN, DATE, DOUBLE, KEY, TIMESTAMP, TIMESTAMP_NTZ, AttributeType, ColumnType
from fencepost.ordinals.types import LARGEST_PRECISION

Find = Callable[[str], tuple[str, ColumnType]]
"""The name and type in a schema of a column, as conditions know it."""

_LARGEST_INT = 2**63 - 1
_NUMBERS = frozenset(["+", "-", "*", "/", "%"])
_OF_ONE_NUMBER = frozenset(["negate", "abs", "floor", "ceil", "round", "sqrt", "sign", "double"])
_TO_STRINGS = frozenset(["lower", "upper", "trim", "substr"])
_CHOICES = frozenset(["greatest", "least", "coalesce", "nullif"])
_OF_CLOCKS = frozenset(["HOUR", "MINUTE", "SECOND"])


def typed(term: Term, find: Find) -> Term:
    """The expression with its columns found, and the type of every part; refuses what no type fits."""
    if term.name == "column":
        name, type_ = find(term.value)
        return Term("column", (), name, type_)
    if term.name in ("constant", "truth"):
        return term._replace(type=_type_of_constant(term.value))
    parts = tuple(typed(part, find) for part in term.parts)
    if term.name == "field" and parts[0].type != TIMESTAMP:  # only instants are shown differently by clocks
        term = term._replace(value=(term.value[0], None))
    return term._replace(parts=parts, type=_type_of(term, parts))


def _type_of_constant(value: object) -> ColumnType:
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return BIGINT if abs(value) <= _LARGEST_INT else DOUBLE
    if isinstance(value, Fraction):
        scale = decimal_digits_of(value)
        fits = scale is not None and scale <= LARGEST_PRECISION and abs(value) * 10**scale < 10**LARGEST_PRECISION
        return AttributeType("decimal", LARGEST_PRECISION, scale or 0) if fits else DOUBLE
    if isinstance(value, float):
        return DOUBLE
    if isinstance(value, str):
        return KEY
    if isinstance(value, datetime):
        return TIMESTAMP
    if isinstance(value, date):
        return DATE
    raise AssertionError(f"no constant: {value!r}")


def _type_of(term: Term, parts: Sequence[Term]) -> ColumnType:
    name = term.name
    if name == "is null":
        return BOOLEAN
    if name in ("=", "<"):
        common_type(parts)
        return BOOLEAN
    if name in _CHOICES:
        common = common_type(parts)
        return parts[0].type or common if name == "nullif" else common
    if name in _TO_STRINGS or name == "length":
        _check(term, parts, lambda type_: type_ == KEY, "strings")
        return BIGINT if name == "length" else KEY
    if name == "field":
        _check(term, parts, lambda type_: type_ != KEY and type_.dimension == "time", "dates or timestamps")
        if parts[0].type == DATE and term.value[0] in _OF_CLOCKS:
            raise _unfit(term, parts[0], "timestamps")
        return BIGINT
    if name == "at zone":
        _check(term, parts, lambda type_: type_ in (TIMESTAMP, TIMESTAMP_NTZ), "timestamps")
        return TIMESTAMP_NTZ if parts[0].type == TIMESTAMP else TIMESTAMP
    _check(term, parts, lambda type_: type_ != KEY and type_.dimension == "number", "numbers")
    if name in _NUMBERS:
        return _type_of_arithmetic(name, parts[0].attribute, parts[1].attribute)
    assert name in _OF_ONE_NUMBER, f"no operation: {name}"
    own = parts[0].attribute
    if name in ("sqrt", "double") or own == DOUBLE:
        return DOUBLE
    return BIGINT if name in ("floor", "ceil", "round", "sign") else _widest(own)


def _type_of_arithmetic(name: str, left: AttributeType, right: AttributeType) -> AttributeType:
    if name == "/" or DOUBLE in (left, right):
        return DOUBLE
    if left == right == BIGINT:
        return BIGINT
    scale = left.scale + right.scale if name == "*" else max(left.scale, right.scale)
    return AttributeType("decimal", LARGEST_PRECISION, scale) if scale <= LARGEST_PRECISION else DOUBLE


def common_type(parts: Sequence[Term]) -> ColumnType:
    """The type in which several expressions compare with each other."""
    found = [part.type for part in parts]
    first = found[0]
    assert first is not None, "parts are bound before the whole"
    if all(each == first for each in found):
        return first
    kinds = [each for each in found if isinstance(each, AttributeType)]
    if len(kinds) == len(found) and len({each.dimension for each in kinds}) == 1:
        if kinds[0].dimension == "number":
            if DOUBLE in kinds:
                return DOUBLE
            return AttributeType("decimal", LARGEST_PRECISION, max(each.scale for each in kinds))
        if TIMESTAMP not in kinds:  # a date, and what a clock shows
            return TIMESTAMP_NTZ
        if DATE not in kinds and TIMESTAMP_NTZ not in kinds:
            return TIMESTAMP
        if all(part.name in ("constant", "truth") or part.type == TIMESTAMP for part in parts):
            return TIMESTAMP
        if TIMESTAMP_NTZ in kinds and all(
            part.name in ("constant", "truth") or part.type != TIMESTAMP for part in parts
        ):
            return TIMESTAMP_NTZ
    shown = " and ".join(
        f"{part.text}, which is {part.type}" for part in parts if part.type != first or part is parts[0]
    )
    raise FencepostError(
        f"puts {shown}, together",
        "values of one type",
        "Cast one of the columns in the data, or AT TIME ZONE for times.",
    )


def _widest(own: AttributeType) -> AttributeType:
    return AttributeType("decimal", LARGEST_PRECISION, own.scale) if own.kind == "decimal" else own


def _check(term: Term, parts: Sequence[Term], fits: Callable[[ColumnType], bool], wanted: str) -> None:
    for part in parts:
        if part.type is None or not fits(part.type):
            raise _unfit(term, part, wanted)


def _unfit(term: Term, part: Term, wanted: str) -> FencepostError:
    return FencepostError(
        f"computes with {part.text}, which is {'a key' if part.type == KEY else part.type}",
        f"{wanted} in {term._replace(type=None).text}",
        "Correct the expression, or give the column another type.",
    )
