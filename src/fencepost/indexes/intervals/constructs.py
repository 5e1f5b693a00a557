"""The mechanism that UI, SCI, LCI, CEI and ACEI share: id lists on virtual constructs.

A structure defines its constructs, writes an interval as a union of them (`decompose`) and names those that
contain a value (`cover`). Everything else is here: the lists and their memory, the boundary policy for
intervals and values that do not fit the integer domain, and the copying of answers (PAPERS section 0).

A decomposition is a sequence of *codes*, one per piece:

* ``0 <= code < dense``: a construct that always exists;
* ``code >= dense``: unit ``code - dense`` of the domain, in an array that exists only while it is used (ACEI);
* `BELOW`, `ABOVE`: the interval reaches beyond that end of the domain, and is checked for values out there;
* smaller ones: a list of a single unit cell that an interval fills only in part (checked), or of the single
  integer point at which a closed interval ends (exact). See `cell_code` and `point_code`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.compiled import kernel
from fencepost.errors import FencepostError
from fencepost.indexes import idmap
from fencepost.indexes.arena import new_arenas, release, size_class, take
from fencepost.indexes.arrays import Float64s, Int64s, UInt8s, UInt32s, i64
from fencepost.indexes.idmap import ABSENT, IdMap
from fencepost.indexes.intervals.contract import Queries, TableIndex, array_bytes, holds
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.vectors import PADDING, copy_run, prefetch

__all__ = [
    "MOST_EXTRA_CODES",
    "ConstructIndex",
    "Piece",
    "Plan",
    "finish_codes",
    "plan",
    "power_of_two",
    "whole_length",
]

MOST_EXTRA_CODES = 5
BELOW, ABOVE, SPARSE = -1, -2, -3
_LISTS, _ENTRIES, _PIECES = 0, 1, 2

Piece = int | tuple[str | int, int]
"""A construct's id, or a pair for what is not numbered: ``("point", b)``, ``("unit", j)``, (segment, id)."""

_MAX_LISTS = 2**31
_VALUES_PER_ROUND = 4096
_RUNS_PER_ROUND = 1 << 17
_BULK = 4096
_RUNS_AHEAD = 24
_PREFETCHED_IDS = 128


class Lists(NamedTuple):
    """All id lists of one index, in flat arrays.

    Invariants: (1) list l is ``ids[s:s+n]`` with ``s, n = heads[l]``, in a block of ``2**(room[l]-1)`` items
    (no block when `room` is 0); (2) `owners` of an entry is the piece it stands for, and `where` of that
    piece is the entry's rank in its list; (3) the pieces of slot q are ``where[f:f+c]`` with ``f, c =
    pieces[q]``, in the order of its codes; (4) an empty list that is not dense does not exist.

    Exact lists hold query ids, checked lists hold query slots.
    """

    heads: UInt32s
    room: UInt8s
    ids: Int64s
    owners: UInt32s
    where: UInt32s
    pieces: UInt32s
    sparse: IdMap
    units: UInt32s
    """Per segment 1 + the first list of its unit array, or 0, and the entries in that array."""
    arenas: Int64s
    """The state of the arenas of lists, entries and pieces, in that order."""
    layout: Int64s
    """[dense lists, log2 of a unit array's length, start of the domain, size of the domain]"""


class Plan(NamedTuple):
    """An interval cut along the boundary policy, in coordinates relative to the domain's start."""

    first: int
    """The core of whole cells is ``[first, last)``; empty if last <= first."""
    last: int
    left: int
    """The part-filled cell at the lower end, or -1."""
    right: int
    """The part-filled cell at the upper end, if it is another one, or -1."""
    point: int
    """The integer that a closed interval ends on, or -1."""
    below: bool
    above: bool


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
        arenas[_LISTS, 0] = fixed
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
        items = int(self._lists.arenas[_ENTRIES, 0]) + missing_room(self._lists, added)
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
                rate = (filled + needed) / (first + done + 1)
                ids = widened(ids, filled, filled + needed + int(1.05 * rate * (total - first - done)), out)
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
            assert dense + 2 <= self._lists.arenas[_LISTS, 0], "the dense lists stay"


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


# -- decomposition kernels ------------------------------------------------------------------------------


@kernel
def cell_code(cell: int) -> Any:
    """The code of the checked list of one unit cell."""
    return SPARSE - 2 * cell


@kernel
def point_code(point: int) -> Any:
    """The code of the exact list of one integer point."""
    return SPARSE - 2 * point - 1


