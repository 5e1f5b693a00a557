"""ISList: the interval skip list of Hanson and Johnson, the baseline that the papers compare with."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Float64s, Int64s, UInt32s
from fencepost.indexes.contracts.intervals import TableIndex
from fencepost.indexes.contracts.registry import EMPTY, Bounds, array_bytes
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.papers.arena import new_arenas
from fencepost.indexes.papers.skiplist import (
    ALIVE,
    CLOSED_HIGH,
    CLOSED_LOW,
    COUNT,
    ENTRIES,
    HEADER,
    HEIGHT,
    KEY,
    LANES,
    LEVELS,
    MOST_LEVELS,
    NEXT,
    NIL,
    NODES,
    OWNERS,
    OWNS_HIGH,
    OWNS_LOW,
    ROOM,
    SHORT_OF_NODES,
    START,
    VALUES_PER_ROUND,
    SkipList,
    Visits,
    attach,
    detach,
    emit,
    trace,
)


class ISList(TableIndex):
    """The interval skip list of Hanson and Johnson.

    A skip list over the distinct end points. An interval leaves its id, as a *marker*, on the highest edges that
    lie inside it and on the nodes between them; a search collects the markers of the edges it descends from.

    A node is a block of 1 + height records: the node itself, then its outgoing edges from level 0 up. It is named
    by its first record. Record 0 is the header; as a successor it means that there is none. Each record has a
    list of markers, ``ids[s:s+n]`` with ``s, n = words[record, START:COUNT+1]``, in a block of ``2**(ROOM-1)``
    items (no block when ROOM is 0); `slots` is parallel to `ids`.

    Invariants, for an interval I from A to B:

    1. Level i links the nodes of height > i, keys strictly ascending. An edge repeats the key of its successor;
       the key of the header, and of no successor, is NaN.
    2. I is on the edge from X to Y on level i exactly if A <= X and Y <= B, and no higher edge around that one lies
       in [A, B] too. These edges are a path from A to B, first rising, then falling.
    3. I is on node X exactly if X is on that path and I contains X, be it open or closed there.
    4. OWNERS of a node is the number of interval ends at its key, and not 0.
    5. Blocks in use and free blocks fill both arenas, without gap or overlap.

    Costs: search O(log n) and the answer; insert and remove O(log² n) expected while few intervals share an edge
    (a new node moves all markers of the edges that it splits); space O(n log n) at worst.

    Deviations: heights are a hash of the seed and a counter, so that a run can be repeated. A node that goes hands
    its markers down to its neighbours, the mirror image of the published insertion, instead of taking all intervals
    around it out and placing them again: the outcome is the same, because invariants 2 and 3 leave no choice. An
    unbounded end is a node at infinity, and always closed.

    Args:
        closed: intervals are ``[lo, hi]``, unless `bounds` gives one other ends.
        seed: of the nodes' heights.

    >>> index = ISList()
    >>> index.insert(7, 10, 13)
    >>> index.insert(8, 12, 20, bounds="(]")
    >>> index.stab([10, 12, 12.5, 13, 20]).sets() == [{7}, {7}, {7, 8}, {8}, {8}]
    True
    >>> index.pieces(7)
    [(10.0, 10.0), (10.0, 12.0), (12.0, 12.0), (12.0, 13.0)]

    """

    def __init__(self, closed: bool = False, seed: int = 0) -> None:
        super().__init__(closed)
        keys, words = _records(64)
        keys[: 1 + MOST_LEVELS, KEY] = np.nan
        arenas = new_arenas(2)
        arenas[NODES, 0] = 1 + MOST_LEVELS
        self._flags = 0
        self._skip = SkipList(
            keys=keys,
            words=words,
            ids=_enlarged(np.zeros(0, np.int64), 64 + PADDING),
            slots=np.zeros(64, np.uint32),
            ends=np.zeros(8, np.uint8),
            arenas=arenas,
            state=np.array([seed & (2**63 - 1), 0, 0, 0]),
            before=np.zeros(MOST_LEVELS, np.int64),
            around=np.zeros((2, MOST_LEVELS)),
            tally=np.zeros((2, MOST_LEVELS), np.int64),
        )

    # -- changing the set -------------------------------------------------------------------------------

    def _insert(
        self,
        ids: Int64s,
        lows: Float64s,
        highs: Float64s,
        bounds: Bounds | None,
    ) -> None:
        if bounds is not None:
            first, last = super()._effective(lows, highs, bounds)
            empty = first > last if self.closed else first >= last
            if empty.any():
                row = int(empty.argmax())
                low, high = float(lows[row, 0]), float(highs[row, 0])
                raise self._refusal(EMPTY, int(ids[row]), low, high, 0, ids[:0], bounds == "[]")
        ends = bounds or ("[]" if self.closed else "[)")
        self._flags = CLOSED_LOW * (ends[0] == "[") + CLOSED_HIGH * (ends[1] == "]")
        super()._insert(ids, lows, highs, bounds)

    def _closed_ends(self, bounds: Bounds | None) -> bool:
        return self.closed if bounds is None else bounds == "[]"

    def _effective(
        self,
        lows: Float64s,
        highs: Float64s,
        bounds: Bounds,  # noqa: ARG002
    ) -> tuple[Float64s, Float64s]:
        """The bounds as given: each interval keeps its own kind of ends."""
        return lows, highs

    def _attach(self, slots: Int64s) -> None:
        if len(self._skip.ends) < len(self._queries.ids):
            self._skip = self._skip._replace(ends=_enlarged(self._skip.ends, len(self._queries.ids)))
        first = 0
        while True:
            first, short = attach(self._skip, self._queries, self._flags, slots, first)
            if first == len(slots):
                break
            self._enlarge(short)

    def _detach(self, slots: Int64s) -> None:
        first = 0
        while True:
            first, short = detach(self._skip, self._queries, slots, first)
            if first == len(slots):
                break
            self._enlarge(short)

    def _enlarge(self, short: int) -> None:
        skip = self._skip
        if short == SHORT_OF_NODES:
            keys, words = _records(2 * len(skip.words))
            keys[: len(skip.keys)] = skip.keys
            self._skip = skip._replace(keys=keys, words=words)
        else:
            items = 2 * len(skip.slots)
            self._skip = skip._replace(ids=_enlarged(skip.ids, items + PADDING), slots=_enlarged(skip.slots, items))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy's `keys` and `words` must be one memory, too."""
        self.__dict__.update(state)
        self._skip = self._skip._replace(words=self._skip.keys.view(np.uint32))

    # -- asking -----------------------------------------------------------------------------------------

    def _stab(self, values: Float64s, out: Matches | None) -> Matches:
        total = len(values)
        per_round = min(VALUES_PER_ROUND, total)
        runs = np.empty((per_round, 1 + int(self._skip.state[LEVELS]), 2), np.uint32)
        visits = Visits(np.empty((LANES, 4), np.int64), np.empty(per_round, np.int64), runs)
        offsets, ids = answer_buffers(total, 0, np.int64, out)
        offsets[0] = 0
        for first in range(0, total, VALUES_PER_ROUND):
            part = values[first : first + per_round]
            trace(self._skip, part, visits)
            part_offsets = offsets[first : first + len(part) + 1]
            done = 0
            while True:
                done, needed = emit(self._skip, visits, part_offsets, ids, done)
                if done == len(part):
                    break
                filled = int(part_offsets[done])
                met = np.arange(runs.shape[1]) < visits.counts[: len(part), None]
                in_round = int(runs[: len(part), :, 1].sum(dtype=np.int64, where=met))
                ids = widened(ids, filled, filled + needed + in_round, out)
        return Matches(offsets, ids[: offsets[total]])

    def pieces(self, id: int) -> list[tuple[float, float]]:
        """What carries one interval, in order: nodes as (key, key), edges between two of them as (from, to)."""
        slot = self._slot(id)
        nodes, heights = self._nodes()
        bases = np.repeat(nodes, 1 + heights)
        records = bases + np.concatenate([np.arange(1 + height) for height in heights])
        at, slots = self._markers(records)
        carriers = at[slots == slot]
        starts, ends = self._skip.keys[bases[carriers], KEY], self._skip.keys[records[carriers], KEY]
        return list(zip(starts.tolist(), ends.tolist(), strict=True))

    # -- reporting --------------------------------------------------------------------------------------

    def storage(self) -> Storage:
        """Nodes, their markers, model and real bytes.

        The model: 4 bytes each for a node's key, owner count and list head, for every forward pointer and the
        head of its list (those of the header that are in use included), and 8 for every marker.
        """
        skip = self._skip
        nodes, heights = self._nodes()
        edges = int(heights.sum() + skip.state[LEVELS])
        entries = int(skip.words[:, COUNT].sum(dtype=np.int64))
        real = self._table_bytes() + array_bytes(skip) - skip.words.nbytes
        return Storage(len(nodes), entries, 4 * (3 * len(nodes) + 2 * edges) + 8 * entries, real)

    def _nodes(self) -> tuple[Int64s, Int64s]:
        """All nodes in the order of their keys, and their heights."""
        following = self._skip.words[:, NEXT].tolist()
        nodes = []
        node = following[HEADER + 1]
        while node != NIL:
            nodes.append(node)
            node = following[node + 1]
        order = np.array(nodes, np.int64)
        return order, self._skip.words[order, HEIGHT].astype(np.int64)

    def _markers(self, records: Int64s) -> tuple[Int64s, Int64s]:
        """Every marker on these records: the rank of its record among them, and its slot."""
        starts, counts = self._skip.words[records, START : COUNT + 1].astype(np.int64).T
        at = np.repeat(np.arange(len(records)), counts)
        entries = (starts - np.cumsum(counts) + counts)[at] + np.arange(counts.sum())
        slots = self._skip.slots[entries].astype(np.int64)
        assert np.array_equal(self._skip.ids[entries], self._queries.ids[slots]), "a marker is its interval's id"
        return at, slots

    def _check(self) -> None:
        skip, words, live, size = self._skip, self._skip.words, self._live_slots(), len(self._skip.ends)
        nodes, heights = self._nodes()
        keys = skip.keys[nodes, KEY]
        assert (np.diff(keys) > 0).all(), "keys ascend"
        assert skip.state[ALIVE] == len(nodes), "the nodes are counted"
        assert skip.state[LEVELS] == heights.max(initial=0), "the highest node has all levels"
        first, last, covered = np.zeros((3, size), np.int64)  # per slot: ranks of the nodes at its ends
        first[live], last[live] = np.searchsorted(keys, self._queries.bounds[live].T)
        owners = np.bincount(np.concatenate([first[live], last[live]]), minlength=len(nodes))
        assert owners.all(), "every node is the end of an interval"
        assert np.array_equal(owners, words[nodes, OWNERS]), "nodes count the ends on them"
        assert np.array_equal(keys[np.stack([first, last])[:, live]], self._queries.bounds[live].T), "ends have nodes"
        assert (skip.ends[live] >= OWNS_LOW + OWNS_HIGH).all(), "every interval is placed"
        visited = [first[live] * size + live]
        for level in range(MOST_LEVELS):
            chain, upper = np.flatnonzero(heights > level), np.flatnonzero(heights > level + 1)
            edges = np.concatenate([[HEADER], nodes[chain]]) + 1 + level
            assert np.array_equal(words[edges, NEXT], [*nodes[chain], NIL]), "a level has the nodes that reach it"
            assert np.array_equal(skip.keys[edges, KEY], [*keys[chain], np.nan], equal_nan=True), "edges have keys"
            at, slots = self._markers(edges)
            assert ((at > 0) & (at < len(chain))).all(), "edges from the header or to nowhere have no markers"
            if len(at) == 0:
                continue
            start, end = chain[at - 1], chain[at]
            assert ((first[slots] <= start) & (end <= last[slots])).all(), "intervals contain the edges they are on"
            outer = np.concatenate([[-1], upper, [len(nodes)]])
            below, above = outer[np.searchsorted(upper, start, "right")], outer[np.searchsorted(upper, end) + 1]
            assert not ((first[slots] <= below) & (above <= last[slots])).any(), "and not the edges above those"
            assert len(np.unique(start * size + slots)) == len(at), "and are there once"
            np.add.at(covered, slots, end - start)
            visited += [start * size + slots, end * size + slots]
        assert np.array_equal(covered, last - first), "the edges of an interval lead from its start to its end"
        node, slot = np.divmod(np.unique(np.concatenate(visited)), size)
        from_low = (first[slot] < node) | (skip.ends[slot] & CLOSED_LOW != 0)
        to_high = (node < last[slot]) | (skip.ends[slot] & CLOSED_HIGH != 0)
        at, slots = self._markers(nodes)
        expected = (node * size + slot)[from_low & to_high]
        assert np.array_equal(np.sort(at * size + slots), expected), "intervals are on the nodes inside, on their path"
        self._check_memory(nodes, heights)

    def _check_memory(self, nodes: Int64s, heights: Int64s) -> None:
        skip = self._skip
        lists = np.flatnonzero(skip.words[:, ROOM])
        starts, counts, room = skip.words[lists, START : ROOM + 1].astype(np.int64).T
        assert ((counts > 0) & (counts <= 1 << (room - 1))).all(), "a list has a block while it needs one"
        assert counts.sum() == skip.words[:, COUNT].sum(dtype=np.int64), "and is empty without"
        classes = [int(height).bit_length() for height in [MOST_LEVELS, *heights]]
        for arena, links, blocks in (
            (NODES, skip.words[:, NEXT], list(zip([HEADER, *nodes.tolist()], classes, strict=True))),
            (ENTRIES, skip.slots, list(zip(starts.tolist(), (room - 1).tolist(), strict=True))),
        ):
            for c, head in enumerate(skip.arenas[arena, 1:].tolist()):
                while head:
                    blocks.append((head - 1, c))
                    head = int(links[head - 1])
            top = 0
            for block, c in sorted(blocks):
                assert block == top, "blocks in use and free blocks fill the arena"
                top += 1 << c
            assert top == skip.arenas[arena, 0], "up to where it is handed out"


def _records(count: int) -> tuple[Float64s, UInt32s]:
    """Memory for so many records, in its two views."""
    keys = _enlarged(np.zeros(0), 4 * count).reshape(count, 4)
    return keys, keys.view(np.uint32)


def _enlarged(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    if size >= 2**32:
        raise FencepostError(f"an index of {size} items", "fewer than 2**32", "Take a SliceList.")
    larger: npt.NDArray[Any] = aligned_empty(size, array.dtype)[:size]
    larger[: len(array)] = array
    larger[len(array) :] = 0
    return larger
