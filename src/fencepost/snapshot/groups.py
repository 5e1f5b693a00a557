"""One group of a snapshot: boxes over the same columns, behind two questions: which match, and why this structure."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.indexes import Borders, Crossings, SliceList
from fencepost.indexes.answers import drop_outside
from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.ordinals import AttributeType
from fencepost.snapshot.columns import BoxSet
from fencepost.snapshot.keys import KeyColumn, KeyCombination

__all__ = ["Batch", "Group"]

_SAMPLED = 4096


class Batch(NamedTuple):
    """Rows as ordinals and key codes, ready for any group."""

    rows: int
    ordinals: dict[str, Int64s]
    valid: dict[str, Bools | None]
    """Which rows have a value; None where all do."""
    keys: dict[str, Int64s]
    """Key codes: -1 for null, -2 for a string that no rule mentions."""


class Group:
    """Boxes over the same key columns and attributes.

    The most selective attribute is indexed, keyed by the combination of all keys; the further attributes are compared
    for the boxes it finds. A group without attributes indexes a constant.
    """

    def __init__(
        self,
        keys: tuple[str, ...],
        attributes: tuple[str, ...],
        axis: int,
        index: SliceList,
        combination: KeyCombination,
        rules: Int64s,
        firsts: Int64s,
        lasts: Int64s,
        expected: float,
    ) -> None:
        self.keys, self.attributes, self.axis = keys, attributes, axis
        self.index, self.combination = index, combination
        self.rules = rules
        """The rule of each box, ascending."""
        self.firsts, self.lasts = firsts, lasts
        """Ranges of the further attributes, a column each."""
        self.expected = expected
        """Boxes that one value of the indexed attribute is expected to find, per key."""

    @classmethod
    def build(cls, boxes: BoxSet, columns: Mapping[str, KeyColumn], types: Mapping[str, AttributeType]) -> "Group":
        """Choose the attribute to index, and index it."""
        if (boxes.rules[1:] < boxes.rules[:-1]).any():
            order = np.argsort(boxes.rules, kind="stable")
            strings = tuple(values.take(pa.array(order)) for values in boxes.key_values)
            boxes = boxes._replace(
                rules=boxes.rules[order], key_values=strings, firsts=boxes.firsts[order], lasts=boxes.lasts[order]
            )
        count = len(boxes.rules)
        codes = [columns[name].codes(values) for name, values in zip(boxes.keys, boxes.key_values, strict=True)]
        sizes = [len(columns[name]) for name in boxes.keys]
        combination, groups = KeyCombination.of(codes, sizes) if codes else (KeyCombination([], []), None)
        spread = [_expected_hits(boxes.firsts[:, a], boxes.lasts[:, a]) for a in range(len(boxes.attributes))]
        axis = int(np.argmin(spread)) if spread else 0
        further = [a for a in range(len(boxes.attributes)) if a != axis]
        is_float = bool(spread) and types[boxes.attributes[axis]].kind == "double"
        index = SliceList("float64" if is_float else "int64")
        firsts = np.ascontiguousarray(boxes.firsts[:, axis]) if spread else np.zeros(count, np.int64)
        lasts = np.ascontiguousarray(boxes.lasts[:, axis]) if spread else np.zeros(count, np.int64)
        index.insert_ordinals(np.arange(count), firsts, lasts, groups)
        return cls(
            boxes.keys,
            boxes.attributes,
            axis,
            index,
            combination,
            boxes.rules,
            np.ascontiguousarray(boxes.firsts[:, further]),
            np.ascontiguousarray(boxes.lasts[:, further]),
            spread[axis] if spread else float(count),
        )

    def _asked(self, batch: Batch) -> tuple[Int64s, Bools | None, Int64s | None]:
        """What the index is asked for each row: an ordinal, whether it is missing, and the combined key."""
        groups = self.combination.codes([batch.keys[name] for name in self.keys]) if self.keys else None
        if not self.attributes:
            return np.zeros(batch.rows, np.int64), None, groups
        name = self.attributes[self.axis]
        valid = batch.valid[name]
        return batch.ordinals[name], None if valid is None else ~valid, groups

    def match(self, batch: Batch) -> tuple[Int64s, UInt32s]:
        """For each row the boxes that hold: offsets and box numbers."""
        found = self.index.stab_ordinals(*self._asked(batch), slots=True)
        offsets, boxes = found.offsets, found.ids
        further = [name for a, name in enumerate(self.attributes) if a != self.axis]
        if further and len(boxes):
            values = np.stack([batch.ordinals[name] for name in further], axis=1)
            valid_columns = [_mask(batch.valid[name], batch.rows) for name in further]
            drop_outside(offsets, boxes, self.firsts, self.lasts, values, np.stack(valid_columns, axis=1))
            boxes = boxes[: offsets[-1]]
        return offsets, boxes

    @cached_property
    def _borders(self) -> Borders:
        """The boxes by their borders, numbered as here; built when moves are first asked about."""
        assert len(self.attributes) < 2, "further attributes have borders, too"
        borders = Borders(values=self.index.values)
        held = self.index.contents()
        borders.insert_ordinals(held.ids, held.firsts, held.lasts, held.groups if self.keys else None)
        return borders

    def crossings(self, batch: Batch, before: Int64s, after: Int64s) -> Crossings:
        """The boxes that each move between rows of the batch enters and leaves, by number.

        Only for groups over at most one attribute, and moves that do not lose its value.

        Args:
            batch: where moves start and end.
            before: the row each starts at, or -1 if it has no start.
            after: the row each ends at.
        """
        ordinals, missing, groups = self._asked(batch)
        nowhere = before < 0
        absent = None
        if missing is not None:
            nowhere |= missing[before]
            absent = missing[after]
        return self._borders.crossings_ordinals(
            ordinals[before],
            ordinals[after],
            nowhere if nowhere.any() else None,
            None if groups is None else groups[before],
            None if groups is None else groups[after],
            absent,
            cross=False,
            slots=True,
        )

    def boxes_of(self, rule: int) -> list[int]:
        """The boxes of one rule."""
        first, last = np.searchsorted(self.rules, [rule, rule + 1]).tolist()
        return list(range(first, last))

    def ranges(self, box: int) -> dict[str, tuple[int, int]]:
        """The ordinal ranges of one box, by attribute."""
        further = iter(range(self.firsts.shape[1]))
        found = {}
        for a, name in enumerate(self.attributes):
            if a == self.axis:
                found[name] = self.index.ordinals(box)
            else:
                column = next(further)
                found[name] = int(self.firsts[box, column]), int(self.lasts[box, column])
        return found

    def key_codes(self, box: int) -> list[int]:
        """The codes that one box asks for, a key column each."""
        if not self.keys:
            return []
        combined = self.index.group_of(box)
        assert combined is not None, "a group with keys indexes every box under a key"
        return [int(column[0]) for column in self.combination.apart(np.array([combined]))]

    def taken(self, boxes: Int64s, columns: Mapping[str, KeyColumn]) -> BoxSet:
        """Chosen boxes as they were before they were indexed."""
        held = self.index.contents()  # ids are 0, 1, ..., so that places are boxes
        firsts = np.empty((len(boxes), len(self.attributes)), np.int64)
        lasts = np.empty_like(firsts)
        further = 0
        for a in range(len(self.attributes)):
            if a == self.axis:
                firsts[:, a], lasts[:, a] = held.firsts[boxes], held.lasts[boxes]
            else:
                firsts[:, a], lasts[:, a] = self.firsts[boxes, further], self.lasts[boxes, further]
                further += 1
        codes = self.combination.apart(held.groups[boxes]) if self.keys else []
        strings = tuple(columns[name].strings(code) for name, code in zip(self.keys, codes, strict=True))
        return BoxSet(self.keys, self.attributes, self.rules[boxes], strings, firsts, lasts)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.rules, self.firsts, self.lasts, *self.combination.steps)
        return self.index.storage().nbytes + sum(array.nbytes for array in arrays)

    def explained(self) -> str:
        """Which structure serves the group, and why."""
        if not self.attributes:
            return "SliceList over the keys alone" if self.keys else "SliceList of one point: always holds"
        name = self.attributes[self.axis]
        if len(self.attributes) == 1:
            return f"SliceList over {name}: its only range"
        return (
            f"SliceList over {name}, its most selective range (about {self.expected:,.1f} boxes per value); "
            f"{', '.join(a for a in self.attributes if a != name)} compared"
        )

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything the group is, as flat arrays."""
        arrays = {f"index.{name}": array for name, array in self.index.to_arrays().items()}
        arrays |= {"rules": self.rules, "firsts": self.firsts, "lasts": self.lasts}
        return arrays | {f"step{i}": step for i, step in enumerate(self.combination.steps)}

    def described(self) -> dict[str, Any]:
        """What the arrays do not say, for a header."""
        return {
            "keys": list(self.keys),
            "attributes": list(self.attributes),
            "axis": self.axis,
            "sizes": self.combination.sizes,
            "expected": self.expected,
        }

    @classmethod
    def from_arrays(cls, described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "Group":
        """The group that `to_arrays` and `described` tell of."""
        prefix = "index."
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        steps = [arrays[f"step{i}"] for i in range(max(0, len(described["sizes"]) - 1))]
        return cls(
            tuple(described["keys"]),
            tuple(described["attributes"]),
            described["axis"],
            SliceList.from_arrays(own),
            KeyCombination(described["sizes"], steps),
            arrays["rules"],
            arrays["firsts"],
            arrays["lasts"],
            described["expected"],
        )


def _mask(valid: Bools | None, rows: int) -> Bools:
    return np.ones(rows, np.bool_) if valid is None else valid


def _expected_hits(firsts: Int64s, lasts: Int64s) -> float:
    """Mean number of ranges that hold an end of a range: ranks in a sample, scaled up."""
    step = max(1, len(firsts) // _SAMPLED)
    starts, ends = np.sort(firsts[::step]), np.sort(lasts[::step])
    probes = np.concatenate([starts, ends])
    inside = np.searchsorted(starts, probes, "right") - np.searchsorted(ends, probes, "left")
    return float(inside.mean()) * step if len(inside) else 0.0
