"""Many conditions at once: those that differ only in constants are one form, whose constants are columns.

A book of a million rules has few forms. Whatever is not plain beyond doubt (quotes within strings, comments, quoted
names, long numbers, expressions over several columns) is left to `parse`, one by one.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.computed.many_preimages import column_of
from fencepost.computed.terms import Term
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.language.condition import AllOf, AnyOf, Condition, Leaf, LikePattern, Shape, WithoutPoints
from fencepost.language.expression import AnyConstant, Evaluate
from fencepost.language.parse import parse, shape_of
from fencepost.language.shape import exact_number, read_shape
from fencepost.language.source import RefusalError
from fencepost.ordinals.zones import rules_of_zone

_STRING, _NUMBER = "'[^']*'", r"\b[0-9]{1,17}(?:\.[0-9]{1,17})?\b"
_MARKS = {"\x01": r"'([^']*)'", "\x02": r"([0-9]{1,17}(?:\.[0-9]{1,17})?)"}
_UNUSUAL = re.compile("[^ -~\t\r\n\x01\x02]|[\"`']|--|/\\*|\x01\x01")
"""What leaves in doubt where the strings of a text begin and end, once they are marked."""
_FEW = 16
"""Conditions of one form that are not worth its while."""
_MOST_BOXES = 64
"""Of a form that is taken."""


class Constants(NamedTuple):
    """What one bound is, condition by condition: a constant as it is written."""

    texts: Any
    """Arrow strings: numbers as they are written, or keys."""
    is_number: bool
    is_negative: bool
    is_double: bool
    """Whether they are cast to doubles."""


class Evaluated(NamedTuple):
    """What one bound is, condition by condition: dates, times, truths, and what is computed from constants."""

    distinct: list[Any]
    """None where it is refused."""
    codes: Int64s
    """Which of them each condition has."""


class Ordered(NamedTuple):
    """One bound of a gap between excluded points, condition by condition: the point at this place, in their order."""

    points: "tuple[Constants | Evaluated, ...]"
    place: int


FormBound = Constants | Evaluated | Ordered


class FormPart(NamedTuple):
    """One comparison, in all conditions of a form."""

    column: str
    lower: FormBound | None
    upper: FormBound | None
    lower_closed: bool
    upper_closed: bool
    is_equality: bool
    is_prefix: bool = False
    """Whether the lower bound is a pattern of LIKE, and there is no upper one."""
    term: Term | None = None
    """An expression over the column, whose constants are `Constants`."""


FormBox = tuple[FormPart, ...]


class Form(NamedTuple):
    """Conditions that differ only in constants, and are as many boxes."""

    rows: Int64s
    """Which conditions these are."""
    example: Condition
    """The first of them."""
    boxes: tuple[FormBox, ...]
    """They share the comparisons that they have in common."""


def find_forms(conditions: Any, zone: str) -> tuple[list[Form], Int64s]:
    """The forms of an Arrow array of conditions, and the rows of those that are to be parsed one by one."""
    marked = pc.replace_substring_regex(conditions, _STRING, "\x01")
    marked = pc.replace_substring_regex(marked, _NUMBER, "\x02").dictionary_encode()
    codes = np.asarray(marked.indices).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(marked.dictionary) + 1))
    forms: list[Form] = []
    rest = [np.zeros(0, np.int64)]
    for number, skeleton in enumerate(marked.dictionary.to_pylist()):
        rows = order[starts[number] : starts[number + 1]]
        is_plain = len(rows) >= _FEW and not _UNUSUAL.search(skeleton)
        form = _form(skeleton, rows, conditions, zone) if is_plain else None
        if form is None:
            rest.append(rows)
        else:
            forms.append(form)
    return forms, np.sort(np.concatenate(rest))


def _form(skeleton: str, rows: Int64s, conditions: Any, zone: str) -> Form | None:
    """The form of conditions that are alike but for strings and numbers; None where it is not plain."""
    text = conditions[int(rows[0])].as_py()
    pieces = re.split("([\x01\x02])", skeleton)
    pattern, count = "^", 0
    for piece in pieces:
        if piece in _MARKS:
            pattern += _MARKS[piece].replace("(", f"(?P<c{count}>", 1)
            count += 1
        else:
            pattern += re.sub(r"\\(\s)", r"\1", re.escape(piece))
    try:
        example = parse(text, zone)
        shape = shape_of(text)
        slots = _constant_slots(text)
        if not isinstance(example, Condition) or not isinstance(shape, Shape) or len(slots) != count or not count:
            return None
        found = pc.extract_regex(conditions.take(pa.array(rows)), pattern + "$")
        if found.null_count:
            return None
        columns = [found.field(place) for place in range(count)]
        if not all(_is_same(value, columns[place][0].as_py()) for place, (_, value, _) in enumerate(slots)):
            return None
        values = [*read_shape(text)[1], rules_of_zone(zone)]
        return Form(rows, example, tuple(_Filler(values, slots, columns).boxes(shape.root)))
    except (FencepostError, RefusalError, TypeError, pa.ArrowException):
        return None


def _constant_slots(text: str) -> list[tuple[int, Any, bool]]:
    """Of every constant: its slot, its value, and whether it is a number."""
    key, values = read_shape(text)
    marks = key[len(key) // 2 + 1 :]
    slots, slot = [], 0
    for mark in marks:
        if mark in ("number", "string"):
            slots.append((slot, values[slot], mark == "number"))
        slot += mark in ("number", "exponent", "string", "name", "quoted")
    return slots


def _is_same(value: Any, text: str) -> bool:
    return value == text if isinstance(value, str) else Fraction(text) == value


class _Noting(list[Any]):
    """The values of a condition; notes which of them are read."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.read: dict[int, None] = {}

    def __getitem__(self, slot: Any) -> Any:
        self.read[slot] = None
        return super().__getitem__(slot)


