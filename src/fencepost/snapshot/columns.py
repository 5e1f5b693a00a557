"""Rules as a snapshot takes them: columns of arrays, bound to types, nothing left to parse."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.errors import FencepostError

if TYPE_CHECKING:  # whoever only stores rules needs no compiled code
    from collections.abc import Iterable, Mapping

    from fencepost.computed import Computed
    from fencepost.indexes.arrays import Bools, Float64s, Int64s, UInt8s
    from fencepost.ordinals import AttributeType

DETECTS = {"inside": 1, "enter": 2, "exit": 4, "cross": 8, "silent": 16}
"""What a rule can detect, as bits."""

NEVER = 2**63 - 1
"""The expiry of a rule without one."""


NO_UNIT, MICROSECONDS, UNITS, ROWS = range(4)
"""What lengths of damping are counted in: none, microseconds, the unit of the time column, rows of the object."""


class RuleColumns(NamedTuple):
    """One row per rule; rows are what boxes refer to."""

    ids: Int64s
    versions: Int64s
    """The rule's own revision: 1, 2, ..."""
    detects: UInt8s
    """Bits of `DETECTS`."""
    initial: Bools
    expires: Int64s
    """Microseconds since 1970 UTC, or `NEVER`."""
    conditions: Any
    """Arrow large_string: the text, or null where the rule came from a table."""
    labels: Any
    """Arrow large_string: a JSON object, or null."""
    names: Any
    """Arrow large_string, null where a rule has none."""


class BoxSet(NamedTuple):
    """Boxes that constrain the same columns: the unit a snapshot indexes."""

    keys: tuple[str, ...]
    """Key columns, sorted."""
    attributes: tuple[str, ...]
    """Range columns, sorted."""
    rules: Int64s
    """The row of `RuleColumns` each box belongs to; a rule may have boxes in several sets."""
    key_values: tuple[Any, ...]
    """Per key column an Arrow string (or dictionary) array, one value per box, no nulls."""
    firsts: Int64s
    """Inclusive ordinals, one row per box and one column per attribute."""
    lasts: Int64s


class BandColumns(NamedTuple):
    """Bands, one row each: kept in snapshots, answered by the band join."""

    rules: Int64s
    left: Any
    """Arrow large_string: the column of the left stream; likewise the others."""
    right: Any
    same: Any
    """Arrow large_string: a JSON list of pairs of a left and a right column that must be equal."""
    left_keys: Any
    """Arrow large_string: a JSON list of pairs of a left column and the string it must equal."""
    right_keys: Any
    lower: Float64s
    upper: Float64s
    lower_closed: Bools
    upper_closed: Bools
    sides: Any
    """Arrow large_string: what is computed or concerns one side, as `BandSides` has it; null where nothing is."""


class DampingColumns(NamedTuple):
    """Damped rules, a row each, ascending by `rules`."""

    rules: Int64s
    """The row of `RuleColumns`."""
    holds: Int64s
    """`for`: a number in the unit of the next column; likewise the others."""
    hold_units: UInt8s
    """`NO_UNIT`, `MICROSECONDS`, `UNITS` or `ROWS`."""
    keeps: Int64s
    keep_units: UInt8s
    cooldowns: Int64s
    cooldown_units: UInt8s
    limits: Int64s
    """0 for none."""
    everys: Int64s
    every_units: UInt8s
    texts: Any
    """Arrow large_string: the options as a JSON object."""

    def text_of(self, row: int) -> str | None:
        """The options of the rule in one row of `RuleColumns`; None where it is not damped."""
        place = int(self.rules.searchsorted(row))
        if place == len(self.rules) or self.rules[place] != row:
            return None
        text: str = self.texts[place].as_py()
        return text


def key_pairs(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs in one item of `same`, `left_keys` or `right_keys`."""
    return tuple((one, other) for one, other in json.loads(text))


class CompiledColumns(NamedTuple):
    """Rules as a snapshot takes them."""

    rules: RuleColumns
    boxes: list[BoxSet]
    """One per combination of columns."""
    types: dict[str, AttributeType]
    """The attributes that boxes and bands use, and those of `stay`, sorted by name."""
    bands: BandColumns | None
    dropped: dict[int, tuple[str, ...]]
    """By rule id, why branches of its condition were left out."""
    damping: DampingColumns | None = None
    stay: CompiledColumns | None = None
    """The rules that who is inside leaves by other borders: with the same ids and versions, and their outer boxes."""
    computed: Mapping[str, Computed] = MappingProxyType({})
    """The attributes of boxes that are no columns, by name."""

    @property
    def keys(self) -> list[str]:
        """The key columns that boxes use, those in expressions and those of `stay` included, sorted."""
        used = {name for each in self.boxes for name in each.keys}
        for each in self.computed.values():
            used |= {name for name, type_ in each.columns.items() if type_ == "key"}
        return sorted(used if self.stay is None else used.union(self.stay.keys))

    def with_versions(self, versions: Int64s) -> CompiledColumns:
        """The same rules in other versions."""
        stay = self.stay
        if stay is not None:
            order = self.rules.ids.argsort(kind="stable")
            places = order[self.rules.ids[order].searchsorted(stay.rules.ids)]
            stay = stay.with_versions(versions[places])
        return self._replace(rules=self.rules._replace(versions=versions), stay=stay)


def detect_flags(detect: str | Iterable[str]) -> int:
    """The bits of a list of detections.

    >>> detect_flags("enter,exit"), detect_names(6)
    (6, 'enter,exit')
    """
    names = [name.strip() for name in detect.split(",")] if isinstance(detect, str) else list(detect)
    wrong = [name for name in names if name not in DETECTS]
    if wrong or not names:
        raise FencepostError(
            f"detect={detect!r}", f"any of {', '.join(DETECTS)}, separated by commas", "Write for example 'enter,exit'."
        )
    return sum({DETECTS[name] for name in names})


def detect_names(flags: int) -> str:
    """The detections of these bits, in a fixed order."""
    return ",".join(name for name, bit in DETECTS.items() if flags & bit)
