"""Computed attributes of one row, for whoever asks why."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.computed import Bounds, Computed, Given
from fencepost.computed.bounds import LARGEST, SMALLEST
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import KEY, AttributeType

_COMPARISON = re.compile(r"((?:(?! [<=] ).)+) ([<=]) ((?:(?! [<=] ).)+)", re.DOTALL)


@dataclass(frozen=True)
class Beyond:
    """An end of a range of strings that is not in it."""

    text: str

    def __str__(self) -> str:
        return self.text


def columns_used(names: Sequence[str], computed: Mapping[str, Computed]) -> list[str]:
    """The columns behind some attributes, those of expressions too, once each."""
    return list(
        dict.fromkeys(each for name in names for each in (computed[name].columns if name in computed else (name,)))
    )


def compute(computed: Mapping[str, Computed], values: Mapping[str, int | str | None]) -> dict[str, int | None]:
    """The ordinals of computed attributes, from ordinals of attributes and texts of keys."""
    given = _given(computed, values)
    found = {}
    for name, each in computed.items():
        ordinals, valid = each.ordinals(given)
        found[name] = int(ordinals[0]) if valid is None or valid[0] else None
    return found


def shown_values(computed: Mapping[str, Computed], values: Mapping[str, int | str | None]) -> dict[str, Any]:
    """The values of expressions by their texts; those of columns alone are shown already."""
    given, found = _given(computed, values), {}
    for each in computed.values():
        if each.term.type == KEY:
            strings = given.strings(each.term)
            value = strings[0].as_py() if len(strings) else None
        else:
            ordinals, valid = given.ordinals(each.term)
            value = each.type.decode(ordinals, valid)[0].as_py()
        if each.term.name != "column":
            found[each.text] = value
    return dict(sorted(found.items()))


def _given(computed: Mapping[str, Computed], values: Mapping[str, int | str | None]) -> Given:
    ordinals: dict[str, Int64s] = {}
    valid: dict[str, Bools] = {}
    for each in computed.values():
        for name, type_ in each.columns.items():
            if type_ != KEY:
                value = values.get(name)
                ordinals[name] = np.array([0 if value is None else value], np.int64)
                valid[name] = np.array([value is not None])
    return Given(1, ordinals, valid, lambda name: pa.array([values.get(name)], pa.large_string()))


def show_range(type_: AttributeType, first: int, last: int, bounds: Bounds | None = None) -> tuple[Any, Any]:
    """The values of the ends of a range; None where unbounded."""
    if bounds is not None:
        low: Any = None if first == SMALLEST else bounds.strings[first >> 1].as_py()
        high: Any = None if last == LARGEST else bounds.strings[(last + 1) >> 1].as_py()
        return (Beyond(low) if first & 1 and low is not None else low), (
            Beyond(high) if last & 1 and high is not None else high
        )
    low, high = (
        None if end == limit else type_.decode(np.array([end]))[0].as_py()
        for end, limit in zip((first, last), type_.limits, strict=True)
    )
    return low, high


def show_part(name: str, low: Any, high: Any) -> str:
    """A range in words."""
    if isinstance(low, (str, Beyond)) or isinstance(high, (str, Beyond)):
        below = "" if low is None else f"'{low}' {'<' if isinstance(low, Beyond) else '<='} "
        above = "" if high is None else f" {'<' if isinstance(high, Beyond) else '<='} '{high}'"
        return f"{below}{name}{above}"
    if isinstance(low, bool) or isinstance(high, bool):
        return _show_truth(name, low is True)
    return f"{'' if low is None else f'{low} <= '}{name}{'' if high is None else f' <= {high}'}"


def _show_truth(name: str, truth: bool) -> str:
    """That a boolean is TRUE or FALSE, as one would write it."""
    if name.endswith(" IS NULL"):
        return name if truth else f"{name.removesuffix(' IS NULL')} IS NOT NULL"
    comparison = _COMPARISON.fullmatch(name)
    if comparison is None:
        return f"{name} = {'TRUE' if truth else 'FALSE'}"
    left, symbol, right = comparison.groups()
    return name if truth else f"{left} {'>=' if symbol == '<' else '<>'} {right}"