class _Filler:
    """Reads the boxes of a form off its shape; TypeError where they are not plain.

    Args:
        values: of the slots of the example, and the zone behind them.
        slots: of its constants, as `_constant_slots` has them.
        columns: an Arrow array of texts for each constant.
    """

    def __init__(self, values: Sequence[Any], slots: Sequence[tuple[int, Any, bool]], columns: Sequence[Any]) -> None:
        self._values, self._slots, self._columns = list(values), slots, columns
        # Constants are replaced by their places: what is computed from them in any way is no such place.
        self._places: list[Any] = list(values)
        for place, (slot, _, _) in enumerate(slots):
            self._places[slot] = AnyConstant(place)

    def boxes(self, node: Any) -> list[FormBox]:
        """The boxes of a node, of which none is known to be empty."""
        if isinstance(node, AnyOf):
            found = [box for child in node.children for box in self.boxes(child)]
        elif isinstance(node, AllOf):
            children = [self.boxes(child) for child in node.children]
            if prod(map(len, children)) > _MOST_BOXES:
                raise TypeError("too many boxes")
            found = [()]
            for others in children:
                found = [box + other for box in found for other in others]
        elif isinstance(node, WithoutPoints):
            found = self._gaps(node)
        elif isinstance(node, Leaf) or _is_plain_like(node):
            found = [(self._part(node),)]
        else:
            raise TypeError("not plain")
        if len(found) > _MOST_BOXES:
            raise TypeError("too many boxes")
        return found

    def _gaps(self, node: WithoutPoints) -> list[FormBox]:
        column = node.column(self._places)
        points = tuple([self._bound(point) for point in node.points])
        if isinstance(column, Term) or len(points) >= _MOST_BOXES:
            raise TypeError("an expression that is not plain")
        edges: list[FormBound | None] = [None, *points, None]
        if len(points) > 1:
            edges[1:-1] = [Ordered(points, place) for place in range(len(points))]
        return [(FormPart(column, low, high, False, False, False),) for low, high in pairwise(edges)]

    def _part(self, leaf: Any) -> FormPart:
        column = leaf.column(self._places)
        if isinstance(leaf, LikePattern):
            if isinstance(column, Term):
                raise TypeError("an expression that is not plain")
            return FormPart(column, self._constants(leaf.pattern), None, True, False, False, True)
        term, is_equality = None, leaf.lower is leaf.upper
        if isinstance(column, Term):
            term, name = self._filled(column), column_of(column)
            if name is None or is_equality:
                raise TypeError("an expression that is not plain")
            column = name
        lower = None if leaf.lower is None else self._bound(leaf.lower)
        upper = lower if is_equality else None if leaf.upper is None else self._bound(leaf.upper)
        return FormPart(column, lower, upper, leaf.lower_closed, leaf.upper_closed, is_equality, False, term)

    def _filled(self, term: Term) -> Term:
        """An expression with all constants that stand at each place."""
        if term.name == "constant":
            return term._replace(value=self._constants(lambda _: term.value))
        return term._replace(parts=tuple(map(self._filled, term.parts)))

    def _constants(self, evaluate: Evaluate) -> Constants:
        """Constants as they are written."""
        found = evaluate(self._places)
        if not isinstance(found, AnyConstant):
            raise TypeError("not a constant as it is written")
        is_number = self._slots[found.place][2]
        if found.is_double and not is_number:
            raise TypeError("a string that is cast")
        return Constants(self._columns[found.place], is_number, found.is_negative, found.is_double)

    def _bound(self, evaluate: Evaluate) -> Constants | Evaluated:
        try:
            return self._constants(evaluate)
        except (TypeError, AttributeError, RefusalError):  # as whatever computes with a place
            return self._evaluated(evaluate)

    def _evaluated(self, evaluate: Evaluate) -> Evaluated:
        """What is computed from the constants of each condition."""
        noting = _Noting(self._values)
        evaluate(noting)
        mine = [place for place, (slot, _, _) in enumerate(self._slots) if slot in noting.read]
        slots = [self._slots[place][0] for place in mine]
        texts, codes = _distinct([self._columns[place] for place in mine], len(self._columns[0]))
        read = [
            [exact_number(text, text) for text in each] if self._slots[place][2] else each
            for place, each in zip(mine, texts, strict=True)
        ]
        values, distinct = list(self._values), []
        for row in range(len(read[0]) if read else 1):
            for slot, each in zip(slots, read, strict=True):
                values[slot] = each[row]
            try:
                distinct.append(evaluate(values))
            except (RefusalError, FencepostError):
                distinct.append(None)
        return Evaluated(distinct, codes)


def _distinct(columns: Sequence[Any], count: int) -> tuple[list[list[str]], Int64s]:
    """The distinct combinations of columns of texts, and which of them each row has."""
    encoded = [column.dictionary_encode() for column in columns]
    if len(encoded) == 1:
        return [encoded[0].dictionary.to_pylist()], np.asarray(encoded[0].indices).astype(np.int64)
    codes, first = np.zeros(count, np.int64), np.zeros(1, np.int64)
    for column in encoded:  # pairs are numbered by what occurs, so that triples have room
        codes = codes * len(column.dictionary) + np.asarray(column.indices)
        _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return [column.take(pa.array(first)).to_pylist() for column in columns], codes


def _is_plain_like(node: Any) -> bool:
    return isinstance(node, LikePattern) and not (node.negate or node.lowers or node.is_prefix)
