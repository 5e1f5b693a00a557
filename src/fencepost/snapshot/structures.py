"""What answers for a group of boxes: one attribute indexed and the rest compared, or all of them indexed together."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost import indexes
from fencepost.indexes.arrays import Bools, Int64s, UInt32s
from fencepost.indexes.kernels.answers import drop_outside

if TYPE_CHECKING:
    from fencepost.indexes import BoxIndex, Crossings, SliceList

_SAMPLED = 4096
_FEW = 64
_MOST_DIMENSIONS = 16
_SEARCH, _COMPARED = 30.0, 5.0
"""About what finding a value in a SliceList costs, and comparing one of the boxes found, in nanoseconds."""
_TOGETHER, _PER_DIMENSION = 60.0, 1.7
"""About what finding a point in a BoxIndex of two dimensions costs, and by how much each further one adds."""


class Ranges(NamedTuple):
    """Boxes as inclusive ordinals, a row each and a column per attribute, with the combined code of their keys."""

    firsts: Int64s
    lasts: Int64s
    groups: Int64s | None


class Structure(ABC):
    """What a group of a snapshot asks; boxes are numbered 0, 1, ..."""

    index: Any
    """A SliceList or BoxIndex."""
    expected: float
    """Boxes that one value of the most selective attribute is expected to find, under one combination of keys."""

    @abstractmethod
    def match(self, rows: int, ordinals: Sequence[Int64s], valid: Sequence[Bools | None], groups: Int64s | None) -> Any:
        """For each row the boxes that hold: offsets and box numbers."""

    def match_names(
        self,
        rows: int,  # noqa: ARG002
        ordinals: Sequence[Int64s],  # noqa: ARG002
        valid: Sequence[Bools | None],  # noqa: ARG002
        groups: Int64s | None,  # noqa: ARG002
        names: Int64s,  # noqa: ARG002
    ) -> tuple[Int64s, Int64s] | None:
        """Like `match`, with the names of boxes, by their numbers; None where that is no faster."""
        return None

    @abstractmethod
    def ranges(self, box: int) -> list[tuple[int, int]]:
        """The ordinal range of one box on each attribute."""

    @abstractmethod
    def contents(self) -> Ranges:
        """All boxes, in the order of their numbers."""

    @abstractmethod
    def explained(self, attributes: Sequence[str]) -> str:
        """What it is, and why it was chosen."""

    @abstractmethod
    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything it is, as flat arrays."""

    def group_of(self, box: int) -> int | None:
        """The combined code of the keys of one box."""
        group: int | None = self.index.group_of(box)
        return group

    @property
    def is_float(self) -> bool:
        """Whether what is indexed are doubles."""
        return bool(self.index.values == "float64")

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return int(self.index.storage().nbytes)


