"""VCR: rectangles as unions of virtual construct rectangles (Wu, Chen, Yu, IBM research report)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from fencepost.errors import FencepostError
from fencepost.indexes.arguments import point_rows
from fencepost.indexes.arrays import Float64s, Int64s
from fencepost.indexes.contracts.boxes import TableBoxes
from fencepost.indexes.contracts.registry import array_bytes
from fencepost.indexes.kernels.id_map import ABSENT, place_in
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.papers.construct_lists import ENTRIES, SPARSE
from fencepost.indexes.papers.listed import ListedConstructs, power_of_two, whole_pair
from fencepost.indexes.papers.vcr_kernels import Grid, Rounds, Shape, answer, decompose, mark, remark
from fencepost.indexes.papers.vcr_rows import NO_ROWS, are_repaid, lay_out_rows

AxisDomain = int | tuple[int, int]

_POINTS_PER_ROUND = 64
_MOST_SIZES = 64
_MOST_KEYS = 2**62
_MOST_PIECES = 1024
_MOST_COUNTED = 2**24


class VCR(ListedConstructs, TableBoxes):
    """Virtual construct rectangles over an integer grid, in two dimensions.

    At every grid point (a, b) of a domain of Rx by Ry cells start the constructs of 2**i by 2**j cells, i <= kx =
    log2 Lx and j <= ky = log2 Ly, with the ids ``(kx+1)(ky+1)(a + b Rx) + j (kx+1) + i``. A rectangle is in the lists
    of the constructs that it is cut into: strips of decreasing powers of two (simple decomposition, SD), or
    constructs of one size of which the last of each row and column is moved back to fit (overlapped, OD).
    A search takes the constructs that contain the point's cell: those at fixed distances from the point's pivot.

    Arrays: `Lists`, with a hash from ``2 * construct + exact`` to the list, and `_bits`, for each grid point (its
    number modulo the number of columns) a word that says which constructs starting there may have a list: row
    1 for exact lists, 0 for checked ones.

    Invariants: those of `Lists`; (1) only constructs in use, the *activated* ones, have lists; (2) a construct's
    list has its bit set (a set bit may have no list); (3) an exact list holds ids that contain all of their construct
    and no point of it twice; a checked list holds slots: part-filled cells, pieces that overlap the one before
    them, and closed right ends. A checked entry counts if its rectangle holds the point and the piece *owns*
    it, i.e. is the first that reaches it: so every id is reported once.

    A search of many points goes to `_rows`, where the exact lists lie side by side (see `vcr_rows`), and to the lists
    themselves while they change more than they are searched.

    Deviations: the difference array is kept as distances between starts and a mask of sizes for each, so that
    one word answers for all constructs of a start. Duplicates are not stamped but excluded by ownership, which
    needs no state per search. Rectangles that reach beyond the domain are clipped, and checked for points outside
    (one list per axis). A rectangle unbounded or huge in a large domain would have (r/L)**2 pieces: those of more
    than `most_pieces` overflow to a list that is checked for every point.

    Args:
        domain: per axis the number of cells, or a pair (start, end) of integers.
        length: the longest side of a construct, a power of two: one for both axes, or one per axis.
        overlap: decompose into overlapping constructs of one size (OD) instead of disjoint ones (SD).
        closed: rectangles are ``[lo, hi]`` in both dimensions.
        most_pieces: a rectangle of more pieces is not cut but kept on one list that every search checks.

    Costs: search (2Lx-1)(2Ly-1) lists, for closed rectangles (2Lx+kx)(2Ly+ky); insert and remove one list per piece,
    about ``(w/Lx + kx/2)(h/Ly + ky/2)`` in SD; space per piece and activated construct.

    >>> index = VCR(domain=(20, 20), length=4)
    >>> index.insert(7, (3, 3), (14, 9))
    >>> index.pieces(7)
    [575, 611, 646, 663, 1292, 1328, 1363, 1380]
    >>> index.stab([(3, 3), (13.5, 8.5), (14, 5)]).sets()
    [{7}, {7}, set()]
    """

    _decompose = staticmethod(decompose)

    def __init__(
        self,
        domain: Sequence[AxisDomain],
        length: int | Sequence[int],
        overlap: bool = False,
        closed: bool = False,
        most_pieces: int = _MOST_PIECES,
    ) -> None:
        super().__init__(2, closed)
        if not isinstance(most_pieces, int | np.integer) or not 1 <= most_pieces <= _MOST_COUNTED:
            raise FencepostError(
                f"most_pieces={most_pieces!r}", f"a whole number from 1 to {_MOST_COUNTED}", "Leave it out."
            )
        self.most_pieces = int(most_pieces)
        self.domain = _axes(domain)
        self.length = _lengths(length)
        self.overlap = overlap
        bits = [power_of_two(one) for one in self.length]
        sizes = (bits[0] + 1) * (bits[1] + 1)
        (x_start, x_end), (y_start, y_end) = self.domain
        columns, rows = x_end - x_start, y_end - y_start
        if sizes > _MOST_SIZES or 2 * sizes * columns * rows > _MOST_KEYS:
            raise FencepostError(
                f"length={length!r} and domain={domain!r}",
                f"at most {_MOST_SIZES} sizes of constructs, and ids that fit int64",
                "Take shorter lengths (up to 128 on both axes), or a smaller domain.",
            )
        self._grid_points = columns * rows
        self.lists_per_search = _per_axis(self.length[0], closed) * _per_axis(self.length[1], closed)
        starts = [(dx, dy) for dy in range(self.length[1]) for dx in range(self.length[0])]
        overflow = sizes * self._grid_points
        ends = x_start, x_end, y_start, y_end
        self._shape = Shape(
            grid=Grid(closed, overlap, *ends, bits[0], bits[1], columns, sizes, self.most_pieces, overflow),
            distances=np.array([dx + dy * columns for dx, dy in starts]),
            masks=np.array([self._mask(dx, dy, bits) for dx, dy in starts], np.uint64),
            x_backs=np.array(_backs(bits[0])[0]),
            x_levels=np.array(_backs(bits[0])[1]),
            y_backs=np.array(_backs(bits[1])[0]),
            y_levels=np.array(_backs(bits[1])[1]),
        )
        self._create_lists(0, 0, 0, x_start, columns)
        self._bits = np.zeros((2, 64), np.uint64)
        self._any_checked = False
        self._stale = 0
        self._forget_rows()

    def _mask(self, dx: int, dy: int, bits: list[int]) -> int:
        """The sizes of the constructs that start (dx, dy) after the pivot and reach the point's cell."""
        return sum(
            1 << (j * (bits[0] + 1) + i)
            for j in range(bits[1] + 1)
            for i in range(bits[0] + 1)
            if 1 << i >= self.length[0] - dx and 1 << j >= self.length[1] - dy
        )

    # -- decomposition ----------------------------------------------------------------------------------

    def pieces(self, id: int) -> list[int]:
        """The constructs that make up one rectangle, part-filled cells on its border included; none if it overflows."""
        next(self._batches(np.array([self._slot(id)])))
        codes = self._codes[: self._code_offsets[1]].tolist()
        constructs = [(SPARSE - code) >> 1 for code in codes if code <= SPARSE]
        return [construct for construct in constructs if construct != self._shape.grid.overflow]

    @property
    def overflow(self) -> int:
        """How many rectangles have too many pieces, and are checked for every point."""
        place = place_in(self._lists.sparse.slots, 2 * self._shape.grid.overflow)
        return 0 if place == ABSENT else int(self._lists.heads[place, 1])

    def covering(self, point: Sequence[float]) -> list[int]:
        """The constructs that contain a point's cell, activated or not: the pivot plus the difference array."""
        grid = self._shape.grid
        x, y = np.floor(point_rows(point, 2)[0]).tolist()
        if not (grid.x_first <= x < grid.x_end and grid.y_first <= y < grid.y_end):
            return []
        pivot = (int(x) - grid.x_first + 1 - self.length[0], int(y) - grid.y_first + 1 - self.length[1])
        steps = [(pivot[0] + dx, pivot[1] + dy) for dy in range(self.length[1]) for dx in range(self.length[0])]
        return [
            grid.sizes * (a + b * grid.columns) + size
            for (a, b), mask in zip(steps, self._shape.masks.tolist(), strict=True)
            if a >= 0 and b >= 0
            for size in range(grid.sizes)
            if mask >> size & 1
        ]

    # -- changing the set -------------------------------------------------------------------------------

    @override
    def _attach(self, slots: Int64s) -> None:
        super()._attach(slots)
        self._forget_rows()
        wanted = min(self._grid_points, 2 * int(self._lists.sparse.size[0]))
        if self._bits.shape[1] < wanted:
            self._remark(wanted)
        else:
            for batch in self._batches(slots):
                codes = self._codes[: self._code_offsets[len(batch)]]
                self._any_checked |= mark(self._shape, codes, self._bits)

    @override
    def _detach(self, slots: Int64s) -> None:
        super()._detach(slots)
        self._forget_rows()
        self._stale += len(slots)
        if self._stale > len(self):
            self._remark(min(self._grid_points, 2 * int(self._lists.sparse.size[0])))

    def _remark(self, wanted: int) -> None:
        """Set the bits of exactly the lists that exist, in as many words as wanted, at least."""
        self._bits = np.zeros((2, max(64, 1 << max(0, wanted - 1).bit_length())), np.uint64)
        self._any_checked = remark(self._shape, self._lists.sparse.slots, self._bits)
        self._stale = 0

    def _forget_rows(self) -> None:
        """Search the lists themselves, which have changed."""
        self._rows = NO_ROWS
        self._asked = 0

    # -- asking -----------------------------------------------------------------------------------------

    def _lay_out_rows(self, points: int) -> None:
        """Lay the lists out in rows once so many more points are worth it."""
        self._asked += points
        if len(self._rows.places) == 0:
            (_, _), (y_start, y_end) = self.domain
            grid, entries = self._shape.grid, int(self._lists.arenas[ENTRIES, 0])
            if are_repaid(self._asked, entries, y_end - y_start, grid.columns, grid.sizes):
                self._rows = lay_out_rows(
                    self._lists, entries, y_end - y_start, grid.columns, grid.sizes, grid.overflow
                )

    def _stab(self, points: Float64s, out: Matches | None) -> Matches:
        total = len(points)
        self._lay_out_rows(total)
        per_round = max(1, min(_POINTS_PER_ROUND, total))
        most = per_round * self.lists_per_search
        rounds = Rounds(
            run_offsets=np.empty(per_round + 1, np.int64),
            runs=np.empty((most, 2), np.int64),
            check_offsets=np.empty(per_round + 1, np.int64),
            checks=np.empty((most, 2), np.int64),
            starts=np.empty(len(self._shape.distances) + 1, np.int64),
            found=np.empty(len(self._shape.distances) + 1, np.uint64),
        )
        offsets, ids = answer_buffers(total, 0, np.int64, out)
        offsets[0] = 0
        done = 0
        while True:
            done = answer(
                self._shape,
                self._bits,
                self._any_checked,
                self._lists,
                self._rows,
                self._queries,
                points,
                rounds,
                offsets,
                ids,
                done,
            )
            if done == total:
                return Matches(offsets, ids[: offsets[total]])
            filled = int(offsets[done])
            in_round = self._upper_bound(rounds, min(per_round, total - done))
            ids = widened(ids, filled, filled + in_round, out)

    def _upper_bound(self, rounds: Rounds, points: int) -> int:
        """As many ids as the lists found for a round of points can give."""
        checked = rounds.checks[: rounds.check_offsets[points], 0]
        lengths = self._lists.heads[:, 1]
        uncut = points * max(int(lengths[:2].max()), self.overflow)
        exact = int(rounds.runs[: rounds.run_offsets[points], 1].sum())
        return exact + int(lengths[checked[checked >= 0]].sum(dtype=np.int64)) + uncut

    # -- reporting --------------------------------------------------------------------------------------

    def storage(self) -> Storage:
        """Activated constructs and their entries, 4 bytes per construct and 8 per entry, real bytes."""
        keys = self._lists.sparse.slots[self._lists.sparse.slots[:, 1] >= 0, 0]
        constructs = len(np.unique(keys >> 1)) - (self.overflow > 0)
        entries = self._entries()
        return Storage(
            constructs,
            entries,
            4 * constructs + 8 * entries,
            self._list_bytes() + self._bits.nbytes + array_bytes(self._rows),
        )

    @override
    def _check(self) -> None:
        super()._check()
        marked = np.zeros_like(self._bits)
        any_checked = remark(self._shape, self._lists.sparse.slots, marked)
        assert self._any_checked or not any_checked, "checked lists are known of"
        assert not (marked & ~self._bits).any(), "every list has its bit set"
        if len(self._rows.places) > 0:
            shape, grid = self._rows.places.shape, self._shape.grid
            anew = lay_out_rows(
                self._lists, len(self._rows.ids) - PADDING, shape[0], grid.columns, grid.sizes, grid.overflow
            )
            assert (anew.places == self._rows.places).all(), "rows count what the lists hold"
            assert (anew.ids == self._rows.ids).all(), "rows hold what the lists hold"


