"""Id lists on virtual constructs, of any number of dimensions: their memory, and how decompositions fill them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.contracts.registry import Registry, array_bytes
from fencepost.indexes.kernels import id_map
from fencepost.indexes.kernels.vectors import PADDING
from fencepost.indexes.papers.arena import new_arenas
from fencepost.indexes.papers.construct_lists import (
    ENTRIES,
    LISTS,
    SHORT_OF_ENTRIES,
    SHORT_OF_LISTS,
    SHORT_OF_PIECES,
    Lists,
    attach,
    detach,
    missing_room,
    reserve,
    tally,
    verify,
)

_BULK = 4096


class ListedConstructs(Registry):
    """An index whose queries are decomposed into codes, each the list of a construct."""

    _lists: Lists

    def _create_lists(self, dense: int, segments: int, unit_bits: int, start: int, size: int) -> None:
        """`dense` lists that always exist, two for what lies outside the domain, room for a unit array per segment."""
        fixed = dense + 2
        arenas = new_arenas(3)
        arenas[LISTS, 0] = fixed
        self._lists = Lists(
            heads=np.zeros((fixed + 8, 2), np.uint32),
            room=np.zeros(fixed + 8, np.uint8),
            ids=np.zeros(64 + PADDING, np.int64),
            owners=np.zeros(64, np.uint32),
            where=np.zeros(64, np.uint32),
            pieces=np.zeros((8, 2), np.uint32),
            sparse=id_map.empty_map(),
            units=np.zeros((segments, 2), np.uint32),
            arenas=arenas,
            layout=np.array([dense, unit_bits, start, size]),
        )
        self._codes = np.empty(1 << 14, np.int64)
        self._code_offsets = np.empty((1 << 14) + 1, np.int64)

    # -- what a structure supplies ----------------------------------------------------------------------

    _shape: Any
    """The structure's parameters, as its kernels take them: a tuple of its own."""

    _decompose: Callable[..., int]
    """Kernel ``(shape, layout, bounds, slots, offsets, codes)``: writes the codes of as many of the slots as
    fit `offsets` and `codes`, and returns how many that were."""

    # -- decomposition ----------------------------------------------------------------------------------

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
            self._lists = self._lists._replace(pieces=enlarged(self._lists.pieces, needed))
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
            self._lists = lists._replace(where=enlarged(lists.where, 2 * len(lists.where)))
        elif short == SHORT_OF_LISTS:
            more = max(8, len(lists.heads) // 4, 1 << int(lists.layout[1]))
            self._lists = lists._replace(
                heads=enlarged(lists.heads, len(lists.heads) + more),
                room=enlarged(lists.room, len(lists.room) + more),
            )
        else:
            free = len(lists.sparse.slots) // 2 - int(lists.sparse.size[0])
            self._lists = lists._replace(sparse=id_map.grown(lists.sparse, free + 1))

    def _enlarge_entries(self, items: int) -> None:
        if items > len(self._lists.owners):
            self._lists = self._lists._replace(
                ids=enlarged(self._lists.ids, items + PADDING), owners=enlarged(self._lists.owners, items)
            )

    def _detach(self, slots: Int64s) -> None:
        for batch in self._batches(slots):
            detach(self._lists, batch, self._codes, self._code_offsets)

    # -- reporting --------------------------------------------------------------------------------------

    def _entries(self) -> int:
        return int(self._lists.heads[:, 1].sum(dtype=np.int64, where=self._lists.room > 0))

    def _list_bytes(self) -> int:
        lists = self._lists
        real = self._table_bytes() + array_bytes(lists.sparse)
        return real + sum(a.nbytes for a in lists if not isinstance(a, tuple))

    def _check(self) -> None:
        pieces = 0
        for batch in self._batches(self._live_slots()):
            fault = verify(self._lists, self._queries.ids, batch, self._codes, self._code_offsets)
            assert fault == 0, f"id {self._queries.ids[batch[fault - 1]]} is not where its pieces say"
            pieces += int(self._code_offsets[len(batch)])
        assert self._entries() == pieces, "every entry belongs to a piece"
        dense = int(self._lists.layout[0])
        if len(self) == 0:
            assert not self._lists.room.any(), "an empty index keeps no blocks"
            assert self._lists.sparse.size[0] == 0, "an empty index keeps no sparse lists"
            assert not self._lists.units.any(), "an empty index keeps no unit arrays"
            assert dense + 2 <= self._lists.arenas[LISTS, 0], "the dense lists stay"


def power_of_two(length: int, name: str = "length") -> int:
    """log2 of a length that must be a power of two."""
    if not isinstance(length, int | np.integer) or length < 1 or length & (length - 1):
        raise FencepostError(
            f"{name} {length!r}", "a power of two (1, 2, 4, ...)", f"Round it up to {_next_power(length)}."
        )
    return int(length).bit_length() - 1


def _next_power(length: Any) -> int:
    return 1 << max(0, int(length) - 1).bit_length() if isinstance(length, int | float | np.number) else 1


def whole_pair(domain: tuple[int, int]) -> tuple[int, int]:
    """A domain ``(start, end)`` of whole numbers."""
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


def enlarged(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """A copy with more rows, zeros behind those it has; slots of 32 bits must be able to count them."""
    if size >= 2**32:
        raise FencepostError(
            f"an index of {size} list entries", "fewer than 2**32", "Take a larger length, or a SliceList."
        )
    larger = np.empty((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    larger[len(array) :] = 0
    return larger
