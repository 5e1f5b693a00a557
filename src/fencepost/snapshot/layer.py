"""One layer of a snapshot: rules that were compiled together and are shared by every version that has them."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.indexes.arrays import Int64s
from fencepost.ordinals import AttributeType
from fencepost.snapshot import store
from fencepost.snapshot.columns import BandColumns, BoxSet, RuleColumns
from fencepost.snapshot.groups import Group
from fencepost.snapshot.keys import KeyColumn

__all__ = ["Home", "Layer", "joined_bands", "joined_boxes", "joined_rules", "taken_bands"]


_REPAID = 4
"""Finding the border of a box costs about as much as this many moves save."""


class Home(NamedTuple):
    """Where a layer is saved."""

    path: Path
    """The directory of a snapshot."""
    number: int
    """Which of its layers it is."""
    digest: str
    """Of the snapshot."""


class Layer:
    """Rules with their boxes, indexed once and never changed.

    Key columns continue those of the layers below, so that one encoded row serves all layers.

    Args:
        rules: a row per rule.
        groups: their boxes.
        columns: every key column of this layer and of those below it.
        own_keys: the columns whose last table of strings this layer brought.
        bands: band rules.
        dropped: by rule id, branches that can never hold.
    """

    def __init__(
        self,
        rules: RuleColumns,
        groups: Sequence[Group],
        columns: Mapping[str, KeyColumn],
        own_keys: Sequence[str],
        bands: BandColumns | None,
        dropped: Mapping[int, tuple[str, ...]],
    ) -> None:
        self.rules = rules
        self.groups = tuple(groups)
        self.columns = dict(columns)
        self.own_keys = tuple(own_keys)
        self.bands = bands
        self.dropped = dict(dropped)
        self.home: Home | None = None
        """Where the layer is saved; None if it never was."""
        self._moves = 0

    @classmethod
    def build(
        cls,
        rules: RuleColumns,
        boxes: Sequence[BoxSet],
        types: Mapping[str, AttributeType],
        below: Mapping[str, KeyColumn],
        bands: BandColumns | None,
        dropped: Mapping[int, tuple[str, ...]],
    ) -> "Layer":
        """Index bound rules on top of the key columns below."""
        columns, own_keys = dict(below), []
        for name in sorted({name for each in boxes for name in each.keys}):
            used = [each.key_values[each.keys.index(name)] for each in boxes if name in each.keys]
            strings = pa.concat_arrays([array.cast(pa.large_string()) for array in used])
            before = columns.get(name, KeyColumn(name, ()))
            extended = before.extended(strings)
            if len(extended) > len(before) or name not in columns:
                columns[name] = extended
                own_keys.append(name)
        groups = [Group.build(box_set, columns, types) for box_set in boxes if len(box_set.rules)]
        return cls(rules, groups, columns, own_keys, bands, dropped)

    def __len__(self) -> int:
        return len(self.rules.ids)

    def repays_borders(self, moves: int) -> bool:
        """Whether so many moves, with those asked about before, are worth finding the borders of all boxes."""
        self._moves += moves
        return self._moves * _REPAID >= len(self)

    @property
    def identity(self) -> Hashable:
        """Equal for layers that are the same, wherever they were loaded."""
        return id(self) if self.home is None else self.home

    @cached_property
    def has_rules_of_several_boxes(self) -> bool:
        """Whether some rule may come up twice in one answer."""
        counts = np.bincount(np.concatenate([np.zeros(0, np.int64), *(group.rules for group in self.groups)]))
        return bool((counts > 1).any())

    @cached_property
    def _by_id(self) -> tuple[Int64s, Int64s]:
        """The ids in order, and the row of each."""
        order = np.argsort(self.rules.ids, kind="stable")
        return self.rules.ids[order], order

    def rows_of(self, ids: Int64s) -> Int64s:
        """The row of each rule, or -1."""
        ordered, order = self._by_id
        if not len(ordered):
            return np.full(len(ids), -1, np.int64)
        places = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        return np.where(ordered[places] == ids, order[places], -1)

    def taken(self, rows: Int64s) -> RuleColumns:
        """The rules in these rows."""
        chosen = pa.array(rows)
        return RuleColumns(*(each[rows] if isinstance(each, np.ndarray) else each.take(chosen) for each in self.rules))

    def boxes(self, rows: Int64s) -> list[BoxSet]:
        """The boxes of the rules in these ascending rows, which are numbered 0, 1, ... in them."""
        numbers = np.full(len(self), -1, np.int64)
        numbers[rows] = np.arange(len(rows))
        found = []
        for group in self.groups:
            boxes = np.flatnonzero(numbers[group.rules] >= 0)
            if len(boxes):
                taken = group.taken(boxes, self.columns)
                found.append(taken._replace(rules=numbers[taken.rules]))
        return found

    def bands_of(self, rows: Int64s) -> BandColumns | None:
        """The bands of the rules in these ascending rows, likewise."""
        if self.bands is None:
            return None
        numbers = np.full(len(self), -1, np.int64)
        numbers[rows] = np.arange(len(rows))
        taken = taken_bands(self.bands, np.flatnonzero(numbers[self.bands.rules] >= 0))
        return None if taken is None else taken._replace(rules=numbers[taken.rules])

    # -- keeping it -------------------------------------------------------------------------------------

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Everything the layer is, without the strings of the layers below: flat arrays, and Arrow strings."""
        arrays: dict[str, Any] = {}
        for name in self.own_keys:
            own = self.columns[name].tables[-1]
            arrays |= {f"key.{name}.{field}": array for field, array in own._asdict().items()}
        for number, group in enumerate(self.groups):
            arrays |= {f"group{number}.{name}": array for name, array in group.to_arrays().items()}
        for field in ("ids", "versions", "detects", "initial", "expires"):
            arrays[f"rules.{field}"] = getattr(self.rules, field)
        texts = {"rules.conditions": self.rules.conditions, "rules.labels": self.rules.labels}
        if self.bands is not None:
            for field, values in self.bands._asdict().items():
                (texts if isinstance(values, pa.Array) else arrays)[f"bands.{field}"] = values
        return arrays, texts

    def described(self) -> dict[str, Any]:
        """What the arrays do not say, for a header."""
        return {
            "keys": list(self.own_keys),
            "groups": [group.described() for group in self.groups],
            "dropped": {str(id): list(reasons) for id, reasons in self.dropped.items()},
            "bands": self.bands is not None,
        }

    @classmethod
    def from_arrays(
        cls,
        described: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        texts: Mapping[str, Any],
        below: Mapping[str, KeyColumn],
    ) -> "Layer":
        """The layer that `to_arrays` and `described` tell of."""
        columns = dict(below)
        for name in described["keys"]:
            tables = columns[name].tables if name in columns else ()
            columns[name] = KeyColumn(name, (*tables, store.string_table_from(arrays, f"key.{name}.")))
        groups = [
            Group.from_arrays(each, store.with_prefix(arrays, f"group{number}."))
            for number, each in enumerate(described["groups"])
        ]
        rules = RuleColumns(**store.with_prefix(arrays, "rules."), **store.with_prefix(texts, "rules."))
        bands = None
        if described["bands"]:
            bands = BandColumns(**store.with_prefix(arrays, "bands."), **store.with_prefix(texts, "bands."))
        dropped = {int(id): tuple(reasons) for id, reasons in described["dropped"].items()}
        return cls(rules, groups, columns, described["keys"], bands, dropped)


