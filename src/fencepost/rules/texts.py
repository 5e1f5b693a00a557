"""Conditions written from boxes: the text of a rule of which only the boxes are known."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from fencepost.ordinals import AttributeType
from fencepost.rules.table_blocks import any_value, constant_text
from fencepost.rules.table_rules import canonical_name

_name = lru_cache(10_000)(canonical_name)


def condition_of(
    boxes: Iterable[tuple[Mapping[str, str], Mapping[str, tuple[int, int]]]], types: Mapping[str, AttributeType]
) -> str:
    """The SQL condition that holds in any of the boxes, which have keys and inclusive ranges of ordinals.

    >>> double = AttributeType("double")
    >>> first, last = double.range(40, 50, upper_closed=False)
    >>> condition_of([({"symbol": "IBM"}, {"price": (first, last)})], {"price": double})
    "symbol = 'IBM' AND price >= 40.0 AND price < 50.0"
    """
    texts = []
    for keys, ranges in boxes:
        parts = [f"{_name(name)} = {constant_text(text)}" for name, text in keys.items()]
        parts += [range_text(_name(name), *ends, types[name]) for name, ends in ranges.items()]
        texts.append(" AND ".join(parts) or "TRUE")
    return " OR ".join(texts)


def range_text(name: str, first: int, last: int, type: AttributeType) -> str:
    """The condition that a column lies in a range of ordinals."""
    smallest, largest = type.limits
    if first == last:
        return f"{name} = {_constant(type, first)}"
    parts = []
    if first > smallest:
        parts.append(_shorter((f"{name} >= ", first), (f"{name} > ", first - 1), type))
    if last < largest:
        parts.append(_shorter((f"{name} <= ", last), (f"{name} < ", last + 1), type))
    return " AND ".join(parts) or any_value(name, "timestamp" if type.kind == "timestamp_ntz" else type.kind)


def _shorter(inclusive: tuple[str, int], exclusive: tuple[str, int], type: AttributeType) -> str:
    """One bound, as the value that is inside or its neighbour that is not: < 50 reads better than <= 49.99999."""
    texts = [f"{sign}{_constant(type, ordinal)}" for sign, ordinal in (inclusive, exclusive)]
    return min(texts, key=len)


def _constant(type: AttributeType, ordinal: int) -> str:
    value: Any = type.decode(np.array([ordinal]))[0].as_py()
    if type.kind != "double":
        return constant_text(value)
    return repr(value) if np.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
