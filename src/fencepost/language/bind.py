"""Conditions bound to column types: boxes of ordinal ranges and keys."""

import difflib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

from fencepost.computed import Computed, Term, computed_id
from fencepost.computed.preimages import preimage
from fencepost.computed.typing import typed
from fencepost.errors import FencepostError
from fencepost.language.condition import (
    LARGEST_BOX_COUNT,
    Box,
    Clash,
    ColumnKind,
    Condition,
    Part,
    dropped_parts,
    never_holds,
)
from fencepost.language.source import Place, RefusalError
from fencepost.ordinals import BOOLEAN, DATE, DOUBLE, KEY, TIMESTAMP, AttributeType, ColumnType
from fencepost.ordinals.zones import bound_as

_DEFAULT_TYPES: dict[ColumnKind, ColumnType] = {
    "number": DOUBLE,
    "key": KEY,
    "date": DATE,
    "timestamp": TIMESTAMP,
    "boolean": BOOLEAN,
    "any": DOUBLE,
}

_MOST_KEPT = 10_000


class StringRange(NamedTuple):
    """A range of ordered strings; what its ends are in ordinals depends on the bounds of all rules."""

    term: Term
    """A bound expression, perhaps a column alone."""
    lower: str | None
    upper: str | None
    lower_closed: bool
    upper_closed: bool

    def holds(self, text: str) -> bool:
        """Whether a string is in it."""
        below = self.lower is not None and (text < self.lower or (text == self.lower and not self.lower_closed))
        above = self.upper is not None and (text > self.upper or (text == self.upper and not self.upper_closed))
        return not (below or above)

    def within(self, other: "StringRange") -> "StringRange | None":
        """What both have in common; None where that is nothing."""
        lower, lower_closed = self.lower, self.lower_closed
        if other.lower is not None and (
            lower is None or (other.lower, not other.lower_closed) > (lower, not lower_closed)
        ):
            lower, lower_closed = other.lower, other.lower_closed
        upper, upper_closed = self.upper, self.upper_closed
        if other.upper is not None and (upper is None or (other.upper, other.upper_closed) < (upper, upper_closed)):
            upper, upper_closed = other.upper, other.upper_closed
        if (
            lower is not None
            and upper is not None
            and (lower > upper or (lower == upper and not (lower_closed and upper_closed)))
        ):
            return None
        return StringRange(self.term, lower, upper, lower_closed, upper_closed)


class BoundBox(NamedTuple):
    """A box: every attribute within its ordinals, every key equal to its string; sorted by column."""

    ranges: tuple[tuple[str, int, int], ...]
    """Column or computed attribute, first and last ordinal. The whole range of a type still asks for a value."""
    keys: tuple[tuple[str, str], ...]
    strings: tuple[StringRange, ...] = ()
    """One per expression."""


class BoundCondition(NamedTuple):
    """A condition that can be indexed: it holds where any of its boxes does."""

    boxes: tuple[BoundBox, ...]
    """At least one; boxes that touch along one attribute are united."""
    dropped: tuple[str, ...]
    """For every branch that can never hold, the reason."""
    computed: Mapping[str, Computed] = MappingProxyType({})
    """The computed attributes that boxes have ranges of, by name."""