def joined_rules(parts: Sequence[RuleColumns]) -> RuleColumns:
    """The rules of all parts; texts stay in chunks, nothing of them is copied."""
    if len(parts) == 1:
        return parts[0]
    return RuleColumns(
        *(
            np.concatenate(columns) if isinstance(columns[0], np.ndarray) else pa.chunked_array(columns)
            for columns in zip(*parts, strict=True)
        )
    )


def joined_boxes(parts: Sequence[tuple[int, Sequence[BoxSet]]]) -> list[BoxSet]:
    """The boxes of several sets of rules, each with the row that its own rows are counted from."""
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[BoxSet]] = {}
    for start, sets in parts:
        for each in sets:
            moved = each._replace(rules=each.rules + start)
            together.setdefault((each.keys, each.attributes), []).append(moved)
    return [
        BoxSet(
            keys,
            attributes,
            np.concatenate([each.rules for each in sets]),
            tuple(
                pa.concat_arrays([each.key_values[place].cast(pa.large_string()) for each in sets])
                for place in range(len(keys))
            ),
            np.concatenate([each.firsts for each in sets]),
            np.concatenate([each.lasts for each in sets]),
        )
        for (keys, attributes), sets in together.items()
    ]


def taken_bands(bands: BandColumns, chosen: Int64s) -> BandColumns | None:
    """The chosen bands; None if none are."""
    if not len(chosen):
        return None
    texts = pa.array(chosen)
    return BandColumns(*(each.take(texts) if isinstance(each, pa.Array) else each[chosen] for each in bands))


def joined_bands(parts: Sequence[tuple[int, BandColumns | None]]) -> BandColumns | None:
    """The bands of several sets of rules, likewise."""
    there = [bands._replace(rules=bands.rules + start) for start, bands in parts if bands is not None]
    if len(there) < 2:
        return there[0] if there else None
    return BandColumns(
        *(
            pa.concat_arrays(columns) if isinstance(columns[0], pa.Array) else np.concatenate(columns)
            for columns in zip(*there, strict=True)
        )
    )
