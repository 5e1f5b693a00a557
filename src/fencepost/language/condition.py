"""A condition as a disjunction of boxes, and how constants are filled into a compiled shape.

Three-valued logic needs no third value here: negation is pushed to the comparisons when a shape is compiled,
and every part keeps its column, so that a null makes each part, and with it the box, not hold.
`x < 5 OR x >= 5` is two boxes over x, never TRUE.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from operator import gt, lt
from typing import Any, Literal, NamedTuple, Protocol

from fencepost.computed.bounds import after_prefix, lowered
from fencepost.computed.terms import Term
from fencepost.language import refusals
from fencepost.language.expression import Evaluate
from fencepost.language.shape import Values
from fencepost.language.source import Place, RefusalError
from fencepost.ordinals.scalars import nearest_double
from fencepost.ordinals.zones import Moment, at_midnight

LARGEST_BOX_COUNT = 256
_COUNTED = 1024
"""Boxes beyond the limit are counted up to here, then no longer made."""

ColumnKind = Literal["number", "key", "date", "timestamp", "boolean", "any"]
"""What kind of constants a column is compared with; `any` where it is not compared with constants."""

Bound = int | Fraction | float | bool | str | date | datetime | timedelta


class Part(NamedTuple):
    """One comparison: a column or an expression whose value lies in a range; a column that is one string is a key."""

    column: str
    """In lower case, or in its double quotes where the condition quotes it; of an expression its text."""
    lower: Bound | None
    """An exact constant; None is unbounded."""
    upper: Bound | None
    lower_closed: bool
    upper_closed: bool
    place: Place
    term: Term | None = None
    """The expression; None for a column."""


Box = tuple[Part, ...]
Clash = tuple[Place, Place]  # two parts that exclude each other, or twice the one that cannot hold


@dataclass(frozen=True, slots=True)
class Condition:
    """A parsed condition, not yet bound to types: it holds where all parts of any of its boxes hold."""

    text: str
    boxes: tuple[Box, ...]
    """At most 256; a box without parts always holds."""
    columns: Mapping[str, ColumnKind]
    """Every column of the boxes, those of expressions too, with the kind of constant it is compared with."""
    dropped: tuple[str, ...] = ()
    """For every branch that can never hold, the reason."""
    alike: tuple[tuple[str, ...], ...] = ()
    """Columns that are compared with each other and with no constant: they have one type."""


class Node(Protocol):
    """A compiled condition that waits for its constants."""

    @property
    def place(self) -> Place:
        """First and last token."""

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:
        """The boxes that can hold; what excludes the others is added to clashes."""


class Leaf(NamedTuple):
    """One range of one column."""

    column: Evaluate
    lower: Evaluate | None
    upper: Evaluate | None
    lower_closed: bool
    upper_closed: bool
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:
        """See Node."""
        column, lower, upper, lower_closed, upper_closed, place = self
        low = None if lower is None else lower(values)
        high = low if upper is lower else None if upper is None else upper(values)
        name = column(values)
        if type(name) is str:
            part = Part(name, low, high, lower_closed, upper_closed, place)
        else:
            part = part_of(name, low, high, lower_closed, upper_closed, place)
        if upper is not lower and excludes(part, part):
            clashes.append((place, place))
            return []
        return [(part,)]


class WithoutPoints(NamedTuple):
    """`<>` and NOT IN: the gaps between the excluded constants."""

    column: Evaluate
    points: tuple[Evaluate, ...]
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:  # noqa: ARG002 (as in Node)
        """See Node."""
        points = sorted({point(values) for point in self.points}, key=_comparable)
        edges = [None, *points, None]
        column = self.column(values)
        gaps: list[Box] = [(part_of(column, low, high, False, False, self.place),) for low, high in pairwise(edges)]
        return _check_count(gaps, self.place)


class LikePattern(NamedTuple):
    """LIKE, whose pattern is a prefix before `%` or has no wildcard at all."""

    column: Evaluate
    pattern: Evaluate
    is_prefix: bool
    """Whether the pattern is a prefix as it stands."""
    lowers: bool
    """Whether upper and lower case are the same."""
    negate: bool
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:
        """See Node."""
        text, column, place = self.pattern(values), self.column(values), self.place
        text = lowered(text) if self.lowers else text
        prefix = text if self.is_prefix or not text.endswith("%") else text.rstrip("%")
        if not self.is_prefix and any(each in prefix for each in ("%", "_", "\\")):
            raise refusals.wildcards(place, text)
        if not self.is_prefix and prefix == text:
            if self.negate:
                ends: list[tuple[str | None, str | None]] = [(None, text), (text, None)]
                return [(part_of(column, low, high, False, False, place),) for low, high in ends]
            return [(part_of(column, text, text, True, True, place),)]
        end = after_prefix(prefix)
        if not self.negate:
            return [(part_of(column, prefix, end, True, False, place),)]
        outside: list[Box] = []
        if prefix:
            outside.append((part_of(column, None, prefix, False, False, place),))
        if end is not None:
            outside.append((part_of(column, end, None, True, False, place),))
        if not outside:
            clashes.append((place, place))
        return outside


class Fixed(NamedTuple):
    """TRUE or FALSE."""

    truth: bool
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:  # noqa: ARG002 (as in Node)
        """See Node."""
        if self.truth:
            return [()]
        clashes.append((self.place, self.place))
        return []


class Compared(NamedTuple):
    """A comparison of two constants."""

    compare: Callable[[Bound, Bound], bool]
    left: Evaluate
    right: Evaluate
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:
        """See Node."""
        truth = self.compare(_comparable(self.left(values)), _comparable(self.right(values)))
        return Fixed(truth, self.place).expand(values, clashes)


class AnyOf(NamedTuple):
    """OR: the boxes of all children."""

    children: tuple[Node, ...]
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:
        """See Node."""
        found: list[Box] = []
        for child in self.children:
            if len(found) > _COUNTED:  # they are refused, and no longer counted
                break
            found += child.expand(values, clashes)
        return _check_count(found, self.place)


class AllOf(NamedTuple):
    """AND: every combination of the children's boxes whose parts do not exclude each other."""

    children: tuple[Node, ...]
    place: Place

    def expand(self, values: Values, clashes: list[Clash]) -> list[Box]:
        """See Node."""
        expanded = [child.expand(values, clashes) for child in self.children]
        expanded.sort(key=len)  # so that x IN (...) AND y IN (...) AND x = 3 stays small on the way
        known = _KnownParts()
        found = [(box, known.add(box)) for box in expanded[0]]
        for others in expanded[1:]:
            conflicts = [known.conflicts(other) for other in others]
            added = [known.add(other) for other in others]
            combined: list[tuple[Box, int]] = []
            for box, parts in found:
                if len(combined) > _COUNTED:  # likewise
                    break
                for other, excluded, new in zip(others, conflicts, added, strict=True):
                    if parts & excluded:
                        clashes.append(known.first_clash(box, parts, other, excluded))
                    else:
                        combined.append((box + other, parts | new))
            _check_count(combined, self.place)
            found = combined
            if not found:
                break
        return [box for box, _ in found]


