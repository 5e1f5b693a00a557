"""Boxes on their way into a snapshot: collected one by one or as arrays, by the columns that they constrain."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost._arrow import array_of
from fencepost.computed import Bounds, Computed, Term, computed_id
from fencepost.computed.bounds import encode_ends
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.language import BoundBox
from fencepost.ordinals import AttributeType, ColumnType
from fencepost.snapshot.columns import BoxSet

Signature = tuple[tuple[str, ...], tuple[str, ...], tuple[Term, ...]]
"""Key columns and attributes, sorted, and expressions that are ordered strings."""


class StringEnds(NamedTuple):
    """Ranges of ordered strings, one per box: Arrow strings, null where unbounded."""

    lower: Any
    upper: Any
    lower_closed: Bools
    upper_closed: Bools

    def take(self, chosen: Int64s) -> "StringEnds":
        """The chosen ones."""
        rows = pa.array(chosen)
        return StringEnds(
            self.lower.take(rows), self.upper.take(rows), self.lower_closed[chosen], self.upper_closed[chosen]
        )


class BoxGroup:
    """The boxes over one combination of columns, collected."""

    def __init__(self) -> None:
        self.rules: list[int] = []
        self.ordinals: list[int] = []
        self.keys: list[str] = []
        self.strings: list[tuple[str | None, str | None, bool, bool]] = []
        self.arrays: list[tuple[Int64s, tuple[Any, ...], Int64s, Int64s]] = []
        self.string_arrays: list[tuple[StringEnds, ...]] = []
        """Of each of the arrays, the ranges of ordered strings, where the group has such."""

    def add(self, row: int, box: BoundBox) -> None:
        """Adds one box of the rule in a row."""
        self.rules.append(row)
        for _, first, last in box.ranges:
            self.ordinals += (first, last)
        self.keys += [value for _, value in box.keys]
        for each in box.strings:
            self.strings.append(each[1:])

    def close(self, keys: int, attributes: int, strings: int) -> None:
        """Makes arrays of the boxes that were added one by one."""
        if not self.rules:
            return
        ordinals = np.array(self.ordinals, np.int64).reshape(len(self.rules), attributes, 2)
        values = tuple(array_of(self.keys[place::keys]) for place in range(keys))
        self.arrays = [*self.arrays, (np.array(self.rules, np.int64), values, ordinals[..., 0], ordinals[..., 1])]
        if strings:
            self.string_arrays = [
                *self.string_arrays,
                tuple(_ends(self.strings[place::strings]) for place in range(strings)),
            ]
        self.rules, self.ordinals, self.keys, self.strings = [], [], [], []

    def finished(
        self,
        keys: tuple[str, ...],
        attributes: tuple[str, ...],
        strings: tuple[Term, ...],
        bounds: Mapping[Term, Bounds],
    ) -> BoxSet:
        """All that were added, once they are closed."""
        arrays = self.arrays
        if len(arrays) == 1:
            rules, values, firsts, lasts = arrays[0]
        else:
            rules = np.concatenate([each[0] for each in arrays])
            values = tuple(_joined([each[1][place] for each in arrays]) for place in range(len(keys)))
            firsts, lasts = (np.concatenate([each[place] for each in arrays]) for place in (2, 3))
        if strings:
            own = [joined_ends([each[place] for each in self.string_arrays]) for place in range(len(strings))]
            low = [
                encode_ends(bounds[t], e.lower, e.lower_closed, is_lower=True)
                for t, e in zip(strings, own, strict=True)
            ]
            high = [
                encode_ends(bounds[t], e.upper, e.upper_closed, is_lower=False)
                for t, e in zip(strings, own, strict=True)
            ]
            names = [*attributes, *(computed_id(Computed(term, bounds[term])) for term in strings)]
            order = np.argsort(names)
            attributes = tuple(names[place] for place in order)
            firsts = np.column_stack([firsts, *low])[:, order]
            lasts = np.column_stack([lasts, *high])[:, order]
        return BoxSet(keys, attributes, rules, values, np.ascontiguousarray(firsts), np.ascontiguousarray(lasts))


class BoxGroups:
    """The boxes of many rules, by their columns."""

    def __init__(self) -> None:
        self._groups: dict[Signature, BoxGroup] = {}
        self.computed: dict[str, Computed] = {}
        """The computed attributes of the boxes; those of ordered strings once they are finished."""

    def at(self, keys: tuple[str, ...], attributes: tuple[str, ...], strings: tuple[Term, ...] = ()) -> BoxGroup:
        """The group of one combination of columns, which need not be there yet."""
        group = self._groups.get((keys, attributes, strings))
        if group is None:
            group = self._groups[keys, attributes, strings] = BoxGroup()
        return group

    def add(self, row: int, box: BoundBox) -> None:
        """Adds one box of the rule in a row."""
        ranges, keys, strings = box
        terms = tuple([each.term for each in strings]) if strings else ()
        self.at(tuple([name for name, _ in keys]), tuple([name for name, _, _ in ranges]), terms).add(row, box)

    def finished(self) -> list[BoxSet]:
        """A set per combination of columns."""
        for (keys, attributes, strings), group in self._groups.items():
            group.close(len(keys), len(attributes), len(strings))
        bounds = self._bounds()
        self.computed |= {computed_id(each): each for each in (Computed(*pair) for pair in bounds.items())}
        ordered = sorted(self._groups.items(), key=lambda each: (each[0][:2], [term.text for term in each[0][2]]))
        return [group.finished(*signature, bounds) for signature, group in ordered]

    def _bounds(self) -> dict[Term, Bounds]:
        """The bounds that all boxes together have of each expression."""
        found: dict[Term, list[Any]] = {}
        for (_, _, strings), group in self._groups.items():
            for place, term in enumerate(strings):
                for each in group.string_arrays:
                    found.setdefault(term, []).extend([each[place].lower, each[place].upper])
        return {term: Bounds.of(pa.concat_arrays(parts)) for term, parts in found.items()}


def types_of(
    boxes: Iterable[BoxSet], computed: Mapping[str, Computed], types: Mapping[str, ColumnType]
) -> dict[str, AttributeType]:
    """The types of the attributes that boxes have ranges of, and of those in their expressions."""
    found: dict[str, AttributeType] = {}
    for each in boxes:
        for name in each.attributes:
            used = computed[name].columns if name in computed else {name: types[name]}
            found |= {column: type_ for column, type_ in used.items() if isinstance(type_, AttributeType)}
    return found


def ranked_boxes(
    boxes: Iterable[BoundBox],
) -> "tuple[list[tuple[dict[str, str], dict[str, tuple[int, int]]]], dict[str, Computed]]":
    """The boxes of one rule with ordinals for strings, and the computed attributes of ordered strings."""
    boxes = list(boxes)
    if not any(box.strings for box in boxes):
        return [(dict(box.keys), {name: (first, last) for name, first, last in box.ranges}) for box in boxes], {}
    groups = BoxGroups()
    for row, box in enumerate(boxes):
        groups.add(row, box)
    found = []
    for each in groups.finished():
        for place in range(len(each.rules)):
            keys = {name: values[place].as_py() for name, values in zip(each.keys, each.key_values, strict=True)}
            ends = zip(each.firsts[place].tolist(), each.lasts[place].tolist(), strict=True)
            found.append((keys, dict(zip(each.attributes, ends, strict=True))))
    return found, groups.computed


def _ends(ranges: list[tuple[str | None, str | None, bool, bool]]) -> StringEnds:
    lower, upper, lower_closed, upper_closed = zip(*ranges, strict=True)
    text = pa.large_string()
    return StringEnds(pa.array(lower, text), pa.array(upper, text), np.array(lower_closed), np.array(upper_closed))


def joined_ends(parts: list[StringEnds]) -> StringEnds:
    """Several columns of ranges as one."""
    if len(parts) == 1:
        return parts[0]
    lower, upper, lower_closed, upper_closed = zip(*parts, strict=True)
    return StringEnds(
        pa.concat_arrays(lower), pa.concat_arrays(upper), np.concatenate(lower_closed), np.concatenate(upper_closed)
    )


def _joined(columns: list[Any]) -> Any:
    """Columns of keys as one."""
    plain = [each.dictionary_decode() if pa.types.is_dictionary(each.type) else each for each in columns]
    type_ = pa.large_string() if any(pa.types.is_large_string(each.type) for each in plain) else pa.string()
    return pa.concat_arrays([each.cast(type_) for each in plain])
