"""Boxes on their way into a snapshot: collected one by one or as arrays, by the columns that they constrain."""

from typing import Any

import numpy as np
import pyarrow as pa

from fencepost.indexes.arrays import Int64s
from fencepost.language import BoundBox
from fencepost.snapshot.columns import BoxSet

Signature = tuple[tuple[str, ...], tuple[str, ...]]
"""Key columns and attributes, sorted."""


class BoxGroup:
    """The boxes over one combination of columns, collected."""

    def __init__(self) -> None:
        self.rules: list[int] = []
        self.ordinals: list[int] = []
        self.keys: list[str] = []
        self.arrays: list[tuple[Int64s, tuple[Any, ...], Int64s, Int64s]] = []

    def add(self, row: int, box: BoundBox) -> None:
        """Adds one box of the rule in a row."""
        self.rules.append(row)
        for _, first, last in box.ranges:
            self.ordinals += (first, last)
        self.keys += [value for _, value in box.keys]

    def finished(self, keys: tuple[str, ...], attributes: tuple[str, ...]) -> BoxSet:
        """All that were added."""
        arrays = self.arrays
        if self.rules:
            ordinals = np.array(self.ordinals, np.int64).reshape(len(self.rules), len(attributes), 2)
            values = tuple(pa.array(self.keys[place :: len(keys)], pa.string()) for place in range(len(keys)))
            arrays = [*arrays, (np.array(self.rules, np.int64), values, ordinals[..., 0], ordinals[..., 1])]
        if len(arrays) == 1:
            rules, values, firsts, lasts = arrays[0]
        else:
            rules = np.concatenate([each[0] for each in arrays])
            values = tuple(_joined([each[1][place] for each in arrays]) for place in range(len(keys)))
            firsts, lasts = (np.concatenate([each[place] for each in arrays]) for place in (2, 3))
        return BoxSet(keys, attributes, rules, values, np.ascontiguousarray(firsts), np.ascontiguousarray(lasts))


class BoxGroups:
    """The boxes of many rules, by their columns."""

    def __init__(self) -> None:
        self._groups: dict[Signature, BoxGroup] = {}

    def at(self, keys: tuple[str, ...], attributes: tuple[str, ...]) -> BoxGroup:
        """The group of one combination of columns, which need not be there yet."""
        group = self._groups.get((keys, attributes))
        if group is None:
            group = self._groups[keys, attributes] = BoxGroup()
        return group

    def add(self, row: int, box: BoundBox) -> None:
        """Adds one box of the rule in a row."""
        self.at(tuple(name for name, _ in box.keys), tuple(name for name, _, _ in box.ranges)).add(row, box)

    def finished(self) -> list[BoxSet]:
        """A set per combination of columns."""
        return [group.finished(*signature) for signature, group in sorted(self._groups.items())]


def _joined(columns: list[Any]) -> Any:
    """Columns of keys as one."""
    plain = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in columns]
    type_ = pa.large_string() if any(pa.types.is_large_string(each.type) for each in plain) else pa.string()
    return pa.concat_arrays([each.cast(type_) for each in plain])
