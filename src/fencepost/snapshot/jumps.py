"""What moves jump over: boxes over the same attributes, indexed by their borders or for straight lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fencepost import indexes
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.indexes.ordinal import LARGEST, SMALLEST, ValueType
from fencepost.ordinals import DOUBLE, AttributeType
from fencepost.snapshot.structures import Ranges

if TYPE_CHECKING:
    from fencepost.indexes.borders.box_lines import BoxLines
    from fencepost.indexes.borders.index import Borders


class Jumps:
    """Boxes with one attribute at least, asked which of them moves jump over.

    That is: the straight line meets the box while neither end is inside. On one attribute the move passes both borders,
    which `Borders` finds; on several, `BoxLines` follows the line. Keys must fit and stay. An infinite coordinate on
    one of several attributes has no straight line, so it jumps over nothing.

    Args:
        boxes: numbered 0, 1, ...
        types: of the attributes.
        borders: of the same boxes, where there are some already.
    """

    def __init__(self, boxes: Ranges, types: Sequence[AttributeType], borders: "Borders | None" = None) -> None:
        self._types = list(types)
        self._index: Borders | BoxLines
        if len(types) == 1:
            self._index = borders_of(boxes, types[0] == DOUBLE) if borders is None else borders
            return
        smallest, largest = np.array([kind.limits for kind in types]).T
        firsts = np.where(boxes.firsts <= smallest, SMALLEST, boxes.firsts)
        lasts = np.where(boxes.lasts >= largest, LARGEST, boxes.lasts)
        kinds: list[ValueType] = ["float64" if kind == DOUBLE else "int64" for kind in types]
        self._index = _lines_of(firsts, lasts, kinds, boxes.groups)

    def find(
        self,
        ordinals: Sequence[Int64s],
        valid: Sequence[Bools | None],
        groups: Int64s | None,
        before: Int64s,
        after: Int64s,
    ) -> tuple[Int64s, Int64s]:
        """Pairs of move and box, for moves between rows; `before` is -1 where a move has no start."""
        moves = np.flatnonzero(self._can_jump(ordinals, valid, groups, before, after))
        before, after = before[moves], after[moves]
        own = None if groups is None else groups[after]
        if isinstance(self._index, indexes.Borders):
            values = ordinals[0]
            found = self._index.crossings_ordinals(values[before], values[after], None, own, own, slots=True).cross
            assert found is not None, "asked for"
            return np.repeat(moves, found.counts), found.ids.astype(np.int64)
        starts, ends = (np.stack([column[rows] for column in ordinals], axis=1) for rows in (before, after))
        lines, boxes = self._index.jumped_over(starts, ends, own)
        return moves[lines], boxes

    def _can_jump(
        self,
        ordinals: Sequence[Int64s],
        valid: Sequence[Bools | None],
        groups: Int64s | None,
        before: Int64s,
        after: Int64s,
    ) -> Bools:
        """Which moves have a line at all."""
        moved = np.zeros(len(after), np.bool_)
        for column in ordinals:
            moved |= column[before] != column[after]
        can = moved & (before >= 0)
        for known in valid:
            if known is not None:
                can &= known[before] & known[after]
        if groups is not None:
            can &= (groups[before] == groups[after]) & (groups[after] >= 0)
        if len(ordinals) > 1:
            for column, kind in zip(ordinals, self._types, strict=True):
                if kind == DOUBLE:
                    finite = (column > kind.limits[0]) & (column < kind.limits[1])
                    can &= finite[before] & finite[after]
        return can


def _lines_of(firsts: Int64s, lasts: Int64s, kinds: Sequence[ValueType], groups: Int64s | None) -> "BoxLines":
    from fencepost.indexes.borders.box_lines import BoxLines  # seldom needed, and slow to load

    return BoxLines(firsts, lasts, kinds, groups)


def borders_of(boxes: Ranges, is_float: bool) -> "Borders":
    """The borders of boxes with one attribute, numbered as they are."""
    borders = indexes.Borders(values="float64" if is_float else "int64")
    firsts, lasts = (np.ascontiguousarray(column[:, 0]) for column in boxes[:2])
    borders.insert_ordinals(np.arange(len(firsts)), firsts, lasts, boxes.groups)
    return borders
