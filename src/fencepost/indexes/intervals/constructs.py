"""The mechanism that UI, SCI, LCI, CEI and ACEI share: id lists on virtual constructs.

A structure defines its constructs, writes an interval as a union of them (`decompose`) and names those that
contain a value (`cover`). Everything else is here: the lists and their memory, the boundary policy for
intervals and values that do not fit the integer domain, and the copying of answers.

"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.errors import FencepostError
from fencepost.indexes import idmap
from fencepost.indexes.arena import new_arenas
from fencepost.indexes.arrays import Float64s, Int64s
from fencepost.indexes.intervals.construct_lists import (
    ENTRIES,
    LISTS,
    SHORT_OF_ENTRIES,
    SHORT_OF_LISTS,
    SHORT_OF_PIECES,
    SPARSE,
    Lists,
    attach,
    detach,
    emit,
    locate,
    missing_room,
    reserve,
    tally,
    verify,
)
from fencepost.indexes.intervals.contract import TableIndex
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.registry import array_bytes
from fencepost.indexes.vectors import PADDING

__all__ = ["ConstructIndex", "Piece", "power_of_two", "whole_length"]


Piece = int | tuple[str | int, int]
"""A construct's id, or a pair for what is not numbered: ``("point", b)``, ``("unit", j)``, (segment, id)."""

_MAX_LISTS = 2**31
_VALUES_PER_ROUND = 4096
_RUNS_PER_ROUND = 1 << 17
_BULK = 4096


