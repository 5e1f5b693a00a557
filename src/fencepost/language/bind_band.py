"""Band conditions bound to the column types of two streams."""

import math
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from typing import NamedTuple

from fencepost.language.band import Band
from fencepost.language.bind import Binder, infer_types
from fencepost.language.condition import Bound, Part, never_holds
from fencepost.language.source import Place, RefusalError, Source
from fencepost.ordinals import DOUBLE, KEY, AttributeType, ColumnType
from fencepost.ordinals.scalars import nearest_double


class BoundBand(NamedTuple):
    """A band that can be indexed: left - right between lower and upper, columns of the left and the right stream."""

    left: str
    right: str
    left_type: AttributeType
    right_type: AttributeType
    """In the same unit."""
    lower: float | None
    """A double between doubles, else a whole number of units of the ordinals; None is unbounded."""
    upper: float | None
    lower_closed: bool
    """Whether the lower bound itself is inside; always, where it counts units."""
    upper_closed: bool
    same: tuple[tuple[str, str], ...]
    """Pairs of a left and a right column that must be equal."""
    left_keys: tuple[tuple[str, str], ...]
    """Columns of the left stream and the strings they must equal."""
    right_keys: tuple[tuple[str, str], ...]


class _Edge(NamedTuple):
    """One end of the band; infinite where it is unbounded."""

    bound: float
    closed: bool
    place: Place


def bind_band(
    band: Band, left_types: Mapping[str, ColumnType] | None = None, right_types: Mapping[str, ColumnType] | None = None
) -> BoundBand:
    """The band bound to the column types of its two streams; without any, to those its constants suggest.

    Differences are exact: between doubles a constant stands for the double nearest to it, and left - right is not
    rounded.

    >>> from fencepost.language import parse
    >>> from fencepost.ordinals import BIGINT
    >>> bound = bind_band(parse("ABS(left.x - right.x) < 2.5"), {"x": BIGINT}, {"x": BIGINT})
    >>> bound.lower, bound.upper, bound.upper_closed
    (-2, 2, True)
    """
    left = Binder(infer_types([band.left_columns]) if left_types is None else left_types)
    right = Binder(infer_types([band.right_columns]) if right_types is None else right_types)
    try:
        return _bound(band, left, right)
    except RefusalError as refusal:
        refusal.places = refusal.places or [Source(band.text).everything]
        raise refusal.against(band.text) from None


def _bound(band: Band, left: Binder, right: Binder) -> BoundBand:
    place = band.ranges[0].place
    left_name, left_type = left.find(band.left, place)
    right_name, right_type = right.find(band.right, place)
    if left_type == KEY or right_type == KEY or not _same_unit(left_type, right_type):
        raise _different_types([place], left_name, left_type, right_name, right_type)
    lower, upper = _Edge(-math.inf, True, place), _Edge(math.inf, True, place)
    for part in band.ranges:
        lower = max(lower, _lower_edge(part, left_type), key=lambda edge: (edge.bound, not edge.closed))
        upper = min(upper, _upper_edge(part, left_type), key=lambda edge: (edge.bound, edge.closed))
    if lower.bound > upper.bound or (lower.bound == upper.bound and not (lower.closed and upper.closed)):
        raise never_holds((lower.place, upper.place))
    return BoundBand(
        left_name,
        right_name,
        left_type,
        right_type,
        None if lower.bound == -math.inf else lower.bound,
        None if upper.bound == math.inf else upper.bound,
        lower.closed,
        upper.closed,
        tuple(_same_columns(one, other, left, right) for one, other in band.same),
        tuple((_key_column(left, column), value) for column, value in band.left_keys),
        tuple((_key_column(right, column), value) for column, value in band.right_keys),
    )


def _same_unit(left: AttributeType, right: AttributeType) -> bool:
    return (left.dimension, left.unit, left == DOUBLE) == (right.dimension, right.unit, right == DOUBLE)


def _lower_edge(part: Part, type_: AttributeType) -> _Edge:
    if part.lower is None:
        return _Edge(-math.inf, True, part.place)
    distance = _distance(part.lower, type_, part.place)
    if isinstance(distance, float):
        return _Edge(distance, part.lower_closed, part.place)
    return _Edge(math.ceil(distance) if part.lower_closed else math.floor(distance) + 1, True, part.place)


def _upper_edge(part: Part, type_: AttributeType) -> _Edge:
    if part.upper is None:
        return _Edge(math.inf, True, part.place)
    distance = _distance(part.upper, type_, part.place)
    if isinstance(distance, float):
        return _Edge(distance, part.upper_closed, part.place)
    return _Edge(math.floor(distance) if part.upper_closed else math.ceil(distance) - 1, True, part.place)


def _distance(bound: Bound, type_: AttributeType, place: Place) -> float | Fraction:
    """The bound as a double, or as an exact number of units."""
    if isinstance(bound, timedelta):
        if type_.dimension == "time":
            return Fraction(bound // timedelta(microseconds=1)) / type_.unit
    elif isinstance(bound, (int, float, Fraction)):
        if type_ == DOUBLE or isinstance(bound, float):
            return nearest_double(bound)
        if type_.dimension == "number":
            return bound / type_.unit
        if type_.kind == "date" or bound == 0:  # dates differ by days
            return bound
    raise RefusalError(
        [place],
        f"does not fit columns of type {type_}",
        "an interval between timestamps, days or an interval between dates, else a number",
        "Write for example INTERVAL '5' SECOND between timestamps.",
    )


def _same_columns(one: str, other: str, left: Binder, right: Binder) -> tuple[str, str]:
    (left_name, left_type), (right_name, right_type) = left.find(one), right.find(other)
    if left_type != right_type:
        raise _different_types([], left_name, left_type, right_name, right_type)
    return left_name, right_name


def _key_column(binder: Binder, column: str) -> str:
    name, type_ = binder.find(column)
    if type_ != KEY:
        raise RefusalError(
            [],
            f"compares {name}, which is {type_}, with a string",
            "a key",
            "Compare strings with string columns; filter the stream for other constants.",
        )
    return name


def _different_types(
    places: list[Place], left: str, left_type: ColumnType, right: str, right_type: ColumnType
) -> RefusalError:
    return RefusalError(
        places,
        f"compares left.{left}, which is {left_type}, with right.{right}, which is {right_type}",
        "two columns of one type",
        "Cast one of the two columns to the type of the other.",
    )