class Sliced(Structure):
    """A SliceList over the most selective attribute; the others are compared for the boxes it finds.

    Boxes without any attribute are indexed at one constant.
    """

    def __init__(self, index: "SliceList", axis: int, firsts: Int64s, lasts: Int64s, expected: float) -> None:
        self.index, self.axis = index, axis
        """The place of the indexed attribute; -1 where there is none."""
        self.firsts, self.lasts = firsts, lasts
        """Ranges of the further attributes, a column each."""
        self.expected = expected

    @classmethod
    def build(cls, boxes: Ranges, axis: int, expected: float, is_float: bool) -> "Sliced":
        """Index one attribute."""
        count, attributes = boxes.firsts.shape
        index = indexes.SliceList("float64" if is_float else "int64")
        nothing = np.zeros(count, np.int64)
        firsts = nothing if axis < 0 else np.ascontiguousarray(boxes.firsts[:, axis])
        lasts = nothing if axis < 0 else np.ascontiguousarray(boxes.lasts[:, axis])
        index.insert_ordinals(np.arange(count), firsts, lasts, boxes.groups)
        further = [a for a in range(attributes) if a != axis]
        compared = [np.ascontiguousarray(column[:, further]) for column in (boxes.firsts, boxes.lasts)]
        return cls(index, axis, compared[0], compared[1], expected)

    def match(
        self, rows: int, ordinals: Sequence[Int64s], valid: Sequence[Bools | None], groups: Int64s | None
    ) -> tuple[Int64s, UInt32s]:
        """See `Structure`."""
        own, known = (ordinals[self.axis], valid[self.axis]) if ordinals else (np.zeros(rows, np.int64), None)
        found = self.index.stab_ordinals(own, None if known is None else ~known, groups, slots=True)
        offsets, boxes = found.offsets, found.ids
        further = [a for a in range(len(ordinals)) if a != self.axis]
        if further and len(boxes):
            values = np.stack([ordinals[a] for a in further], axis=1)
            masks = np.stack([_mask(valid[a], rows) for a in further], axis=1)
            drop_outside(offsets, boxes, self.firsts, self.lasts, values, masks)
            boxes = boxes[: offsets[-1]]
        return offsets, boxes

    def match_names(
        self, rows: int, ordinals: Sequence[Int64s], valid: Sequence[Bools | None], groups: Int64s | None, names: Int64s
    ) -> tuple[Int64s, Int64s] | None:
        """Like `match`, with the names of boxes, by their numbers; None where further attributes decide."""
        if len(ordinals) > 1:
            return None
        own, known = (ordinals[0], valid[0]) if ordinals else (np.zeros(rows, np.int64), None)
        found = self.index.stab_ordinals(own, None if known is None else ~known, groups, names=names)
        return found.offsets, found.ids

    def ranges(self, box: int) -> list[tuple[int, int]]:
        """See `Structure`."""
        found = list(zip(self.firsts[box].tolist(), self.lasts[box].tolist(), strict=True))
        if self.axis >= 0:
            found.insert(self.axis, self.index.ordinals(box))
        return found

    def contents(self) -> Ranges:
        """See `Structure`."""
        held = self.index.contents()  # ids are 0, 1, ..., so that places are boxes
        if self.axis < 0:
            return Ranges(self.firsts, self.lasts, held.groups)
        firsts = np.insert(self.firsts, self.axis, held.firsts, axis=1)
        return Ranges(firsts, np.insert(self.lasts, self.axis, held.lasts, axis=1), held.groups)

    def explained(self, attributes: Sequence[str]) -> str:
        """See `Structure`."""
        name = attributes[self.axis]
        if len(attributes) == 1:
            return f"SliceList over {name}: its only range"
        return (
            f"SliceList over {name}, its most selective range (about {self.expected:,.1f} boxes per value); "
            f"{', '.join(a for a in attributes if a != name)} compared"
        )

    @property
    def nbytes(self) -> int:
        """See `Structure`."""
        return super().nbytes + self.firsts.nbytes + self.lasts.nbytes

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """See `Structure`."""
        arrays = {f"slices.{name}": array for name, array in self.index.to_arrays().items()}
        chosen = {"axis": np.array([self.axis]), "expected": np.array([self.expected])}
        return arrays | chosen | {"firsts": self.firsts, "lasts": self.lasts}