class _KnownParts:
    """The parts of boxes, numbered, so that sets of them are bits of a number.

    Which parts exclude each other is found once for each pair of them, not again for each pair of boxes.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """Of a part by its identity: products of boxes share their parts."""
        self._parts: list[Part] = []
        self._in_order = True
        """Whether the numbers ascend in every box, as the parts of two or more boxes mostly let them."""
        self._with_lower: dict[str, list[tuple[int, Part]]] = {}
        self._with_upper: dict[str, list[tuple[int, Part]]] = {}
        self._highest: dict[str, dict[type, Any]] = {}
        """The highest lower bound of a column by type, and then its lowest upper bound: a part beyond none of them
        is compared with no other."""
        self._lowest: dict[str, dict[type, Any]] = {}

    def add(self, box: Box) -> int:
        """The set of the parts of a box."""
        found, last = 0, -1
        for part in box:
            number = self._numbers.get(id(part))
            if number is None:
                number = self._numbers[id(part)] = len(self._parts)
                self._parts.append(part)
                self._list(number, part)
            found |= 1 << number
            self._in_order &= number > last
            last = number
        return found

    def _list(self, number: int, part: Part) -> None:
        """Know the bounds of a part."""
        name, lower, upper = part.column, part.lower, part.upper
        if lower is not None:
            self._with_lower.setdefault(name, []).append((number, part))
            kinds = self._highest.setdefault(name, {})
            kinds[type(lower)] = max(lower, kinds.get(type(lower), lower))
        if upper is not None:
            self._with_upper.setdefault(name, []).append((number, part))
            kinds = self._lowest.setdefault(name, {})
            kinds[type(upper)] = min(upper, kinds.get(type(upper), upper))

    def conflicts(self, box: Box) -> int:
        """The set of known parts that exclude a part of a box."""
        found = 0
        for part in box:
            name, lower, upper = part.column, part.lower, part.upper
            if upper is not None and not _all(self._highest.get(name, {}), upper, lt):
                for number, known in self._with_lower.get(name, ()):
                    if excludes(known, part):
                        found |= 1 << number
            if lower is not None and not _all(self._lowest.get(name, {}), lower, gt):
                for number, known in self._with_upper.get(name, ()):
                    if excludes(part, known):
                        found |= 1 << number
        return found

    def first_clash(self, box: Box, parts: int, other: Box, conflicts: int) -> Clash:
        """The first two parts of two boxes that exclude each other."""
        clashing = parts & conflicts
        if self._in_order:
            first = self._parts[(clashing & -clashing).bit_length() - 1]
        else:
            first = next(part for part in box if clashing >> self._numbers[id(part)] & 1)
        clash = clash_of((first,), other)
        assert clash is not None, "it excludes one of the others"
        return clash


def _all(bounds: Mapping[type, Any], bound: Bound, compare: Callable[[Any, Any], bool]) -> bool:
    """Whether all bounds, of one type at most, which is that of another, lie on one side of that."""
    return not bounds or (list(bounds) == [type(bound)] and compare(bounds[type(bound)], bound))


def part_of(
    column: "str | Term",
    lower: Bound | None,
    upper: Bound | None,
    lower_closed: bool,
    upper_closed: bool,
    place: Place,
) -> Part:
    """The comparison of a column or an expression."""
    if isinstance(column, str):
        return Part(column, lower, upper, lower_closed, upper_closed, place)
    return Part(column.text, lower, upper, lower_closed, upper_closed, place, column)


class Use(NamedTuple):
    """A column and the kind of constant that it is compared with."""

    column: Evaluate
    kind: ColumnKind
    place: Place


@dataclass(frozen=True, slots=True)
class Shape:
    """A condition without its constants and column names, compiled."""

    root: Node
    uses: tuple[Use, ...]
    """Every comparison, for the kinds of the columns."""
    is_reusable: bool
    """Whether every name is a slot that is filled, so that other names may take its place."""
    alike: tuple[tuple[Evaluate, ...], ...] = ()
    """Columns that are compared with each other alone."""

    def fill(self, text: str, values: Values) -> Condition:
        """The condition that these constants and names make."""
        columns = kinds_of(self.uses, values)
        clashes: list[Clash] = []
        boxes = self.root.expand(values, clashes)
        if not boxes:
            raise never_holds(clashes[0])
        alike = tuple([tuple([column(values) for column in each]) for each in self.alike]) if self.alike else ()
        if not clashes:
            return Condition(text, tuple(boxes), columns, (), alike)
        needed = {part.column for box in boxes for part in box if part.term is None}
        for box in boxes:
            for part in box:
                if part.term is not None:
                    needed.update(each.value for each in part.term.walk() if each.name == "column")
        columns = {column: kind for column, kind in columns.items() if column in needed}
        return Condition(text, tuple(boxes), columns, dropped_parts(text, boxes, clashes), alike)


def kinds_of(uses: Iterable[Use], values: Values) -> dict[str, ColumnKind]:
    """Every column that is used, with the kind of constant it is compared with."""
    columns: dict[str, ColumnKind] = {}
    for column, kind, place in uses:
        name = column(values)
        known = columns.setdefault(name, kind)
        if known != kind:
            if "any" in (known, kind):
                columns[name] = kind if known == "any" else known
                continue
            if {known, kind} != {"date", "timestamp"}:
                raise refusals.mixed_kinds(name, place, known, kind)
            columns[name] = "timestamp"
    return columns


def dropped_parts(text: str, boxes: Iterable[Box], clashes: Iterable[Clash]) -> tuple[str, ...]:
    """The reasons why parts of the text are in no box. A clash inside `x <> 1 AND x <> 2` drops none."""
    alive = {part.place for box in boxes for part in box}
    reasons = (never_holds(clash).against(text).got for clash in clashes if not alive.issuperset(clash))
    return tuple(dict.fromkeys(reasons))


def clash_of(box: Box, other: Box) -> Clash | None:
    """The first two parts of two boxes that exclude each other."""
    columns = {part.column for part in other}
    for part in box:
        if part.column not in columns:
            continue
        for another in other:
            if part.column == another.column and (excludes(part, another) or excludes(another, part)):
                return part.place, another.place
    return None


def excludes(lower: Part, upper: Part) -> bool:
    """Whether the lower bound of one part lies beyond the upper bound of another, whatever the column's type.

    Numbers are compared exactly and as doubles: against a column of doubles both bounds are rounded first, which
    can make `x >= 0.10000000000000000001 AND x <= 0.1` hold. Only binding can tell such cases.
    """
    low, high = lower.lower, upper.upper
    if low is None or high is None:
        return False
    both_closed = lower.lower_closed and upper.upper_closed
    if type(low) is not type(high):
        low, high = _comparable(low), _comparable(high)
    if isinstance(low, Moment) and isinstance(high, Moment):
        # Only binding can tell whether instants count, or what the clock shows, which may jump between the two.
        return _is_beyond(low, high, both_closed) and _is_beyond(low.wall, high.wall, both_closed)
    return _is_beyond(low, high, both_closed)


def _is_beyond(low: Bound, high: Bound, both_closed: bool) -> bool:
    if low == high:
        return not both_closed
    if low < high:  # type: ignore[operator]
        return False
    if both_closed and isinstance(low, (int, Fraction)) and isinstance(high, (int, Fraction)):
        return nearest_double(low) != nearest_double(high)
    return True


def never_holds(clash: Clash) -> RefusalError:
    """The refusal that shows the two parts, or the one, that can never hold."""
    one, other = sorted(clash)
    if one == other:
        return RefusalError(
            [one], "can never hold", "a condition that can hold", "Remove it, or correct its constants."
        )
    return RefusalError(
        [one, other],
        "exclude each other",
        "a condition that can hold",
        "Remove one of the two parts, correct its constants, or join them with OR.",
    )


def _comparable(constant: Bound) -> Bound:
    """A date as the timestamp at its midnight; everything else as it is."""
    return at_midnight(constant) if isinstance(constant, date) else constant


def _check_count(boxes: list[Any], place: Place) -> list[Any]:
    if len(boxes) > LARGEST_BOX_COUNT:
        raise RefusalError(
            [place],
            f"makes {'more than ' if len(boxes) > _COUNTED else ''}{min(len(boxes), _COUNTED):,} boxes",
            f"at most {LARGEST_BOX_COUNT} combinations of OR, IN and <> in one condition",
            "Split it into several rules, or replace neighbouring constants by a range.",
        )
    return boxes
