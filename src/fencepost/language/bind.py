"""Conditions bound to column types: boxes of ordinal ranges and keys."""

import difflib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fencepost.errors import FencepostError
from fencepost.language.condition import Box, Clash, ColumnKind, Condition, Part, dropped_parts, never_holds
from fencepost.language.source import Place, RefusalError
from fencepost.ordinals import BOOLEAN, DATE, DOUBLE, KEY, TIMESTAMP, AttributeType, ColumnType
from fencepost.ordinals.zones import bound_as

_DEFAULT_TYPES: dict[ColumnKind, ColumnType] = {
    "number": DOUBLE,
    "key": KEY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "boolean": BOOLEAN,
}


class BoundBox(NamedTuple):
    """A box: every attribute within its ordinals, every key equal to its string; sorted by column."""

    ranges: tuple[tuple[str, int, int], ...]
    """Column, first and last ordinal. The whole range of a type still asks for a value."""
    keys: tuple[tuple[str, str], ...]


class BoundCondition(NamedTuple):
    """A condition that can be indexed: it holds where any of its boxes does."""

    boxes: tuple[BoundBox, ...]
    """At least one; boxes that touch along one attribute are united."""
    dropped: tuple[str, ...]
    """For every branch that can never hold, the reason."""


class Binder:
    """Binds conditions to the columns of one schema.

    >>> from fencepost.language import parse
    >>> Binder({"Price": AttributeType.parse("decimal(9,2)")}).bind(parse("price >= 40 AND price < 50.005")).boxes
    (BoundBox(ranges=(('Price', 4000, 5000),), keys=()),)
    """

    def __init__(self, types: Mapping[str, ColumnType]) -> None:
        self._types = dict(types)
        self._by_lower_case: dict[str, list[str]] = {}
        for name in self._types:
            self._by_lower_case.setdefault(name.lower(), []).append(name)
        self._known: dict[str, tuple[str, ColumnType]] = {}

    def bind(self, condition: Condition) -> BoundCondition:
        """The condition with every constant turned into ordinals of its column's type."""
        try:
            bound: list[BoundBox] = []
            alive: list[Box] = []
            clashes: list[Clash] = []
            for box in condition.boxes:
                result = self._box(box)
                if isinstance(result, BoundBox):
                    bound.append(result)
                    alive.append(box)
                else:
                    clashes.append(result)
            if not bound:
                raise never_holds(clashes[0])
        except RefusalError as refusal:
            raise refusal.against(condition.text) from None
        dropped = condition.dropped
        if clashes:
            dropped += dropped_parts(condition.text, alive, clashes)
        return BoundCondition(_unite(bound) if len(bound) > 1 else tuple(bound), dropped)

    def find(self, column: str, place: Place | None = None) -> tuple[str, ColumnType]:
        """Name and type in the schema of a column as Condition.columns has it."""
        found = self._known.get(column)
        if found is None:
            name = self._name(column, [place] if place else [])
            found = self._known[column] = (name, self._types[name])
        return found

    def _name(self, column: str, places: list[Place]) -> str:
        if column.startswith('"'):
            exact = column[1:-1].replace('""', '"')
            candidates = [exact] if exact in self._types else []
        else:
            candidates = self._by_lower_case.get(column, [])
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise RefusalError(
                places,
                f"uses {column}, which may be {' or '.join(candidates)}",
                "a name that only one column has",
                f'Quote the name: "{candidates[0]}".',
            )
        near = difflib.get_close_matches(column.strip('"'), self._types, n=1)
        raise RefusalError(
            places,
            f"uses the column {column}, which the schema does not have",
            f"one of {', '.join(self._types)}" if self._types else "a schema with columns",
            f"Did you mean {near[0]}?" if near else "Correct the name, or add the column to the schema.",
        )

    def _box(self, box: Box) -> BoundBox | Clash:
        """The box in ordinals, or the places of the parts that leave it empty."""
        ranges: dict[str, tuple[int, int]] = {}
        keys: dict[str, str] = {}
        first_place: dict[str, Place] = {}
        last_place: dict[str, Place] = {}
        for part in box:
            name, type_ = self.find(part.column, part.place)
            if isinstance(part.lower, str) or type_ == KEY:
                key = _key(part, name, type_)
                if keys.setdefault(name, key) != key:
                    return first_place[name], part.place
                first_place.setdefault(name, part.place)
                continue
            bound = _ordinals(part, name, type_)
            if bound is None:
                return part.place, part.place
            first, last = bound
            if name not in ranges:
                first_place[name] = last_place[name] = part.place
            else:
                known_first, known_last = ranges[name]
                if first > known_first:
                    first_place[name] = part.place
                if last < known_last:
                    last_place[name] = part.place
                first, last = max(first, known_first), min(last, known_last)
                if first > last:
                    return first_place[name], last_place[name]
            ranges[name] = (first, last)
        return BoundBox(
            tuple(sorted([(name, first, last) for name, (first, last) in ranges.items()])), tuple(sorted(keys.items()))
        )