@kernel
def plan(layout: Int64s, closed: bool, bounds: Float64s, slot: int) -> Plan:
    """Split the interval in one slot along the boundary policy."""
    low, high = bounds[slot, 0], bounds[slot, 1]
    start, end = layout[2], layout[2] + layout[3]
    below = low < start
    above = high > end or (closed and high == end)
    if low >= end or high < start or (high == start and not closed):
        return Plan(0, 0, -1, -1, -1, below, above)
    a = max(low, np.float64(start))
    b = min(high, np.float64(end))
    first = i64(np.ceil(a)) - start
    last = i64(np.floor(b)) - start
    left = i64(np.floor(a)) - start if np.floor(a) != a else -1
    right = last if np.floor(b) != b and last != left else -1
    point = last if closed and not above and np.floor(b) == b else -1
    return Plan(first, last, left, right, point, below, above)


@kernel
def finish_codes(codes: Int64s, n: int, cut: Plan, with_point: bool) -> Any:
    """Append the codes of everything that is not core, `MOST_EXTRA_CODES` at most; the new length."""
    if cut.left >= 0:
        codes[n] = cell_code(cut.left)
        n += 1
    if cut.right >= 0:
        codes[n] = cell_code(cut.right)
        n += 1
    if cut.point >= 0 and with_point:
        codes[n] = point_code(cut.point)
        n += 1
    if cut.below:
        codes[n] = BELOW
        n += 1
    if cut.above:
        codes[n] = ABOVE
        n += 1
    return n


# -- list kernels ---------------------------------------------------------------------------------------

SHORT_OF_ENTRIES, SHORT_OF_PIECES, SHORT_OF_LISTS, SHORT_OF_SPARSE = 1, 2, 3, 4


@kernel
def existing_list(lists: Lists, code: int) -> Any:
    """The list behind a code, or `ABSENT`."""
    dense = lists.layout[0]
    if code >= dense:
        unit = code - dense
        block = i64(lists.units[unit >> lists.layout[1], 0])
        return block - 1 + (unit & ((1 << lists.layout[1]) - 1)) if block else ABSENT
    if code >= 0:
        return code
    if code > SPARSE:
        return dense - 1 - code
    return idmap.find(lists.sparse, SPARSE - code)


@kernel
def created_list(lists: Lists, code: int) -> Any:
    """The list behind a code, which exists from now on."""
    found = existing_list(lists, code)
    if found != ABSENT:
        return found
    dense = lists.layout[0]
    if code >= dense:
        unit_bits = lists.layout[1]
        segment = (code - dense) >> unit_bits
        lists.units[segment, 0] = 1 + take(lists.arenas, _LISTS, lists.heads[:, 0], unit_bits)
        block = i64(lists.units[segment, 0]) - 1
        for unit in range(block, block + (1 << unit_bits)):
            lists.heads[unit, 0] = 0
            lists.heads[unit, 1] = 0
        return existing_list(lists, code)
    place = take(lists.arenas, _LISTS, lists.heads[:, 0], 0)
    lists.heads[place, 0] = 0
    lists.heads[place, 1] = 0
    idmap.put(lists.sparse, SPARSE - code, place)
    return place


@kernel
def widen(lists: Lists, place: int, room: int) -> None:
    """Move a list to a block of ``2**(room-1)`` items."""
    start, count, old = i64(lists.heads[place, 0]), i64(lists.heads[place, 1]), lists.room[place]
    block = take(lists.arenas, _ENTRIES, lists.owners, room - 1)
    for j in range(count):
        lists.ids[block + j] = lists.ids[start + j]
        lists.owners[block + j] = lists.owners[start + j]
    if old:
        release(lists.arenas, _ENTRIES, lists.owners, i64(old) - 1, start)
    lists.heads[place, 0] = block
    lists.room[place] = room


@kernel
def shortage(lists: Lists, codes: Int64s, begin: int, end: int) -> Any:
    """What must be enlarged before the pieces of one more interval are attached, or 0."""
    if lists.arenas[_PIECES, 0] + (1 << size_class(end - begin)) > len(lists.where):
        return SHORT_OF_PIECES
    items = lists.arenas[_ENTRIES, 0]
    new_lists = lists.arenas[_LISTS, 0]
    new_sparse = 0
    for j in range(begin, end):
        place = existing_list(lists, codes[j])
        if place == ABSENT:
            items += 1
            if codes[j] >= 0:
                new_lists += 1 << lists.layout[1]
            else:
                new_lists += 1
                new_sparse += 1
        else:
            room = i64(lists.room[place])
            if room == 0 or i64(lists.heads[place, 1]) == (1 << (room - 1)):
                items += 1 << room
    if items > len(lists.owners):
        return SHORT_OF_ENTRIES
    if new_lists > len(lists.heads):
        return SHORT_OF_LISTS
    if 2 * (lists.sparse.size[0] + new_sparse) > len(lists.sparse.slots):
        return SHORT_OF_SPARSE
    return 0


