"""Band conditions bound to the column types of two streams."""

import math
from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from fencepost.computed import Computed, Term, computed_id
from fencepost.language.band import Band
from fencepost.language.bind import Binder, BoundBox, infer_types
from fencepost.language.condition import Bound, Condition, Part, never_holds
from fencepost.language.sides import Value, shown
from fencepost.language.source import Place, RefusalError, Source
from fencepost.ordinals import DOUBLE, KEY, AttributeType, ColumnType
from fencepost.ordinals.scalars import nearest_double
from fencepost.ordinals.types import LARGEST_PRECISION


class BoundBand(NamedTuple):
    """A band that can be indexed: left - right between lower and upper, of the left and the right stream.

    Both are columns, or computed attributes by their names.
    """

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
    left_where: tuple[BoundBox, ...] = ()
    """What else rows of the left stream must meet: any of these boxes; none where that is nothing."""
    right_where: tuple[BoundBox, ...] = ()
    computed: Mapping[str, Computed] = MappingProxyType({})
    """The expressions of the difference, of equal keys and of boxes, by name; those of strings are in the boxes."""
    types: Mapping[str, AttributeType] = MappingProxyType({})
    """Of the columns that boxes have ranges of."""
    dropped: tuple[str, ...] = ()
    """For every branch that can never hold, the reason."""


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
    left, right = (
        Binder(infer_types([where.columns], where.alike) if types is None else types)
        for where, types in ((band.left_where, left_types), (band.right_where, right_types))
    )
    try:
        return _bound(band, left, right)
    except RefusalError as refusal:
        refusal.places = refusal.places or [Source(band.text).everything]
        raise refusal.against(band.text) from None


class _Attribute(NamedTuple):
    """One side of the difference, or of a pair of keys, bound."""

    shown: str
    name: str
    type: ColumnType
    term: Term | None
    """None for a column."""


def _bound(band: Band, left: Binder, right: Binder) -> BoundBand:
    place = band.ranges[0].place
    computed: dict[str, Computed] = {}
    one, other = _find(band.left, "left", left, place), _find(band.right, "right", right, place)
    one, other = _in_common(one, other)
    if (
        not isinstance(one.type, AttributeType)
        or not isinstance(other.type, AttributeType)
        or not _same_unit(one.type, other.type)
    ):
        raise _different_types([place], one, other)
    lower, upper = _Edge(-math.inf, True, place), _Edge(math.inf, True, place)
    for part in band.ranges:
        lower = max(lower, _lower_edge(part, one.type), key=lambda edge: (edge.bound, not edge.closed))
        upper = min(upper, _upper_edge(part, one.type), key=lambda edge: (edge.bound, edge.closed))
    if lower.bound > upper.bound or (lower.bound == upper.bound and not (lower.closed and upper.closed)):
        raise never_holds((lower.place, upper.place))
    same = []
    for left_value, right_value in band.same:
        pair = _find(left_value, "left", left), _find(right_value, "right", right)
        if pair[0].type != pair[1].type:
            raise _different_types([], *pair)
        same.append(pair)
    for each in (one, other, *(attribute for pair in same for attribute in pair)):
        if each.term is not None:
            computed[each.name] = Computed(each.term)
    left_keys = tuple((_key_column(left, column), value) for column, value in band.left_keys)
    right_keys = tuple((_key_column(right, column), value) for column, value in band.right_keys)
    wheres, dropped, types = [], list[str](), dict[str, AttributeType]()
    for binder, where in ((left, band.left_where), (right, band.right_where)):
        boxes, further, reasons = _bound_where(binder, where)
        computed |= further
        types |= {name: _type_of(binder, name) for box in boxes for name, _, _ in box.ranges if name not in further}
        wheres.append(boxes)
        dropped += reasons
    return BoundBand(
        one.name,
        other.name,
        one.type,
        other.type,
        None if lower.bound == -math.inf else lower.bound,
        None if upper.bound == math.inf else upper.bound,
        lower.closed,
        upper.closed,
        tuple((pair[0].name, pair[1].name) for pair in same),
        left_keys,
        right_keys,
        wheres[0],
        wheres[1],
        computed,
        types,
        tuple(dropped),
    )