def bind(condition: Condition, types: Mapping[str, ColumnType] | None = None) -> BoundCondition:
    """The condition bound to column types; without any, to the types that its constants suggest.

    >>> from fencepost.language import parse
    >>> from fencepost.ordinals import BIGINT
    >>> bind(parse("symbol = 'IBM' AND volume > 2.5"), {"symbol": KEY, "volume": BIGINT}).boxes
    (BoundBox(ranges=(('volume', 3, 9223372036854775807),), keys=(('symbol', 'IBM'),)),)
    """
    return Binder(infer_types([condition.columns]) if types is None else types).bind(condition)


def infer_types(columns: Iterable[Mapping[str, ColumnKind]]) -> dict[str, ColumnType]:
    """Types for the columns of conditions without a schema: numbers are doubles, strings are keys.

    >>> from fencepost.language import parse
    >>> types = infer_types([parse("price > 4 AND day = DATE '2024-12-31'").columns])
    >>> {name: str(type) for name, type in types.items()}
    {'price': 'double', 'day': 'date'}
    """
    kinds: dict[str, ColumnKind] = {}
    for mapping in columns:
        for column, kind in mapping.items():
            known = kinds.get(column, kind)
            if known != kind and {known, kind} == {"date", "timestamp"}:
                kind = known = "timestamp"
            if known != kind:
                raise FencepostError(
                    f"column {column} is compared with a {kind} here and a {known} there",
                    "one kind of constant for one column",
                    "Name the column's type in a schema, and correct the rule that does not fit it.",
                )
            kinds[column] = kind
    return _unquote(kinds)


def _unquote(kinds: Mapping[str, ColumnKind]) -> dict[str, ColumnType]:
    """One entry per column: price and "Price" are the same where no other quoted name matches."""
    names = {column: column[1:-1].replace('""', '"') for column in kinds if column.startswith('"')}
    types: dict[str, ColumnType] = {name: _DEFAULT_TYPES[kinds[column]] for column, name in names.items()}
    for column, kind in kinds.items():
        if column in names:
            continue
        same = [name for name in names.values() if name.lower() == column]
        name = same[0] if len(same) == 1 else column
        known = types.setdefault(name, _DEFAULT_TYPES[kind])
        if len(same) > 1 or known != _DEFAULT_TYPES[kind]:
            raise FencepostError(
                f"column {column} is also written {' and '.join(same)}",
                "one spelling for one column",
                f'Quote the name everywhere, "{same[0]}", or name the columns in a schema.',
            )
    return types


def _key(part: Part, name: str, type_: ColumnType) -> str:
    if type_ != KEY:
        raise RefusalError(
            [part.place],
            f"does not fit {name}, which is {type_}",
            f"a constant of type {type_}",
            "Write a number without quotes, a time as DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'.",
        )
    if not isinstance(part.lower, str):
        raise RefusalError(
            [part.place],
            f"does not fit {name}, which is a key",
            f"{name} = or IN with strings",
            "Put the constant in single quotes, or give the column another type.",
        )
    return part.lower


def _ordinals(part: Part, name: str, type_: AttributeType) -> tuple[int, int] | None:
    try:
        return type_.range(
            bound_as(part.lower, type_.kind),
            bound_as(part.upper, type_.kind),
            lower_closed=part.lower_closed,
            upper_closed=part.upper_closed,
        )
    except FencepostError as error:
        raise RefusalError(
            [part.place], f"does not fit {name}, which is {type_}", error.expected, error.remedy
        ) from None


def _unite(boxes: Iterable[BoundBox]) -> tuple[BoundBox, ...]:
    """The boxes, those united that differ in one attribute only and overlap or touch there.

    The attribute stays in the united box even where its range becomes the whole of its type: it still asks for
    a value.
    """
    united = list(dict.fromkeys(boxes))
    for column in dict.fromkeys(name for box in united for name, _, _ in box.ranges):
        united = _unite_along(column, united)
    return tuple(united)


def _unite_along(column: str, boxes: Iterable[BoundBox]) -> list[BoundBox]:
    united: list[BoundBox] = []
    ranges_by_rest: dict[BoundBox, list[tuple[int, int]]] = {}
    for box in boxes:
        own = [(first, last) for name, first, last in box.ranges if name == column]
        if own:
            rest = BoundBox(tuple(each for each in box.ranges if each[0] != column), box.keys)
            ranges_by_rest.setdefault(rest, []).extend(own)
        else:
            united.append(box)
    for rest, ranges in ranges_by_rest.items():
        for first, last in _unite_ranges(ranges):
            united.append(BoundBox(tuple(sorted((*rest.ranges, (column, first, last)))), rest.keys))
    return united


def _unite_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    united: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(last, united[-1][1]))
        else:
            united.append((first, last))
    return united
