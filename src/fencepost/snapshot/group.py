"""One group of a snapshot: boxes over the same columns, behind two questions: which match, and why this structure."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.indexes.arrays import Bools, Int64s, UInt8s, UInt32s
from fencepost.ordinals import AttributeType
from fencepost.snapshot import structures
from fencepost.snapshot.columns import DETECTS, BoxSet
from fencepost.snapshot.jumps import Jumps, borders_of
from fencepost.snapshot.keys import KeyColumn, KeyCombination
from fencepost.snapshot.structures import Boxed, Ranges, Structure

if TYPE_CHECKING:
    from fencepost.indexes import Borders, Crossings

_NO_BOXES = np.zeros(0, np.int64)


class Batch(NamedTuple):
    """Rows as ordinals and key codes, ready for any group."""

    rows: int
    ordinals: dict[str, Int64s]
    valid: dict[str, Bools | None]
    """Which rows have a value; None where all do."""
    keys: dict[str, Int64s]
    """Key codes: -1 for null, -2 for a string that no rule mentions."""

    def take(self, chosen: Int64s) -> "Batch":
        """The chosen rows."""
        return Batch(
            len(chosen),
            {name: column[chosen] for name, column in self.ordinals.items()},
            {name: None if mask is None else mask[chosen] for name, mask in self.valid.items()},
            {name: column[chosen] for name, column in self.keys.items()},
        )

    def only(self, begin: int, end: int) -> "Batch":
        """A stretch of the rows, which shares their memory."""
        if end - begin == self.rows:
            return self
        return Batch(
            end - begin,
            {name: column[begin:end] for name, column in self.ordinals.items()},
            {name: None if mask is None else mask[begin:end] for name, mask in self.valid.items()},
            {name: column[begin:end] for name, column in self.keys.items()},
        )


class Group:
    """Boxes over the same key columns and attributes, indexed under the combination of all keys."""

    def __init__(
        self,
        keys: tuple[str, ...],
        attributes: tuple[str, ...],
        structure: Structure,
        combination: KeyCombination,
        rules: Int64s,
    ) -> None:
        self.keys, self.attributes = keys, attributes
        self.structure, self.combination = structure, combination
        self.rules = rules
        """The rule of each box, ascending."""
        self._crossing: tuple[Int64s, Jumps | None] | None = None
        """The boxes of rules that detect cross, and what finds them; None until moves are asked about."""

    @classmethod
    def build(cls, boxes: BoxSet, columns: Mapping[str, KeyColumn], types: Mapping[str, AttributeType]) -> "Group":
        """Choose a structure, and build it."""
        if (boxes.rules[1:] < boxes.rules[:-1]).any():
            order = np.argsort(boxes.rules, kind="stable")
            strings = tuple(values.take(pa.array(order)) for values in boxes.key_values)
            boxes = boxes._replace(
                rules=boxes.rules[order], key_values=strings, firsts=boxes.firsts[order], lasts=boxes.lasts[order]
            )
        codes = [columns[name].codes(values) for name, values in zip(boxes.keys, boxes.key_values, strict=True)]
        sizes = [len(columns[name]) for name in boxes.keys]
        combination, groups = KeyCombination.of(codes, sizes) if codes else (KeyCombination([], []), None)
        are_floats = [types[name].kind == "double" for name in boxes.attributes]
        structure = structures.choose(Ranges(boxes.firsts, boxes.lasts, groups), are_floats)
        return cls(boxes.keys, boxes.attributes, structure, combination, boxes.rules)

    def match(self, batch: Batch) -> tuple[Int64s, UInt32s]:
        """For each row the boxes that hold: offsets and box numbers."""
        ordinals = [batch.ordinals[name] for name in self.attributes]
        valid = [batch.valid[name] for name in self.attributes]
        offsets, boxes = self.structure.match(batch.rows, ordinals, valid, self._key_codes(batch))
        return offsets, boxes

    def match_names(self, batch: Batch, names: Int64s) -> tuple[Int64s, Int64s] | None:
        """Like `match`, with the names of boxes, by their numbers; None where that is no faster."""
        ordinals = [batch.ordinals[name] for name in self.attributes]
        valid = [batch.valid[name] for name in self.attributes]
        return self.structure.match_names(batch.rows, ordinals, valid, self._key_codes(batch), names)

    def _key_codes(self, batch: Batch) -> Int64s | None:
        """The combined code of the keys of each row."""
        return self.combination.codes([batch.keys[name] for name in self.keys]) if self.keys else None

    @cached_property
    def _borders(self) -> "Borders":
        """The boxes by their borders, numbered as here; built when moves are first asked about."""
        assert len(self.attributes) < 2, "further attributes have borders, too"
        boxes = self._ranges()
        if not self.attributes:
            nothing = np.zeros((len(self.rules), 1), np.int64)
            boxes = boxes._replace(firsts=nothing, lasts=nothing)
        return borders_of(boxes, self.structure.is_float)

    def _ranges(self) -> Ranges:
        """All boxes, with groups only where there are keys."""
        boxes = self.structure.contents()
        return boxes if self.keys else boxes._replace(groups=None)

    @property
    def has_borders(self) -> bool:
        """Whether `crossings` can tell: there is one attribute at most, or all of them are indexed together."""
        return len(self.attributes) < 2 or isinstance(self.structure, Boxed)

    def crossings(self, batch: Batch, before: Int64s, after: Int64s) -> "Crossings":
        """The boxes that each move between rows of the batch enters and leaves, by number.

        Only for groups that have borders, and moves that do not lose a value.

        `before` is -1 where a move has no start.
        """
        groups = self._key_codes(batch)
        if isinstance(self.structure, Boxed):
            columns = [batch.ordinals[name] for name in self.attributes]
            return self.structure.moves(columns, [batch.valid[name] for name in self.attributes], groups, before, after)
        ordinals, valid = np.zeros(batch.rows, np.int64), None
        if self.attributes:
            ordinals, valid = batch.ordinals[self.attributes[0]], batch.valid[self.attributes[0]]
        missing = None if valid is None else ~valid
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

    def jumps(
        self, batch: Batch, before: Int64s, after: Int64s, detects: UInt8s, types: Mapping[str, AttributeType]
    ) -> tuple[Int64s, Int64s]:
        """Which boxes of rules that detect cross moves between rows of the batch jump over: pairs of move and box.

        `before` is -1 where a move has no start; `detects` has what each rule of the layer detects.
        """
        if self._crossing is None:
            self._crossing = self._find_crossing(detects, types)
        boxes, jumps = self._crossing
        if jumps is None:
            return boxes, boxes
        ordinals = [batch.ordinals[name] for name in self.attributes]
        valid = [batch.valid[name] for name in self.attributes]
        moves, found = jumps.find(ordinals, valid, self._key_codes(batch), before, after)
        return moves, boxes[found]

    def _find_crossing(self, detects: UInt8s, types: Mapping[str, AttributeType]) -> tuple[Int64s, Jumps | None]:
        """The boxes of rules that detect cross, indexed; a box without a range is never jumped over."""
        crosses = (detects[self.rules] & DETECTS["cross"]) != 0
        boxes = np.flatnonzero(crosses & bool(self.attributes))
        if not len(boxes):
            return boxes, None
        is_all = len(boxes) == len(self.rules)
        firsts, lasts, groups = self._ranges()
        chosen = Ranges(firsts[boxes], lasts[boxes], None if groups is None else groups[boxes])
        borders = self._borders if is_all and len(self.attributes) == 1 else None
        return boxes, Jumps(chosen, [types[name] for name in self.attributes], borders)

    def boxes_of(self, rule: int) -> list[int]:
        """The boxes of one rule."""
        first, last = np.searchsorted(self.rules, [rule, rule + 1]).tolist()
        return list(range(first, last))

    def ranges(self, box: int) -> dict[str, tuple[int, int]]:
        """The ordinal ranges of one box, by attribute."""
        return dict(zip(self.attributes, self.structure.ranges(box), strict=True))

    def key_codes(self, box: int) -> list[int]:
        """The codes that one box asks for, a key column each."""
        if not self.keys:
            return []
        combined = self.structure.group_of(box)
        assert combined is not None, "a group with keys indexes every box under a key"
        return [int(column[0]) for column in self.combination.apart(np.array([combined]))]

    def take(self, boxes: Int64s, columns: Mapping[str, KeyColumn]) -> BoxSet:
        """Chosen boxes as they were before they were indexed."""
        firsts, lasts, groups = self.structure.contents()
        codes: list[Int64s] = []
        if self.keys:
            assert groups is not None, "a group with keys indexes every box under a key"
            codes = self.combination.apart(groups[boxes])
        strings = tuple(columns[name].strings(code) for name, code in zip(self.keys, codes, strict=True))
        return BoxSet(self.keys, self.attributes, self.rules[boxes], strings, firsts[boxes], lasts[boxes])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.structure.nbytes + sum(array.nbytes for array in (self.rules, *self.combination.steps))

    def explained(self) -> str:
        """Which structure serves the group, and why."""
        if not self.attributes:
            return "SliceList over the keys alone" if self.keys else "SliceList of one point: always holds"
        return self.structure.explained(self.attributes)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything the group is, as flat arrays."""
        arrays = {f"structure.{name}": array for name, array in self.structure.to_arrays().items()}
        return arrays | {"rules": self.rules} | {f"step{i}": step for i, step in enumerate(self.combination.steps)}

    def described(self) -> dict[str, Any]:
        """What the arrays do not say, for a header."""
        return {"keys": list(self.keys), "attributes": list(self.attributes), "sizes": self.combination.sizes}

    @classmethod
    def from_arrays(cls, described: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> "Group":
        """The group that `to_arrays` and `described` wrote."""
        prefix = "structure."
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        steps = [arrays[f"step{i}"] for i in range(max(0, len(described["sizes"]) - 1))]
        return cls(
            tuple(described["keys"]),
            tuple(described["attributes"]),
            structures.from_arrays(own),
            KeyCombination(described["sizes"], steps),
            arrays["rules"],
        )
