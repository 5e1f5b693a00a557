"""The truth about jumps: every move against every box of every rule, lines in fractions.

Written from the semantics alone; it shares nothing with the indexes.
"""

import struct
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from fencepost.ordinals import AttributeType

Box = tuple[dict[str, str], dict[str, tuple[int, int]]]
"""Keys by column, and inclusive ranges of ordinals by attribute."""
Place = Mapping[str, Any]
"""Ordinals by attribute, strings by key; None where nothing is known."""


def is_inside(box: Box, place: Place) -> bool:
    keys, ranges = box
    return all(place[name] == text for name, text in keys.items()) and all(
        place[name] is not None and first <= place[name] <= last for name, (first, last) in ranges.items()
    )


def jumps_over(boxes: Sequence[Box], was: Place, now: Place, types: Mapping[str, AttributeType]) -> bool:
    """Whether a move jumps over a rule: its line meets a box, while neither end is in any of them."""
    if any(is_inside(box, place) for box in boxes for place in (was, now)):
        return False
    return any(_is_met(box, was, now, types) for box in boxes)


def _is_met(box: Box, was: Place, now: Place, types: Mapping[str, AttributeType]) -> bool:
    keys, ranges = box
    if not ranges or any(was[name] != text or now[name] != text for name, text in keys.items()):
        return False
    if any(was[name] is None or now[name] is None for name in ranges):
        return False
    if any(max(was[name], now[name]) < a or min(was[name], now[name]) > b for name, (a, b) in ranges.items()):
        return False
    if len(ranges) == 1:
        [(name, (first, last))] = ranges.items()
        return bool(min(was[name], now[name]) < first and last < max(was[name], now[name]))
    return _line_meets(ranges, was, now, types)


def _line_meets(ranges: dict[str, tuple[int, int]], was: Place, now: Place, types: Mapping[str, AttributeType]) -> bool:
    """By trying every place of the line where something changes, and one between each two."""
    line, bounds, shares = {}, {}, {Fraction(0), Fraction(1)}
    for name, (first, last) in ranges.items():
        here, there = (_number(place[name], types[name]) for place in (was, now))
        if here is None or there is None:
            return False
        smallest, largest = types[name].limits
        low = None if first <= smallest else _number(first, types[name])
        high = None if last >= largest else _number(last + 1, types[name])
        line[name], bounds[name] = (here, there - here), (low, high)
        shares |= {(end - here) / (there - here) for end in (low, high) if end is not None and there != here}
    tried = sorted(share for share in shares if 0 <= share <= 1)
    tried += [(one + other) / 2 for one, other in pairwise(tried)]
    return any(
        all(
            (low is None or low <= start + share * step) and (high is None or start + share * step < high)
            for (start, step), (low, high) in ((line[name], bounds[name]) for name in ranges)
        )
        for share in tried
    )


def _number(ordinal: int, kind: AttributeType) -> Fraction | None:
    """What an ordinal stands for; None for an infinite value."""
    if kind.kind != "double":
        return Fraction(ordinal)
    bits = ordinal if ordinal >= 0 else -ordinal | 1 << 63
    number = struct.unpack("<d", struct.pack("<Q", bits))[0]
    return Fraction(number) if abs(number) < float("inf") else None