class Boxed(Structure):
    """A BoxIndex over all attributes."""

    def __init__(self, index: "BoxIndex", expected: float) -> None:
        self.index, self.expected = index, expected

    @classmethod
    def build(cls, boxes: Ranges, expected: float, is_float: bool) -> "Boxed":
        """Index all attributes."""
        index = indexes.BoxIndex(boxes.firsts.shape[1], "float64" if is_float else "int64")
        index.insert_ordinals(np.arange(len(boxes.firsts)), boxes.firsts, boxes.lasts, boxes.groups)
        return cls(index, expected)

    def match(
        self, rows: int, ordinals: Sequence[Int64s], valid: Sequence[Bools | None], groups: Int64s | None
    ) -> tuple[Int64s, UInt32s]:
        """See `Structure`."""
        found = self.index.stab_ordinals(np.stack(ordinals, axis=1), _missing(valid, rows), groups, slots=True)
        return found.offsets, found.ids

    def moves(
        self,
        ordinals: Sequence[Int64s],
        valid: Sequence[Bools | None],
        groups: Int64s | None,
        before: Int64s,
        after: Int64s,
    ) -> "Crossings":
        """The boxes that each move between rows enters and leaves.

        `before` is -1 where a move has no start; `valid` is None where all rows have a value.
        """
        points, missing = np.stack(ordinals, axis=1), _missing(valid, len(ordinals[0]))
        nowhere = np.repeat((before < 0)[:, np.newaxis], points.shape[1], axis=1)
        enter, exit = self.index.moves_ordinals(
            points[before],
            points[after],
            nowhere if missing is None else nowhere | missing[before],
            None if missing is None else missing[after],
            None if groups is None else groups[before],
            None if groups is None else groups[after],
        )
        return indexes.Crossings(enter, exit, None)

    def ranges(self, box: int) -> list[tuple[int, int]]:
        """See `Structure`."""
        return list(zip(*self.index.ordinals(box), strict=True))

    def contents(self) -> Ranges:
        """See `Structure`."""
        held = self.index.contents()
        return Ranges(held.firsts, held.lasts, held.groups)

    def explained(self, attributes: Sequence[str]) -> str:
        """See `Structure`."""
        inside = ", ".join(f"{each.kind} of {each.boxes:,}" for each in self.index.structures[1:])
        return (
            f"BoxIndex over {', '.join(attributes)} ({inside}): the most selective range alone would find about "
            f"{self.expected:,.1f} boxes per value"
        )

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """See `Structure`."""
        arrays = {f"boxes.{name}": array for name, array in self.index.to_arrays().items()}
        return arrays | {"expected": np.array([self.expected])}


def choose(boxes: Ranges, are_floats: Sequence[bool]) -> Structure:
    """The structure that answers soonest, by what the attributes' ranges look like."""
    keys = 1 if boxes.groups is None else max(1, len(np.unique(boxes.groups)))
    attributes = boxes.firsts.shape[1]
    hits = [_expected_hits(boxes.firsts[:, a], boxes.lasts[:, a]) / keys for a in range(attributes)]
    axis = int(np.argmin(hits)) if hits else -1
    expected = hits[axis] if hits else len(boxes.firsts) / keys
    if len(boxes.firsts) > _FEW and 2 <= attributes <= _MOST_DIMENSIONS:
        together = _TOGETHER * _PER_DIMENSION ** (attributes - 2)
        if _SEARCH + _COMPARED * expected > together:
            return Boxed.build(boxes, expected, all(are_floats))
    return Sliced.build(boxes, axis, expected, bool(hits) and are_floats[axis])


def from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> Structure:
    """The structure that `to_arrays` wrote."""
    kinds = {name.partition(".")[0] for name in arrays}
    prefix = "boxes." if "boxes" in kinds else "slices."
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    expected = float(arrays["expected"][0])
    if prefix == "boxes.":
        return Boxed(indexes.BoxIndex.from_arrays(own), expected)
    return Sliced(
        indexes.SliceList.from_arrays(own), int(arrays["axis"][0]), arrays["firsts"], arrays["lasts"], expected
    )


def _missing(valid: Sequence[Bools | None], rows: int) -> Bools | None:
    """Which rows have no value, a column per attribute; None if all have all."""
    if all(mask is None for mask in valid):
        return None
    return ~np.stack([_mask(mask, rows) for mask in valid], axis=1)


def _mask(valid: Bools | None, rows: int) -> Bools:
    return np.ones(rows, np.bool_) if valid is None else valid


def _expected_hits(firsts: Int64s, lasts: Int64s) -> float:
    """Mean number of ranges that hold an end of a range: ranks in a sample, scaled up."""
    step = max(1, len(firsts) // _SAMPLED)
    starts, ends = np.sort(firsts[::step]), np.sort(lasts[::step])
    probes = np.concatenate([starts, ends])
    inside = np.searchsorted(starts, probes, "right") - np.searchsorted(ends, probes, "left")
    return float(inside.mean()) * step if len(inside) else 0.0