class Binder:
    """Binds conditions to the columns of one schema.

    >>> from fencepost.language import parse
    >>> Binder({"Price": AttributeType.parse("decimal(9,2)")}).bind(parse("price >= 40 AND price < 50.005")).boxes
    (BoundBox(ranges=(('Price', 4000, 5000),), keys=(), strings=()),)
    """

    def __init__(self, types: Mapping[str, ColumnType]) -> None:
        self._types = dict(types)
        self._by_lower_case: dict[str, list[str]] = {}
        for name in self._types:
            self._by_lower_case.setdefault(name.lower(), []).append(name)
        self._known: dict[str, tuple[str, ColumnType]] = {}
        self._terms: dict[Term, Term] = {}
        self._computed: dict[str, Computed] = {}

    def bind(self, condition: Condition) -> BoundCondition:
        """The condition with every constant turned into ordinals of its column's type."""
        try:
            bound: list[BoundBox] = []
            alive: list[Box] = []
            clashes: list[Clash] = []
            for box in condition.boxes:
                result = self._box(box)
                if type(result) is BoundBox:
                    bound.append(result)
                    alive.append(box)
                elif type(result) is list:
                    bound += result
                    alive.append(box)
                else:
                    clashes.append(result)  # type: ignore[arg-type]
            if len(bound) > LARGEST_BOX_COUNT:
                raise too_many_boxes(len(bound))
            if not bound:
                raise never_holds(clashes[0])
        except RefusalError as refusal:
            raise refusal.against(condition.text) from None
        dropped = condition.dropped
        if clashes:
            dropped += dropped_parts(condition.text, alive, clashes)
        boxes = _unite(bound) if len(bound) > 1 else tuple(bound)
        if not self._computed:
            return BoundCondition(boxes, dropped)
        used = {name: self._computed[name] for box in boxes for name, _, _ in box.ranges if name in self._computed}
        if len(self._computed) > _MOST_KEPT:
            self._computed.clear()
        return BoundCondition(boxes, dropped, used)

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

    def _box(self, box: Box) -> BoundBox | list[BoundBox] | Clash:
        """The box in ordinals, or the places of the parts that leave it empty.

        It is several boxes where a range of an expression is several ranges of its column.
        """
        ranges: dict[str, tuple[int, int]] = {}
        keys: dict[str, str] = {}
        strings: dict[Term, StringRange] = {}
        choices: list[tuple[str, Sequence[tuple[int, int]], Place]] = []
        first_place: dict[str, Place] = {}
        last_place: dict[str, Place] = {}
        for part in box:
            if part.term is not None:
                found = self._expression(part)
                if isinstance(found, StringRange):
                    if not _narrow(strings, found):
                        return part.place, part.place
                    continue
                name, allowed = found
                if len(allowed) != 1:
                    if not allowed:
                        return part.place, part.place
                    choices.append((name, allowed, part.place))
                    continue
                first, last = allowed[0]
            else:
                name, type_ = self.find(part.column, part.place)
                lower = part.lower
                if isinstance(type_, str) or isinstance(lower, str) or isinstance(part.upper, str):
                    if not (isinstance(type_, str) and isinstance(lower, str) and part.upper is lower):
                        _check_key(part, name, type_)
                    if part.upper == lower and isinstance(lower, str):
                        if keys.setdefault(name, lower) != lower:
                            return first_place[name], part.place
                        first_place.setdefault(name, part.place)
                    elif not _narrow(strings, _string_range(part, Term("column", (), name, KEY))):
                        return part.place, part.place
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
        for term, range_ in list(strings.items()) if strings else ():
            if term.name == "column" and term.value in keys:  # a key that is in the range, or never is
                if not range_.holds(keys[term.value]):
                    return first_place[term.value], first_place[term.value]
                del strings[term]
        if strings or choices:
            return _boxes(ranges, keys, strings, choices)
        return BoundBox(
            tuple(sorted([(name, first, last) for name, (first, last) in ranges.items()])), tuple(sorted(keys.items()))
        )

    def _expression(self, part: Part) -> "StringRange | tuple[str, Sequence[tuple[int, int]]]":
        """What a comparison of an expression asks for: strings, or ordinals of a column or a computed attribute."""
        assert part.term is not None
        term = self.typed(part.term, part.place)
        if term.type == KEY:
            _check_key(part, term.text, KEY)
            return _string_range(part, term)
        _check_comparable(part, term)
        own = _ordinals(part, term.text, term.attribute)
        if (found := preimage(term, own)) is not None:
            column, _, ranges = found
            return column, ranges
        computed = Computed(term)
        name = computed_id(computed)
        if name in self._types:
            raise RefusalError(
                [part.place], f"is called like the column {name}", "a column of another name", "Rename it."
            )
        self._computed[name] = computed
        return name, ([] if own is None else [own])

    def typed(self, term: Term, place: Place) -> Term:
        """An expression with its columns found, and the type of every part."""
        found = self._terms.get(term)
        if found is None:
            try:
                found = typed(term, lambda column: self.find(column, place))
            except RefusalError:
                raise
            except FencepostError as error:
                raise RefusalError([place], error.got, error.expected, error.remedy) from None
            if len(self._terms) > _MOST_KEPT:
                self._terms.clear()
            self._terms[term] = found
        return found


def too_many_boxes(count: int) -> RefusalError:
    """The refusal of a condition that is too many boxes of columns."""
    return RefusalError(
        [], f"makes {count:,} boxes", f"at most {LARGEST_BOX_COUNT} in one condition", "Split it into several rules."
    )


def _narrow(strings: dict[Term, StringRange], found: StringRange) -> bool:
    """Let a box ask for a range of strings, too; whether any string is left."""
    known = strings.get(found.term)
    common = found.within(found) if known is None else known.within(found)
    if common is None:
        return False
    strings[found.term] = common
    return True


def _boxes(
    ranges: Mapping[str, tuple[int, int]],
    keys: Mapping[str, str],
    strings: Mapping[Term, StringRange],
    choices: Sequence[tuple[str, Sequence[tuple[int, int]], Place]],
) -> list[BoundBox] | Clash:
    """A box, or as many as there are choices of ranges."""
    ordered = tuple(strings[term] for term in sorted(strings, key=lambda each: each.text))
    named = tuple(sorted(keys.items()))
    left: dict[str, Sequence[tuple[int, int]]] = {}
    for name, allowed, place in choices:
        left[name] = _common(left.get(name) or ([ranges[name]] if name in ranges else allowed), allowed)
        if not left[name]:
            return place, place
    count = prod(map(len, left.values()))  # made only once it is known that they are few
    if count > LARGEST_BOX_COUNT:
        raise too_many_boxes(count)
    return [
        BoundBox(tuple(sorted([(name, *range) for name, range in chosen.items()])), named, ordered)
        for each in product(*left.values())
        for chosen in [{**ranges, **dict(zip(left, each, strict=True))}]
    ]