def _bound_where(
    binder: Binder, where: Condition
) -> tuple[tuple[BoundBox, ...], Mapping[str, Computed], tuple[str, ...]]:
    """The boxes of a condition on one side; none where it always holds."""
    if not where.boxes:
        return (), {}, ()
    bound = binder.bind(where)
    if any(not (box.ranges or box.keys or box.strings) for box in bound.boxes):
        return (), {}, bound.dropped
    return bound.boxes, bound.computed, bound.dropped


def _type_of(binder: Binder, name: str) -> AttributeType:
    quoted = name.replace('"', '""')
    _, type_ = binder.find(f'"{quoted}"')
    assert isinstance(type_, AttributeType), "it has ranges"
    return type_


def _find(value: Value, side: str, binder: Binder, place: Place | None = None) -> _Attribute:
    """A column or an expression with its type."""
    if isinstance(value, str):
        name, type_ = binder.find(value, place)
        return _Attribute(f"{side}.{name}", name, type_, None)
    try:
        return _named(binder.typed(value, place or (0, 0)), side)
    except RefusalError as refusal:
        refusal.places = refusal.places if place else []  # equal keys have no place of their own
        raise


def _named(term: Term, side: str) -> _Attribute:
    assert term.type is not None, "it is bound"
    kind = term.type if term.type == KEY else term.attribute
    return _Attribute(shown(side, term), computed_id(Computed(term)), kind, term)  # type: ignore[arg-type]


def _in_common(one: _Attribute, other: _Attribute) -> tuple[_Attribute, _Attribute]:
    """Both sides of a difference as numbers of one type, where one of them is computed.

    As in SQL, a double makes both doubles, and decimals have the digits of the one that has more.
    """
    types = [each.type for each in (one, other)]
    if one.term is None and other.term is None:
        return one, other
    if not all(isinstance(type_, AttributeType) and type_.dimension == "number" for type_ in types):
        return one, other
    if _same_unit(*types):  # type: ignore[arg-type]
        return one, other
    if DOUBLE in types:
        return _as_type(one, "left", "double", DOUBLE), _as_type(other, "right", "double", DOUBLE)
    scale = max(type_.scale for type_ in types if isinstance(type_, AttributeType))
    wanted = AttributeType("decimal", LARGEST_PRECISION, scale)
    return _as_type(one, "left", "decimal", wanted), _as_type(other, "right", "decimal", wanted)


def _as_type(each: _Attribute, side: str, name: str, wanted: AttributeType) -> _Attribute:
    assert isinstance(each.type, AttributeType), "it is a number"
    if _same_unit(each.type, wanted):
        return each
    term = each.term or Term("column", (), each.name, each.type)
    return _named(Term(name, (term,), wanted.scale if name == "decimal" else None, wanted), side)


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


def _key_column(binder: Binder, column: str) -> str:
    name, type_ = binder.find(column)
    if type_ != KEY:
        raise RefusalError(
            [],
            f"compares {name}, which is {type_}, with a string",
            "a key",
            "Write a number without quotes, a time as DATE '2024-12-31', or give the column another type.",
        )
    return name


def _different_types(places: list[Place], one: _Attribute, other: _Attribute) -> RefusalError:
    if places and one.type == other.type:
        return RefusalError(
            places,
            f"compares {one.shown} with {other.shown}, which are strings",
            "numbers or times, which have a difference",
            "Write left.name = right.name for strings that are to be equal; strings of two sides have no order here.",
        )
    what = "columns" if one.term is None and other.term is None else "expressions"
    return RefusalError(
        places,
        f"compares {one.shown}, which is {one.type}, with {other.shown}, which is {other.type}",
        f"two {what} of one type",
        "Cast one of the two columns to the type of the other.",
    )