@kernel
def attach(
    lists: Lists,
    query_ids: Int64s,
    slots: Int64s,
    codes: Int64s,
    offsets: Int64s,
    first: int,
) -> tuple[int, int]:
    """Append each interval to the lists of its codes; the row it stopped at, and what it was short of.

    A helper that takes all the lists costs a reference count per array and call, so dense lists with room,
    the common case, are served without one.
    """
    heads, rooms, ids, owners, where = lists.heads, lists.room, lists.ids, lists.owners, lists.where
    dense = lists.layout[0]
    ahead = 12
    for row in range(first, len(slots)):
        begin, end = offsets[row], offsets[row + 1]
        simple = lists.arenas[_PIECES, 0] + 2 * (end - begin) <= len(where)
        for j in range(begin, end):
            code = codes[j]
            if code < 0 or code >= dense:
                simple = False
            else:
                room = i64(rooms[code])
                simple = simple and room > 0 and i64(heads[code, 1]) < (1 << (room - 1))
        if not simple:
            short = shortage(lists, codes, begin, end)
            if short:
                return row, short
        slot = slots[row]
        piece = take(lists.arenas, _PIECES, where, size_class(end - begin))
        lists.pieces[slot, 0] = piece
        lists.pieces[slot, 1] = end - begin
        for j in range(begin, end):
            code = codes[j]
            if j + ahead < offsets[len(slots)]:
                coming = codes[j + ahead]
                if 0 <= coming < dense:
                    prefetch(heads, 2 * coming)
            place = code
            if not simple:
                place = created_list(lists, code)
                room = i64(rooms[place])
                if room == 0 or i64(heads[place, 1]) == (1 << (room - 1)):
                    widen(lists, place, room + 1)
            count = i64(heads[place, 1])
            at = i64(heads[place, 0]) + count
            checked = code < 0 and (code > SPARSE or (SPARSE - code) & 1 == 0)
            ids[at] = slot if checked else query_ids[slot]
            owners[at] = piece
            where[piece] = count
            heads[place, 1] = count + 1
            if code >= dense:
                lists.units[(code - dense) >> lists.layout[1], 1] += 1
            piece += 1
    return len(slots), 0


@kernel
def detach(
    lists: Lists,
    slots: Int64s,
    codes: Int64s,
    offsets: Int64s,
) -> None:
    """Undo `attach`: the last entry of each list takes the place of the one that leaves."""
    heads, ids, owners, where, units = lists.heads, lists.ids, lists.owners, lists.where, lists.units
    arenas = lists.arenas
    dense, unit_bits = lists.layout[0], lists.layout[1]
    for row in range(len(slots)):
        slot = slots[row]
        piece = i64(lists.pieces[slot, 0])
        for j in range(offsets[row], offsets[row + 1]):
            code = codes[j]
            place = code if 0 <= code < dense else existing_list(lists, code)
            start = i64(heads[place, 0])
            last = i64(heads[place, 1]) - 1
            rank = i64(where[piece])
            moved = owners[start + last]
            ids[start + rank] = ids[start + last]
            owners[start + rank] = moved
            where[moved] = rank
            heads[place, 1] = last
            room = i64(lists.room[place])
            if last == 0:
                release(arenas, _ENTRIES, owners, room - 1, start)
                lists.room[place] = 0
                if code <= SPARSE:
                    idmap.drop(lists.sparse, SPARSE - code)
                    release(arenas, _LISTS, heads[:, 0], 0, place)
            elif room > 3 and last <= (1 << (room - 3)):
                release(arenas, _ENTRIES, owners, room - 2, start + (1 << (room - 2)))
                lists.room[place] = room - 1
            if code >= dense:
                segment = (code - dense) >> unit_bits
                units[segment, 1] -= 1
                if units[segment, 1] == 0:
                    release(arenas, _LISTS, heads[:, 0], unit_bits, i64(units[segment, 0]) - 1)
                    units[segment, 0] = 0
            piece += 1
        block_class = size_class(i64(lists.pieces[slot, 1]))
        release(arenas, _PIECES, where, block_class, i64(lists.pieces[slot, 0]))


@kernel
def tally(codes: Int64s, count: int, added: UInt32s) -> None:
    """Count the pieces on each dense list."""
    for j in range(count):
        if 0 <= codes[j] < len(added):
            added[codes[j]] += 1


@kernel
def missing_room(lists: Lists, added: UInt32s) -> Any:
    """Items that new blocks need if every dense list is to hold what is added to it."""
    items = 0
    for place in range(len(added)):
        if added[place]:
            room = 1 + size_class(i64(lists.heads[place, 1]) + i64(added[place]))
            if room > lists.room[place]:
                items += 1 << (room - 1)
    return items