def _common(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What ascending ranges have in common with others."""
    few, many = sorted((one, other), key=len)
    found: list[tuple[int, int]] = []
    for low, high in few:
        begin, end = bisect_left(many, low, key=itemgetter(1)), bisect_right(many, high, key=itemgetter(0))
        if begin < end:
            within = [*many[begin:end]]
            within[0] = max(low, within[0][0]), within[0][1]
            within[-1] = within[-1][0], min(high, within[-1][1])
            found += within
    return found


def bind(condition: Condition, types: Mapping[str, ColumnType] | None = None) -> BoundCondition:
    """The condition bound to column types; without any, to the types that its constants suggest.

    >>> from fencepost.language import parse
    >>> from fencepost.ordinals import BIGINT
    >>> bind(parse("symbol = 'IBM' AND volume > 2.5"), {"symbol": KEY, "volume": BIGINT}).boxes
    (BoundBox(ranges=(('volume', 3, 9223372036854775807),), keys=(('symbol', 'IBM'),), strings=()),)
    """
    types = infer_types([condition.columns], condition.alike) if types is None else types
    return Binder(types).bind(condition)


def infer_types(
    columns: Iterable[Mapping[str, ColumnKind]], alike: Iterable[tuple[str, ...]] = ()
) -> dict[str, ColumnType]:
    """Types for the columns of conditions without a schema: numbers are doubles, strings are keys.

    Columns that are `alike` have one type; where nothing tells it, they are doubles.

    >>> from fencepost.language import parse
    >>> types = infer_types([parse("price > 4 AND day = DATE '2024-12-31'").columns])
    >>> {name: str(type) for name, type in types.items()}
    {'price': 'double', 'day': 'date'}
    """
    return _unquote(infer_kinds(columns, alike))


def infer_kinds(
    columns: Iterable[Mapping[str, ColumnKind]], alike: Iterable[tuple[str, ...]] = ()
) -> dict[str, ColumnKind]:
    """The kinds of the columns of conditions; `any` of those whose kind nothing tells."""
    kinds: dict[str, ColumnKind] = {}
    for mapping in columns:
        for column, kind in mapping.items():
            known = kinds.get(column, kind)
            if "any" in (known, kind):
                kind = known = kind if known == "any" else known
            if known != kind and {known, kind} == {"date", "timestamp"}:
                kind = known = "timestamp"
            if known != kind:
                raise FencepostError(
                    f"column {column} is compared with a {kind} here and a {known} there",
                    "one kind of constant for one column",
                    "Name the column's type in a schema, and correct the rule that does not fit it.",
                )
            kinds[column] = kind
    is_open, groups = "any" in kinds.values(), set(alike)
    while is_open:
        is_open = False
        for group in groups:
            found = {kinds[column] for column in group if column in kinds}
            decided = found - {"any"}
            if "any" in found and decided and (len(decided) == 1 or decided == {"date", "timestamp"}):
                kind = max(decided)  # of date and timestamp the latter
                kinds.update({column: kind for column in group if kinds.get(column) == "any"})
                is_open = True
    return kinds


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


def _check_key(part: Part, name: str, type_: ColumnType) -> None:
    """Refuse strings for what has none, and anything else for strings."""
    if type_ != KEY:
        raise RefusalError(
            [part.place],
            f"does not fit {name}, which is {type_}",
            f"a constant of type {type_}",
            "Write a number without quotes, a time as DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'.",
        )
    if not all(each is None or isinstance(each, str) for each in (part.lower, part.upper)):
        raise RefusalError(
            [part.place],
            f"does not fit {name}, which is a key",
            f"{name} compared with strings",
            "Put the constant in single quotes, or give the column another type.",
        )


def _check_comparable(part: Part, term: Term) -> None:
    if isinstance(part.lower, str) or isinstance(part.upper, str):
        raise RefusalError(
            [part.place],
            f"does not fit {term.text}, which is {term.type}",
            f"a constant of type {term.type}",
            "Write a number without quotes, a time as DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:59:59'.",
        )


def _string_range(part: Part, term: Term) -> StringRange:
    return StringRange(term, part.lower, part.upper, part.lower_closed, part.upper_closed)  # type: ignore[arg-type]


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
            rest = BoundBox(tuple(each for each in box.ranges if each[0] != column), box.keys, box.strings)
            ranges_by_rest.setdefault(rest, []).extend(own)
        else:
            united.append(box)
    for rest, ranges in ranges_by_rest.items():
        for first, last in _unite_ranges(ranges):
            united.append(rest._replace(ranges=tuple(sorted((*rest.ranges, (column, first, last))))))
    return united


def _unite_ranges(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    united: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if united and first <= united[-1][1] + 1:
            united[-1] = (united[-1][0], max(last, united[-1][1]))
        else:
            united.append((first, last))
    return united