class ConstructIndex(TableIndex):
    """An interval index over virtual constructs.

    Args:
        domain: the integer range ``(start, end)`` the constructs are laid over; intervals and values outside
            it are still answered exactly, more slowly.
        closed: intervals are ``[lo, hi]`` instead of ``[lo, hi)``.

    """

    def __init__(self, domain: tuple[int, int], closed: bool) -> None:
        super().__init__(closed)
        self.domain = _checked_domain(domain)

    def _lay_out(self, dense: int, segments: int = 0, unit_bits: int = 0) -> None:
        """Create the lists: `dense` that always exist, and room for one unit array per segment."""
        if dense > _MAX_LISTS:
            raise FencepostError(
                f"a domain that needs {dense} lists",
                f"at most {_MAX_LISTS}",
                "Take a smaller domain, or ACEI with a larger length.",
            )
        fixed = dense + 2
        arenas = new_arenas(3)
        arenas[LISTS, 0] = fixed
        start, end = self.domain
        self._lists = Lists(
            heads=np.zeros((fixed + 8, 2), np.uint32),
            room=np.zeros(fixed + 8, np.uint8),
            ids=np.zeros(64 + PADDING, np.int64),
            owners=np.zeros(64, np.uint32),
            where=np.zeros(64, np.uint32),
            pieces=np.zeros((8, 2), np.uint32),
            sparse=idmap.empty_map(),
            units=np.zeros((segments, 2), np.uint32),
            arenas=arenas,
            layout=np.array([dense, unit_bits, start, end - start]),
        )
        self._codes = np.empty(1 << 14, np.int64)
        self._code_offsets = np.empty((1 << 14) + 1, np.int64)

    # -- what a structure supplies ----------------------------------------------------------------------

    _shape: Any
    """The structure's parameters, as its kernels take them: a tuple of its own."""

    @property
    def constructs(self) -> int:
        """How many constructs the structure has now (the paper's N)."""
        return self._constructs

    _constructs: int

    lists_per_search: int
    """The largest number of lists that a search visits (the paper's C)."""

    _decompose: Callable[..., int]
    """Kernel ``(shape, layout, bounds, slots, offsets, codes)``: writes the codes of as many of the slots as
    fit `offsets` and `codes`, and returns how many that were."""

    _cover: Callable[..., None]
    """Kernel ``(shape, heads, units, values, cells, run_offsets, runs)``: writes (start, length) of every
    non-empty list whose construct contains each value."""

    def _piece(self, code: int) -> Piece:
        """The public name of a construct."""
        return code

    def _unit_piece(self, cell: int) -> Piece:
        """The public name of the construct that is one unit cell."""
        raise NotImplementedError

    def _pointers(self) -> int:
        """Pointers that the paper's storage model counts beside the constructs."""
        return 0

    # -- decomposition ----------------------------------------------------------------------------------

    def pieces(self, id: int) -> list[Piece]:
        """The constructs that make up one interval, the single points and part-filled unit cells included."""
        slots = np.array([self._slot(id)])
        next(self._batches(slots))
        named: list[Piece] = []
        for code in self._codes[: self._code_offsets[1]].tolist():
            if code >= 0:
                named.append(self._piece(code))
            elif code <= SPARSE:
                cell, is_point = divmod(SPARSE - code, 2)
                named.append(("point", cell + self.domain[0]) if is_point else self._unit_piece(cell))
        return named

    def _batches(self, slots: Int64s) -> Iterator[Int64s]:
        """Decompose all slots, as many at a time as fit the scratch arrays."""
        done = 0
        while done < len(slots):
            rows = self._decompose(
                self._shape,
                self._lists.layout,
                self._queries.bounds,
                slots[done:],
                self._code_offsets,
                self._codes,
            )
            if rows == 0:
                self._codes = np.empty(2 * len(self._codes), np.int64)
                continue
            yield slots[done : done + rows]
            done += rows

    # -- changing the set -------------------------------------------------------------------------------

    def _attach(self, slots: Int64s) -> None:
        needed = len(self._queries.ids)
        if len(self._lists.pieces) < needed:
            self._lists = self._lists._replace(pieces=_enlarged(self._lists.pieces, needed))
        if len(slots) >= _BULK:
            self._reserve(slots)
        for batch in self._batches(slots):
            first = 0
            while True:
                first, short = attach(self._lists, self._queries.ids, batch, self._codes, self._code_offsets, first)
                if first == len(batch):
                    break
                self._enlarge(short)

    def _reserve(self, slots: Int64s) -> None:
        """Give every dense list the room that a large batch will need, so that it moves at most once."""
        added = np.zeros(int(self._lists.layout[0]), np.uint32)
        for batch in self._batches(slots):
            tally(self._codes, int(self._code_offsets[len(batch)]), added)
        items = int(self._lists.arenas[ENTRIES, 0]) + missing_room(self._lists, added)
        self._enlarge_entries(items)
        reserve(self._lists, added)

    def _enlarge(self, short: int) -> None:
        lists = self._lists
        if short == SHORT_OF_ENTRIES:
            self._enlarge_entries(2 * len(lists.owners))
        elif short == SHORT_OF_PIECES:
            self._lists = lists._replace(where=_enlarged(lists.where, 2 * len(lists.where)))
        elif short == SHORT_OF_LISTS:
            more = max(8, len(lists.heads) // 4, 1 << int(lists.layout[1]))
            self._lists = lists._replace(
                heads=_enlarged(lists.heads, len(lists.heads) + more),
                room=_enlarged(lists.room, len(lists.room) + more),
            )
        else:
            self._lists = lists._replace(sparse=idmap.grown(lists.sparse, len(lists.sparse.slots)))

    def _enlarge_entries(self, items: int) -> None:
        if items > len(self._lists.owners):
            self._lists = self._lists._replace(
                ids=_enlarged(self._lists.ids, items + PADDING), owners=_enlarged(self._lists.owners, items)
            )

    def _detach(self, slots: Int64s) -> None:
        for batch in self._batches(slots):
            detach(self._lists, batch, self._codes, self._code_offsets)

    # -- asking -----------------------------------------------------------------------------------------

    def _stab(self, values: Float64s, out: Matches | None) -> Matches:
        total = len(values)
        per_round = max(16, min(_VALUES_PER_ROUND, _RUNS_PER_ROUND // self.lists_per_search))
        run_offsets = np.empty(min(per_round, total) + 1, np.int64)
        runs = np.empty((per_round * 2 * self.lists_per_search + 1, 2), np.uint32)
        cells = np.empty(min(per_round, total), np.int64)
        offsets, ids = answer_buffers(total, 0, np.int64, out)
        offsets[0] = 0
        for first in range(0, total, per_round):
            part = values[first : first + per_round]
            locate(self._lists.layout, part, cells)
            self._cover(self._shape, self._lists.heads, self._lists.units, part, cells, run_offsets, runs)
            part_offsets = offsets[first : first + len(part) + 1]
            done = 0
            while True:
                done, needed = emit(
                    self._lists,
                    self._queries,
                    self.closed,
                    part,
                    cells,
                    run_offsets,
                    runs,
                    part_offsets,
                    ids,
                    done,
                )
                if done == len(part):
                    break
                filled = int(part_offsets[done])
                in_round = int(runs[: run_offsets[len(part)], 1].sum(dtype=np.int64))
                likely = int(1.05 * in_round * (total - first) / len(part))
                ids = widened(ids, filled, filled + needed + likely, out)
        return Matches(offsets, ids[: offsets[total]])

    # -- reporting --------------------------------------------------------------------------------------

    def storage(self) -> Storage:
        """Constructs and entries as in the paper, its 4 bytes per construct and 8 per entry, real bytes."""
        entries = int(self._lists.heads[:, 1].sum(dtype=np.int64, where=self._lists.room > 0))
        lists = self._lists
        real = self._table_bytes() + array_bytes(lists.sparse)
        real += sum(a.nbytes for a in lists if not isinstance(a, tuple))
        model = 4 * (self.constructs + self._pointers()) + 8 * entries
        return Storage(self.constructs, entries, model, real)

    def _check(self) -> None:
        pieces = 0
        for batch in self._batches(self._live_slots()):
            fault = verify(self._lists, self._queries.ids, batch, self._codes, self._code_offsets)
            assert fault == 0, f"interval {self._queries.ids[batch[fault - 1]]} is not where its pieces say"
            pieces += int(self._code_offsets[len(batch)])
        assert self.storage().entries == pieces, "every entry belongs to a piece"
        dense = int(self._lists.layout[0])
        if len(self) == 0:
            assert not self._lists.room.any(), "an empty index keeps no blocks"
            assert self._lists.sparse.size[0] == 0, "an empty index keeps no sparse lists"
            assert not self._lists.units.any(), "an empty index keeps no unit arrays"
            assert dense + 2 <= self._lists.arenas[LISTS, 0], "the dense lists stay"


def whole_length(length: int) -> int:
    """A length that must be a positive whole number."""
    if not isinstance(length, int | np.integer) or length < 1:
        raise FencepostError(f"length {length!r}", "a whole number from 1 on", "Pass for example length=8.")
    return int(length)


def power_of_two(length: int, name: str = "length") -> int:
    """log2 of a length that must be a power of two."""
    if not isinstance(length, int | np.integer) or length < 1 or length & (length - 1):
        raise FencepostError(
            f"{name} {length!r}", "a power of two (1, 2, 4, ...)", f"Round it up to {_next_power(length)}."
        )
    return int(length).bit_length() - 1


def _next_power(length: Any) -> int:
    return 1 << max(0, int(length) - 1).bit_length() if isinstance(length, int | float | np.number) else 1


def _checked_domain(domain: tuple[int, int]) -> tuple[int, int]:
    ends = tuple(domain) if isinstance(domain, tuple | list) else ()
    whole = len(ends) == 2 and all(
        isinstance(end, int | np.integer) or (isinstance(end, float) and end.is_integer()) for end in ends
    )
    if not whole or not ends[0] < ends[1] or max(abs(ends[0]), abs(ends[1])) > 2**53:
        raise FencepostError(
            f"domain {domain!r}",
            "a pair of whole numbers (start, end) with start < end, within 2**53",
            "Pass for example domain=(0, 65536).",
        )
    return int(ends[0]), int(ends[1])


def _enlarged(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if size >= 2**32:
        raise FencepostError(
            f"an index of {size} list entries", "fewer than 2**32", "Take a larger length, or a SliceList."
        )
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    larger[len(array) :] = 0
    return larger