def _backs(bits: int) -> tuple[list[int], list[int]]:
    """Starts (cells back) and levels of the constructs that contain a cell, then of those that end at its start."""
    around = [(back, level) for level in range(bits + 1) for back in range(1 << level)]
    ending = [(1 << level, level) for level in range(bits + 1)]
    backs, levels = zip(*around, *ending, strict=True)
    return list(backs), list(levels)


def _per_axis(length: int, closed: bool) -> int:
    return 2 * length + (length.bit_length() - 1 if closed else -1)


def _axes(domain: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    axes = list(domain) if isinstance(domain, tuple | list) else []
    if len(axes) != 2:
        raise FencepostError(
            f"domain {domain!r}", "two axes, each a size or a pair (start, end)", "Pass for example domain=(245, 245)."
        )
    x, y = (whole_pair((0, int(axis)) if isinstance(axis, int | np.integer) else axis) for axis in axes)
    return x, y


def _lengths(length: Any) -> tuple[int, int]:
    lengths = list(length) if isinstance(length, tuple | list) else [length, length]
    if len(lengths) != 2:
        raise FencepostError(f"{len(lengths)} lengths", "one, or one per axis", "Pass for example length=8.")
    for one in lengths:
        power_of_two(one)
    return int(lengths[0]), int(lengths[1])
