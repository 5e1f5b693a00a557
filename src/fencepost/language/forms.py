"""Many conditions at once: those that differ only in plain constants are one form, whose constants are columns.

A book of a million rules has few forms. Whatever is not plain beyond doubt (dates, arithmetic, OR, quotes within
strings, comments, long numbers) is left to `parse`, one by one.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.computed.many_preimages import column_of
from fencepost.computed.terms import Term
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.language.condition import AllOf, Condition, Leaf, LikePattern, Shape
from fencepost.language.expression import AnyConstant
from fencepost.language.parse import parse, shape_of
from fencepost.language.shape import read_shape
from fencepost.language.source import RefusalError

_UNUSUAL = "[^ -~]|[\"`]|--|/\\*|''"
_STRING, _NUMBER = "'[^']*'", r"\b[0-9]{1,17}(?:\.[0-9]{1,17})?\b"
_MARKS = {"\x01": r"'([^']*)'", "\x02": r"([0-9]{1,17}(?:\.[0-9]{1,17})?)"}
_FEW = 16
"""Conditions of one form that are not worth its while."""


class Constants(NamedTuple):
    """What one bound is, condition by condition."""

    texts: Any
    """Arrow strings: numbers as they are written, or keys."""
    is_number: bool
    is_negative: bool
    is_double: bool
    """Whether they are cast to doubles."""


class FormPart(NamedTuple):
    """One comparison, in all conditions of a form."""

    column: str
    lower: Constants | None
    upper: Constants | None
    lower_closed: bool
    upper_closed: bool
    is_equality: bool
    is_prefix: bool = False
    """Whether the lower bound is a pattern of LIKE, and there is no upper one."""
    term: Term | None = None
    """An expression over the column, whose constants are `Constants`."""


class Form(NamedTuple):
    """Conditions that differ only in constants, each one box."""

    rows: Int64s
    """Which conditions these are."""
    example: Condition
    """The first of them."""
    parts: tuple[FormPart, ...]


def find_forms(conditions: Any, zone: str) -> tuple[list[Form], Int64s]:
    """The forms of an Arrow array of conditions, and the rows of those that are to be parsed one by one."""
    unusual = np.asarray(pc.match_substring_regex(conditions, _UNUSUAL))
    marked = pc.replace_substring_regex(conditions, _STRING, "\x01")
    marked = pc.replace_substring_regex(marked, _NUMBER, "\x02").dictionary_encode()
    codes = np.where(unusual, len(marked.dictionary), np.asarray(marked.indices).astype(np.int64))
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(marked.dictionary) + 1))
    forms: list[Form] = []
    rest = [order[starts[-1] :]]
    for number, skeleton in enumerate(marked.dictionary.to_pylist()):
        rows = order[starts[number] : starts[number + 1]]
        form = None if len(rows) < _FEW else _form(skeleton, rows, conditions, zone)
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
            pattern += re.escape(piece).replace("\\ ", " ")
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
        return _fill(rows, example, shape, text, slots, columns)
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


def _fill(
    rows: Int64s,
    example: Condition,
    shape: Shape,
    text: str,
    slots: Sequence[tuple[int, Any, bool]],
    columns: Sequence[Any],
) -> Form | None:
    """The form, if every bound of its one box is a constant as it is written."""
    leaves: Any = shape.root.children if isinstance(shape.root, AllOf) else (shape.root,)
    if not all(isinstance(leaf, Leaf) or _is_plain_like(leaf) for leaf in leaves):
        return None
    # Constants are replaced by their places: a bound that is computed from them in any way is refused by its type.
    values: list[Any] = [*read_shape(text)[1], None]
    for place, (slot, _, _) in enumerate(slots):
        values[slot] = AnyConstant(place)

    def constants(evaluate: Any) -> Constants | None:
        if evaluate is None:
            return None
        found = evaluate(values)
        if not isinstance(found, AnyConstant):
            raise TypeError("not a constant as it is written")
        is_number = slots[found.place][2]
        if found.is_double and not is_number:
            raise TypeError("a string that is cast")
        return Constants(columns[found.place], is_number, found.is_negative, found.is_double)

    def filled(term: Term) -> Term:
        """An expression with all constants that stand at each place."""
        if term.name == "constant":
            return term._replace(value=constants(lambda _: term.value))
        return term._replace(parts=tuple(map(filled, term.parts)))

    def part(leaf: Any) -> FormPart:
        column = leaf.column(values)
        if isinstance(leaf, LikePattern):
            if isinstance(column, Term):
                raise TypeError("an expression that is not plain")
            return FormPart(column, constants(leaf.pattern), None, True, False, False, True)
        term = None
        if isinstance(column, Term):
            term, name = filled(column), column_of(column)
            if name is None or leaf.lower is leaf.upper:
                raise TypeError("an expression that is not plain")
            column = name
        return FormPart(
            column,
            constants(leaf.lower),
            constants(leaf.upper),
            leaf.lower_closed,
            leaf.upper_closed,
            leaf.lower is leaf.upper,
            False,
            term,
        )

    return Form(rows, example, tuple(map(part, leaves)))


def _is_plain_like(leaf: Any) -> bool:
    return isinstance(leaf, LikePattern) and not (leaf.negate or leaf.lowers or leaf.is_prefix)