@kernel
def reserve(lists: Lists, added: UInt32s) -> None:
    """Make room in every dense list for what is added to it."""
    arenas, owners = lists.arenas, lists.owners
    for place in range(len(added)):
        if added[place]:
            c = size_class(i64(lists.heads[place, 1]) + i64(added[place]))
            if lists.room[place] == 0:
                lists.heads[place, 0] = take(arenas, _ENTRIES, owners, c)
                lists.room[place] = c + 1
            elif c + 1 > lists.room[place]:
                widen(lists, place, c + 1)


@kernel
def verify(
    lists: Lists,
    query_ids: Int64s,
    slots: Int64s,
    codes: Int64s,
    offsets: Int64s,
) -> Any:
    """1 + the first row whose pieces are not all in place, or 0."""
    for row in range(len(slots)):
        slot = slots[row]
        piece = i64(lists.pieces[slot, 0])
        if i64(lists.pieces[slot, 1]) != offsets[row + 1] - offsets[row]:
            return row + 1
        for j in range(offsets[row], offsets[row + 1]):
            place = existing_list(lists, codes[j])
            if place == ABSENT or lists.where[piece] >= lists.heads[place, 1]:
                return row + 1
            if i64(lists.heads[place, 1]) > (1 << (i64(lists.room[place]) - 1)):
                return row + 1
            at = i64(lists.heads[place, 0]) + i64(lists.where[piece])
            if lists.owners[at] != piece or (lists.ids[at] != slot and lists.ids[at] != query_ids[slot]):
                return row + 1
            piece += 1
    return 0


# -- search kernels -------------------------------------------------------------------------------------


@kernel
def locate(layout: Int64s, values: Float64s, cells: Int64s) -> None:
    """The unit cell of each value, or -1 for one outside the domain."""
    start, size = layout[2], layout[3]
    for i in range(len(values)):
        value = values[i]
        inside = value >= start and value < start + size
        cells[i] = i64(np.floor(value)) - start if inside else -1


@kernel
def emit(
    lists: Lists,
    queries: Queries,
    closed: bool,
    values: Float64s,
    cells: Int64s,
    run_offsets: Int64s,
    runs: UInt32s,
    offsets: Int64s,
    out: Int64s,
    first: int,
) -> tuple[int, int]:
    """Copy the runs of each value to the answer, then what lies outside the constructs.

    Returns the row it stopped at for want of room, and the room that row needs.
    """
    ids = lists.ids
    any_sparse = lists.sparse.size[0] > 0
    room = len(out) - PADDING
    at = offsets[first]
    coming = run_offsets[first]
    for i in range(first, len(values)):
        begin, end = run_offsets[i], run_offsets[i + 1]
        while coming < min(end + _RUNS_AHEAD, run_offsets[len(values)]):
            start = i64(runs[coming, 0])
            for line in range(start, start + min(i64(runs[coming, 1]), _PREFETCHED_IDS), 8):
                prefetch(ids, line)
            coming += 1
        needed = 0
        for run in range(begin, end):
            needed += i64(runs[run, 1])
        checked = ABSENT
        point = ABSENT
        if any_sparse or cells[i] < 0:
            checked, point = lists_beside(lists, values[i], cells[i])
            needed += i64(lists.heads[checked, 1]) if checked != ABSENT else 0
            needed += i64(lists.heads[point, 1]) if point != ABSENT else 0
        if at + needed > room:
            return i, needed
        for run in range(begin, end):
            count = i64(runs[run, 1])
            copy_run(out, at, ids, i64(runs[run, 0]), count)
            at += count
        if checked != ABSENT:
            start = i64(lists.heads[checked, 0])
            for entry in range(start, start + i64(lists.heads[checked, 1])):
                slot = ids[entry]
                if holds(queries.bounds[slot, 0], queries.bounds[slot, 1], closed, values[i]):
                    out[at] = queries.ids[slot]
                    at += 1
        if point != ABSENT:
            count = i64(lists.heads[point, 1])
            copy_run(out, at, ids, i64(lists.heads[point, 0]), count)
            at += count
        offsets[i + 1] = at
    return len(values), 0


@kernel
def lists_beside(lists: Lists, value: float, cell: int) -> tuple[int, int]:
    """The checked list and the exact point list that concern a value beside its constructs, or `ABSENT`."""
    dense = lists.layout[0]
    if cell < 0:
        if np.isnan(value):
            return ABSENT, ABSENT
        return (dense if value < lists.layout[2] else dense + 1), ABSENT
    point = existing_list(lists, point_code(cell)) if np.floor(value) == value else ABSENT
    return existing_list(lists, cell_code(cell)), point
