"""One layer of a snapshot: rules that were compiled together and are shared by every version that has them."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost._arrow import text_array
from fencepost._files.storage import Place
from fencepost.computed import Computed
from fencepost.computed.attributes import from_json, to_json
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.ordinals import AttributeType
from fencepost.snapshot import store
from fencepost.snapshot.bounds import join_bounds
from fencepost.snapshot.columns import BandColumns, BoxSet, CompiledColumns, DampingColumns, RuleColumns
from fencepost.snapshot.damping import join_damping, take_damping
from fencepost.snapshot.group import Group
from fencepost.snapshot.keys import KeyColumn
from fencepost.snapshot.labels import LabelMaps
from fencepost.snapshot.names import NameIndex

_BORDERS_PER_MOVE = 4
"""Borders are made once moves number a quarter of the rules: a move saves about what the borders of four boxes cost."""


class Home(NamedTuple):
    """Where a layer is saved."""

    path: Place
    """The directory of a snapshot."""
    number: int
    """Which of its layers it is."""
    digest: str
    """Of the snapshot."""


class Layer:
    """Rules with their boxes, indexed once and never changed.

    Key columns continue those of the layers below, so that one encoded row serves all layers.

    `columns` are the key columns of this layer and of those below it; `own_keys` those whose last table of strings this
    layer brought. `stay` has the rules that are left by other borders than they are entered by, with their outer boxes:
    a layer of its own, on the key columns of the `stay` layers below.
    """

    def __init__(
        self,
        rules: RuleColumns,
        groups: Sequence[Group],
        columns: Mapping[str, KeyColumn],
        own_keys: Sequence[str],
        bands: BandColumns | None,
        dropped: Mapping[int, tuple[str, ...]],
        damping: DampingColumns | None = None,
        stay: "Layer | None" = None,
        computed: Mapping[str, Computed] = MappingProxyType({}),
    ) -> None:
        self.rules = rules
        self.groups = tuple(groups)
        self.columns = dict(columns)
        self.own_keys = tuple(own_keys)
        self.bands = bands
        self.dropped = dict(dropped)
        self.damping = damping
        self.stay = stay
        self.computed = dict(computed)
        """The attributes of groups that are no columns, by name."""
        self.home: Home | None = None
        """Where the layer is saved; None if it never was."""
        self._moves = 0

    @classmethod
    def build(cls, given: CompiledColumns, below: Sequence["Layer"] = ()) -> "Layer":
        """Index bound rules on top of the layers below."""
        columns, own_keys = dict(_key_columns(below)), []
        for name in given.keys:
            used = [each.key_values[each.keys.index(name)] for each in given.boxes if name in each.keys]
            nothing = text_array([])  # all that there is of a column of `stay` alone
            strings = pa.concat_arrays([nothing, *(array.cast(pa.large_string()) for array in used)])
            before = columns.get(name, KeyColumn(name, ()))
            extended = before.extended(strings)
            if len(extended) > len(before) or name not in columns:
                columns[name] = extended
                own_keys.append(name)
        types = {**given.types, **{name: each.type for name, each in given.computed.items()}}
        groups = [Group.build(boxes, columns, types) for boxes in given.boxes if len(boxes.rules)]
        stay = None if given.stay is None else cls.build(given.stay, stays_of(below))
        rest = (given.bands, given.dropped, given.damping, stay, given.computed)
        return cls(given.rules, groups, columns, own_keys, *rest)

    def __len__(self) -> int:
        return len(self.rules.ids)

    def repays_borders(self, moves: int) -> bool:
        """Whether so many moves, with those asked about before, are worth finding the borders of all boxes."""
        self._moves += moves
        return self._moves * _BORDERS_PER_MOVE >= len(self)

    @property
    def identity(self) -> Hashable:
        """Equal for layers that are the same, wherever they were loaded."""
        return id(self) if self.home is None else self.home

    @cached_property
    def have_several_boxes(self) -> Bools:
        """Which rules may come up twice in one answer."""
        rules = np.concatenate([np.zeros(0, np.int64), *(group.rules for group in self.groups)])
        several: Bools = np.bincount(rules, minlength=len(self)) > 1
        return several

    @cached_property
    def has_rules_of_several_boxes(self) -> bool:
        """Whether there are such rules."""
        return bool(self.have_several_boxes.any())

    @cached_property
    def _by_id(self) -> tuple[Int64s, Int64s]:
        """The ids in order, and the row of each."""
        order = np.argsort(self.rules.ids, kind="stable")
        return self.rules.ids[order], order

    @cached_property
    def _by_name(self) -> NameIndex:
        return NameIndex(self.rules.names)

    @cached_property
    def label_maps(self) -> LabelMaps:
        """The labels of rules, for events."""
        return LabelMaps(self.rules.labels)

    def rows_named(self, names: Any) -> Int64s:
        """The row of the rule with each of these names, or -1."""
        return self._by_name.rows_of(names)

    def rows_of(self, ids: Int64s) -> Int64s:
        """The row of each rule, or -1."""
        ordered, order = self._by_id
        if not len(ordered):
            return np.full(len(ids), -1, np.int64)
        places = np.minimum(np.searchsorted(ordered, ids), len(ordered) - 1)
        return np.where(ordered[places] == ids, order[places], -1)

    def take(self, rows: Int64s, types: Mapping[str, AttributeType]) -> CompiledColumns:
        """The rules in these ascending rows, numbered anew from 0, as they were before they were indexed."""
        chosen = pa.array(rows)
        rules = RuleColumns(*(each[rows] if isinstance(each, np.ndarray) else each.take(chosen) for each in self.rules))
        numbers = np.full(len(self), -1, np.int64)
        numbers[rows] = np.arange(len(rows))
        sets = []
        for group in self.groups:
            boxes = np.flatnonzero(numbers[group.rules] >= 0)
            if len(boxes):
                chosen_boxes = group.take(boxes, self.columns)
                sets.append(chosen_boxes._replace(rules=numbers[chosen_boxes.rules]))
        bands = None
        if self.bands is not None:
            bands = take_bands(self.bands, np.flatnonzero(numbers[self.bands.rules] >= 0))
            bands = None if bands is None else bands._replace(rules=numbers[bands.rules])
        here = set(self.dropped).intersection(rules.ids.tolist()) if self.dropped else ()
        damping = None if self.damping is None else take_damping(self.damping, numbers)
        stay = None
        if self.stay is not None:
            stay_rows = np.sort(self.stay.rows_of(rules.ids))
            stay_rows = stay_rows[stay_rows >= 0]
            stay = self.stay.take(stay_rows, types) if len(stay_rows) else None
        dropped, used = {id: self.dropped[id] for id in here}, {name for each in sets for name in each.attributes}
        computed = {name: each for name, each in self.computed.items() if name in used}
        return CompiledColumns(rules, sets, dict(types), bands, dropped, damping, stay, computed)

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
        if self.rules.names.null_count < len(self):  # most often there are none
            texts["rules.names"] = self.rules.names
        if self.bands is not None:
            for field, values in self.bands._asdict().items():
                (texts if isinstance(values, pa.Array) else arrays)[f"bands.{field}"] = values
            if not self.has_sides:
                del texts["bands.sides"]
        if self.damping is not None:
            for field, values in self.damping._asdict().items():
                (texts if isinstance(values, pa.Array) else arrays)[f"damping.{field}"] = values
        for number, each in enumerate(self.computed.values()):
            if each.bounds is not None:
                texts[f"bounds{number}"] = each.bounds.strings
        if self.stay is not None:
            for part, whole in zip(self.stay.to_arrays(), (arrays, texts), strict=True):
                whole.update({f"stay.{name}": values for name, values in part.items()})
        return arrays, texts

    def described(self) -> dict[str, Any]:
        """What the arrays do not say, for a header."""
        return {
            "keys": list(self.own_keys),
            "groups": [group.described() for group in self.groups],
            "dropped": {str(id): list(reasons) for id, reasons in self.dropped.items()},
            "bands": self.bands is not None,
            **({"sides": True} if self.has_sides else {}),
            **({} if self.damping is None else {"damping": True}),
            **({} if self.stay is None else {"stay": self.stay.described()}),
            **({"computed": to_json(self.computed)} if self.computed else {}),
        }

    @cached_property
    def has_sides(self) -> bool:
        """Whether a band has an expression, or a condition of one side."""
        return self.bands is not None and self.bands.sides.null_count < len(self.bands.sides)

    def note_home(self, home: Home) -> None:
        """Remember where the layer is saved, and that part of it which `stay` is."""
        self.home = home
        if self.stay is not None:
            self.stay.note_home(home)

    @classmethod
    def stored(cls, holder: store.Stored, home: Home, below: Sequence["Layer"]) -> "Layer":
        """The layer that is at home in what a directory holds, on top of the layers below."""
        layer = cls.unpacked(holder, home.number, below)
        layer.note_home(home)
        return layer

    @classmethod
    def unpacked(cls, holder: store.Stored, number: int, below: Sequence["Layer"]) -> "Layer":
        """One of the layers in what a directory, or bytes, hold, on top of the layers below."""
        prefix = f"layer{number}."
        arrays, texts = (store.with_prefix(items, prefix) for items in (holder.arrays, holder.texts))
        return cls.from_arrays(holder.header["layers"][number], arrays, texts, below)

    @classmethod
    def from_arrays(
        cls,
        described: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        texts: Mapping[str, Any],
        below: Sequence["Layer"],
    ) -> "Layer":
        """The layer that `to_arrays` and `described` wrote."""
        columns = dict(_key_columns(below))
        for name in described["keys"]:
            tables = columns[name].tables if name in columns else ()
            columns[name] = KeyColumn(name, (*tables, store.string_table_from(arrays, f"key.{name}.")))
        groups = [
            Group.from_arrays(each, store.with_prefix(arrays, f"group{number}."))
            for number, each in enumerate(described["groups"])
        ]
        columns_of_rules = store.with_prefix(arrays, "rules.") | store.with_prefix(texts, "rules.")
        if "names" not in columns_of_rules:
            columns_of_rules["names"] = pa.nulls(len(columns_of_rules["ids"]), pa.large_string())
        rules = RuleColumns(**columns_of_rules)
        bands = None
        if described["bands"]:
            own = store.with_prefix(arrays, "bands.") | store.with_prefix(texts, "bands.")
            bands = BandColumns(**{"sides": pa.nulls(len(own["rules"]), pa.large_string()), **own})
        dropped = {int(id): tuple(reasons) for id, reasons in described["dropped"].items()}
        damping, stay = None, None
        if "damping" in described:
            damping = DampingColumns(**store.with_prefix(arrays, "damping."), **store.with_prefix(texts, "damping."))
        if "stay" in described:
            own_arrays, own_texts = (store.with_prefix(items, "stay.") for items in (arrays, texts))
            stay = cls.from_arrays(described["stay"], own_arrays, own_texts, stays_of(below))
        computed: dict[str, Computed] = {}
        if "computed" in described:
            own = described["computed"]
            bounds = {name: texts[f"bounds{number}"] for number, name in enumerate(own) if f"bounds{number}" in texts}
            computed = from_json(own, bounds)
        return cls(rules, groups, columns, described["keys"], bands, dropped, damping, stay, computed)


def _key_columns(below: Sequence[Layer]) -> Mapping[str, KeyColumn]:
    return below[-1].columns if below else {}


def stays_of(layers: Sequence[Layer]) -> list[Layer]:
    """The `stay` of those layers that have one."""
    return [layer.stay for layer in layers if layer.stay is not None]


def join_rules(parts: Sequence[RuleColumns]) -> RuleColumns:
    """The rules of all parts; texts stay in chunks, nothing of them is copied."""
    if len(parts) == 1:
        return parts[0]
    return RuleColumns(
        *(
            np.concatenate(columns) if isinstance(columns[0], np.ndarray) else pa.chunked_array(columns)
            for columns in zip(*parts, strict=True)
        )
    )


def join_columns(parts: Sequence[CompiledColumns], types: Mapping[str, AttributeType]) -> CompiledColumns:
    """The rules of all parts, in their order."""
    starts = np.cumsum([0, *(len(part.rules.ids) for part in parts)]).tolist()
    if any(part.computed for part in parts):
        parts = join_bounds(parts)
    computed = {name: each for part in parts for name, each in part.computed.items()}
    rules = join_rules([part.rules for part in parts])
    if len(parts) > 1:
        rules = RuleColumns(*(each if isinstance(each, np.ndarray) else each.combine_chunks() for each in rules))
    boxes = _join_boxes([(start, part.boxes) for start, part in zip(starts, parts, strict=False)])
    bands = join_bands([(start, part.bands) for start, part in zip(starts, parts, strict=False)])
    dropped = {id: reasons for part in parts for id, reasons in part.dropped.items()}
    damping = join_damping([(start, part.damping) for start, part in zip(starts, parts, strict=False)])
    stays = [part.stay for part in parts if part.stay is not None]
    stay = join_columns(stays, types) if stays else None
    return CompiledColumns(rules, boxes, dict(types), bands, dropped, damping, stay, computed)


def _join_boxes(parts: Sequence[tuple[int, Sequence[BoxSet]]]) -> list[BoxSet]:
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


def take_bands(bands: BandColumns, chosen: Int64s) -> BandColumns | None:
    """The chosen bands; None if none are."""
    if not len(chosen):
        return None
    texts = pa.array(chosen)
    return BandColumns(*(each.take(texts) if isinstance(each, pa.Array) else each[chosen] for each in bands))


def join_bands(parts: Sequence[tuple[int, BandColumns | None]]) -> BandColumns | None:
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
