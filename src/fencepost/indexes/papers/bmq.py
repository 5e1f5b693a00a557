"""BMQ: the border-monitoring index, a linked list of regions with the queries that begin and end at each border."""

from typing import NamedTuple

import numpy as np

from fencepost.indexes.arguments import (
    Column,
    Owners,
    bound_column,
    check_ends,
    id_column,
    repeated_rows,
    same_length,
    shown_bound,
)
from fencepost.indexes.arrays import Bools, Float64s, Int64s
from fencepost.indexes.borders.lines import lines_meet, only
from fencepost.indexes.borders.objects import PLACED, UNKNOWN
from fencepost.indexes.contracts.borders import Bound, Crossings, FloatBorders, axis_columns
from fencepost.indexes.contracts.registry import EMPTY, KNOWN, NAN_BOUND, Bounds
from fencepost.indexes.kernels import id_map
from fencepost.indexes.matches import Matches, Storage
from fencepost.indexes.ordinal import LARGEST, floats_to_ordinals
from fencepost.indexes.papers.bmq_kernels import (
    Queries,
    Regions,
    Rows,
    Work,
    attach,
    detach,
    find_all,
    link_after,
    unlink_empty,
    walk,
)


class Touched(NamedTuple):
    """What searches have looked at so far."""

    deltas: int
    """Entries of +DQ and -DQ sets (the paper's intermediate results)."""
    nodes: int
    """Nodes walked over."""
    reported: int
    """Rules entered or left."""

    @property
    def efficiency(self) -> float:
        """Reported results over intermediate ones, the paper's search efficiency."""
        return self.reported / self.deltas if self.deltas else 1.0


class BMQ(FloatBorders):
    """Walks from an object's last region to its new one, over the borders between (BMQ-Index, Lee et al.).

    Per axis an RS list: a node per region between neighbouring bounds, doubly linked, with the queries that begin at
    its lower bound (+DQ) and those that end there (-DQ), as chains through the query table. The stream table keeps a
    node per axis and object, and the last position.

    Invariants: (1) nodes ascend, the first begins at -inf and every other has a query in one of its sets; (2) a query
    is once in the +DQ of the node that begins at its lower bound and, if it is bounded above, once in the -DQ of the
    one at its upper bound; (3) `order` lists the nodes of each axis by lower bound; (4) an object whose version is the
    current one has the nodes that contain its last position.

    Costs: a move is the nodes and delta queries between its ends, about ``2 * n * FL`` of them; the first one of an
    object walks from the first node. Insert and remove are a search and a move of the order array.

    Deviations: the paper does not say how nodes are located: here by binary search in `order`, which also repairs the
    nodes of objects after the rules have changed. A touched query is judged by its bounds at both ends of the move,
    which is the paper's cross-check for any number of axes and its set difference on one; what holds at neither end
    was crossed, on several axes if the straight line meets it.

    >>> bmq = BMQ()
    >>> bmq.insert_many([1, 2, 3, 4, 5], [10, 10, 10, 30, 70], [20, 50, 40, 60, 80])
    >>> moves = bmq.update(["s", "s"], [45, 75])
    >>> moves.enter.sets(), moves.exit.sets()
    ([{2, 4}, {5}], [set(), {2, 4}])
    """

    def __init__(self, dimensions: int = 1) -> None:
        super().__init__(dimensions)
        self._places = id_map.empty_map()
        self._queries = _empty_queries(dimensions, 8)
        self._vacant: list[int] = []
        self._used = 0
        self._regions = _empty_regions(dimensions, 8)
        self._free: list[list[int]] = [[] for _ in range(dimensions)]
        self._version = 1
        self._nodes = np.zeros((0, dimensions), np.int64)
        self._versions = np.zeros(0, np.int64)
        self._ticks = np.zeros(8, np.int64)
        self._counters = np.zeros(4, np.int64)

    @property
    def touched(self) -> Touched:
        """What searches have looked at so far."""
        deltas, nodes, reported, _ = self._counters.tolist()
        return Touched(deltas, nodes, reported)

    # -- rules ------------------------------------------------------------------------------------------

    def insert_many(self, ids: Column, los: Column, his: Column, bounds: Bounds | None = None) -> None:
        """Add many rules at once: all of them or, if one is at fault, none."""
        id_array = id_column(ids)
        lows, highs = self._corners(los, his, bounds, Owners("interval", id_array))
        same_length(id_array, los=lows, his=highs)
        known = find_all(self._places, id_array) >= 0
        known[repeated_rows(id_array)] = True
        not_a_number, empty = np.isnan(lows) | np.isnan(highs), ~(lows < highs)
        faulty = known | empty.any(axis=1)
        if faulty.any():
            row = int(np.argmax(faulty))
            axis = int(np.argmax(empty[row]))
            fault = NAN_BOUND if not_a_number[row, axis] else EMPTY if empty[row, axis] else KNOWN
            low, high = (
                shown_bound(axis_columns(given, self.dimensions, "bound")[axis], row, side)
                for given, side in ((los, -np.inf), (his, np.inf))
            )
            raise self._refusal(fault, int(id_array[row]), low, high, axis, id_array[:row], False)
        slots = self._take_slots(len(id_array))
        self._queries.ids[slots] = id_array
        self._queries.bounds[slots] = np.stack([lows, highs], axis=2)
        self._places = id_map.grown(self._places, len(id_array))
        for id, slot in zip(id_array.tolist(), slots.tolist(), strict=True):
            id_map.put(self._places, id, slot)
        self._split(lows, highs)
        attach(self._regions, self._queries, slots)
        self._version += 1

    def remove_many(self, ids: Column) -> None:
        """Take many rules out: all of them or, if one is unknown, none."""
        id_array = id_column(ids)
        slots = find_all(self._places, id_array)
        faults = np.append(np.flatnonzero(slots < 0), repeated_rows(id_array))
        if len(faults):
            raise self._unknown_row(id_array, int(faults.min()))
        detach(self._regions, self._queries, slots)
        for id in id_array.tolist():
            id_map.drop(self._places, id)
        self._vacant += slots.tolist()
        self._merge()
        self._version += 1

    def _corners(
        self, los: Column, his: Column, bounds: Bounds | None, owners: Owners | None = None
    ) -> tuple[Float64s, Float64s]:
        """Bounds as half-open ranges, a column per axis; other ends are moved to the neighbouring float64."""
        if bounds is not None:
            check_ends(bounds)
        corners = []
        for given, side, what in ((los, -np.inf, "lower bound"), (his, np.inf, "upper bound")):
            columns = axis_columns(given, self.dimensions, what, owners)
            corner = np.column_stack([bound_column(column, side, what, owners) for column in columns])
            if bounds is not None and bounds[0 if side < 0 else 1] == ("(" if side < 0 else "]"):
                corner = np.where(np.isfinite(corner), np.nextafter(corner, np.inf), corner)
            corners.append(corner)
        return corners[0], corners[1]

    def _take_slots(self, count: int) -> Int64s:
        again = self._vacant[len(self._vacant) - min(count, len(self._vacant)) :]
        del self._vacant[len(self._vacant) - len(again) :]
        new = count - len(again)
        if self._used + new > len(self._queries.ids):
            larger = _empty_queries(self.dimensions, self._used + new + self._used // 2)
            for old, array in zip(self._queries, larger, strict=True):
                array[: len(old)] = old
            self._queries = larger
        slots = np.array([*again, *range(self._used, self._used + new)], np.int64)
        self._used += new
        if len(self._ticks) < len(self._queries.ids):
            self._ticks = np.zeros(len(self._queries.ids), np.int64)
            self._counters[3] = 0
        return slots

    def _split(self, lows: Float64s, highs: Float64s) -> None:
        """Make a node for every bound that begins none yet."""
        firsts = self._regions.order_first
        all_lows, all_nodes, counts = [], [], []
        for axis in range(self.dimensions):
            begin, end = int(firsts[axis]), int(firsts[axis + 1])
            old_lows, old_nodes = self._regions.order_lows[begin:end], self._regions.order_nodes[begin:end]
            wanted = np.unique(np.concatenate([lows[:, axis], highs[:, axis]]))
            wanted = wanted[np.isfinite(wanted)] + 0.0
            new = wanted[old_lows[np.searchsorted(old_lows, wanted, "right") - 1] != wanted]
            at = np.searchsorted(old_lows, new)
            nodes = self._take_nodes(axis, len(new))
            self._regions.lows[nodes, axis] = new
            all_lows.append(np.insert(old_lows, at, new))
            all_nodes.append(np.insert(old_nodes, at, nodes))
            counts.append(len(all_lows[-1]))
            link_after(self._regions, axis, all_nodes[-1], at + np.arange(len(new)))
        self._reorder(all_lows, all_nodes, counts)

    def _merge(self) -> None:
        """Merge every node without queries into its left neighbour."""
        firsts = self._regions.order_first
        all_lows, all_nodes, counts = [], [], []
        for axis in range(self.dimensions):
            begin, end = int(firsts[axis]), int(firsts[axis + 1])
            lows, nodes = self._regions.order_lows[begin:end], self._regions.order_nodes[begin:end]
            kept = np.ones(len(nodes), np.bool_)
            unlink_empty(self._regions, axis, nodes, kept)
            self._free[axis] += nodes[~kept].tolist()
            all_lows.append(lows[kept])
            all_nodes.append(nodes[kept])
            counts.append(len(all_lows[-1]))
        self._reorder(all_lows, all_nodes, counts)

    def _reorder(self, lows: list[Float64s], nodes: list[Int64s], counts: list[int]) -> None:
        self._regions = self._regions._replace(
            order_lows=np.concatenate(lows),
            order_nodes=np.concatenate(nodes),
            order_first=np.concatenate([[0], np.cumsum(counts)]),
        )

    def _take_nodes(self, axis: int, count: int) -> Int64s:
        again = [self._free[axis].pop() for _ in range(min(count, len(self._free[axis])))]
        new = count - len(again)
        used = int(self._regions.used[axis])
        if used + new > len(self._regions.lows):
            larger = _empty_regions(self.dimensions, used + new + used // 2)
            size = len(self._regions.lows)
            for old, array in zip(self._regions[:5], larger[:5], strict=True):
                array[:size] = old
            self._regions = Regions(*larger[:5], *self._regions[5:])
        self._regions.used[axis] += new
        return np.array([*again, *range(used, used + new)], np.int64)

    # -- moves ------------------------------------------------------------------------------------------

    def _crossings(self, before: Float64s, after: Float64s, unplaced: Bools, missing: Bools) -> Crossings:
        rows = len(after)
        nodes = np.zeros((rows, self.dimensions), np.int64)
        return self._walk(Rows(np.arange(rows), before, after, unplaced, missing), nodes, np.zeros(rows, np.int64))

    def _update(self, slots: Int64s, after: Float64s, missing: Bools) -> Crossings:
        more = len(self._objects.states) - len(self._versions)
        if more > 0:
            self._versions = np.append(self._versions, np.zeros(more, np.int64))
            self._nodes = np.concatenate([self._nodes, np.zeros((more, self.dimensions), np.int64)])
        before, states = self._objects.move(slots, after.view(np.int64), missing, PLACED)
        rows = Rows(slots, before.view(np.float64), after, states == UNKNOWN, missing)
        counted = self._counters[:3].copy()
        try:
            return self._walk(rows, self._nodes, self._versions)
        except BaseException:
            self._versions[slots] = 0  # the objects go back to where they were: their nodes are found anew
            self._counters[:3] = counted
            raise

    def _walk(self, rows: Rows, nodes: Int64s, versions: Int64s) -> Crossings:
        count = len(rows.after)
        offsets = np.zeros((3, count + 1), np.int64)
        ids = [np.empty(2 * count + len(self), np.int64) for _ in range(3)]
        work = Work(self._ticks, np.empty(len(self._queries.ids), np.int64), self._counters)
        row = 0
        while True:
            row = walk(self._regions, self._queries, rows, nodes, versions, self._version, work, row, offsets, *ids)
            if row == count:
                break
            for kind in range(3):
                filled = int(offsets[kind, row])
                larger = np.empty(2 * len(ids[kind]) + len(self), np.int64)
                larger[:filled] = ids[kind][:filled]
                ids[kind] = larger
        enter, exit, cross = (Matches(offsets[kind], ids[kind][: offsets[kind, -1]]) for kind in range(3))
        return Crossings(enter, exit, cross if self.dimensions == 1 else self._met(rows, cross))

    def _met(self, rows: Rows, candidates: Matches) -> Matches:
        """Of the rules that hold at neither end, those that the straight line meets."""
        at = np.repeat(np.arange(len(candidates)), candidates.counts)
        bounds = self._queries.bounds[find_all(self._places, candidates.ids)]
        before, after = (floats_to_ordinals(np.ascontiguousarray(ends[at])) for ends in (rows.before, rows.after))
        firsts, highs = (floats_to_ordinals(np.ascontiguousarray(bounds[:, :, side])) for side in (0, 1))
        lasts = np.where(np.isposinf(bounds[:, :, 1]), LARGEST, highs - 1)
        return only(candidates, lines_meet(before, after, firsts, lasts, ["float64"] * self.dimensions))

    # -- objects and reporting --------------------------------------------------------------------------

    def remove_objects(self, objects: Column) -> None:
        """Forget many objects: all of them or, if one is unknown, none."""
        super().remove_objects(objects)
        self._versions[self._objects.states[: len(self._versions)] == UNKNOWN] = 0

    def _inside(self, id: int, slots: Int64s) -> Bools:
        lows, highs = self._queries.bounds[self._slot(id)].T
        return self._holds(lows, highs, slots)

    def _inside_range(self, id: int, lo: Bound, hi: Bound, bounds: Bounds | None, slots: Int64s) -> Bools:
        self._slot(id)
        lows, highs = self._corners([lo], [hi], bounds)
        return self._holds(lows[0], highs[0], slots)

    def _holds(self, lows: Float64s, highs: Float64s, slots: Int64s) -> Bools:
        values = self._last(slots)
        inside: Bools = np.all((values >= lows) & ((values < highs) | np.isposinf(highs)), axis=1)
        return inside

    def _find(self, id: int) -> int:
        return int(id_map.find(self._places, id))

    def storage(self) -> Storage:
        """Nodes, and entries of delta sets; the model is 8 bytes for each of them and per object and axis."""
        nodes = len(self._regions.order_nodes)
        entries = 2 * len(self) * self.dimensions
        real = sum(array.nbytes for part in (self._places, self._queries, self._regions) for array in part)
        model = 8 * (nodes + entries + self.objects * self.dimensions)
        return Storage(nodes, entries, model, real + self._nodes.nbytes + self._versions.nbytes)

    def __len__(self) -> int:
        return int(self._places.size[0])

    def nodes(self, axis: int = 0) -> list[tuple[float, set[int], set[int]]]:
        """The regions of one axis in order: lower bound, +DQ and -DQ."""
        found = []
        node = int(self._regions.order_nodes[self._regions.order_first[axis]])
        while node >= 0:
            sets: list[set[int]] = []
            for side in (0, 1):
                query, chain = int(self._regions.heads[node, axis, side]), set()
                while query >= 0:
                    chain.add(int(self._queries.ids[query]))
                    query = int(self._queries.links[query, axis, side, 0])
                sets.append(chain)
            found.append((float(self._regions.lows[node, axis]), sets[0], sets[1]))
            node = int(self._regions.right[node, axis])
        return found

    def check(self) -> None:
        """Assert every invariant of the structure: for tests, and for anyone in doubt."""
        self._objects.check()
        slots = self._places.places()
        assert len(set(slots.tolist())) == len(self), "a query has a slot of its own"
        assert self._used == len(self) + len(self._vacant), "every slot is in use or vacant"
        firsts = self._regions.order_first
        for axis in range(self.dimensions):
            nodes = self.nodes(axis)
            lows = [low for low, _, _ in nodes]
            order = slice(int(firsts[axis]), int(firsts[axis + 1]))
            assert lows[0] == -np.inf, "the first node begins at -inf"
            assert lows == sorted(set(lows)), "nodes ascend"
            assert lows == self._regions.order_lows[order].tolist(), "the order lists the nodes"
            assert all(plus or minus for _, plus, minus in nodes[1:]), "every other node has a query"
            at = {low: (plus, minus) for low, plus, minus in nodes}
            begun = {id: low for low, plus, _ in nodes for id in plus}
            ended = {id: low for low, _, minus in nodes for id in minus}
            assert sum(len(plus) for plus, _ in at.values()) == len(begun) == len(self), "each query begins once"
            for slot in slots.tolist():
                id, (low, high) = int(self._queries.ids[slot]), self._queries.bounds[slot, axis].tolist()
                assert begun[id] == low, "a query begins at its lower bound"
                assert ended.get(id, np.inf) == high, "and ends at its upper one"
        current = np.flatnonzero(self._versions == self._version)
        for slot in current.tolist():
            for axis, value in enumerate(self._last(np.array([slot]))[0].tolist()):
                node = int(self._nodes[slot, axis])
                behind = int(self._regions.right[node, axis])
                assert self._regions.lows[node, axis] <= value, "an object is in its node"
                assert behind < 0 or value < self._regions.lows[behind, axis], "and not beyond it"


def _empty_queries(dimensions: int, capacity: int) -> Queries:
    shape = (capacity, dimensions, 2)
    return Queries(np.zeros(capacity, np.int64), np.zeros(shape), np.full((*shape, 2), -1, np.int64))


def _empty_regions(dimensions: int, capacity: int) -> Regions:
    """One node per axis, the whole of it."""
    return Regions(
        np.full((capacity, dimensions), -np.inf),
        np.full((capacity, dimensions), -1, np.int64),
        np.full((capacity, dimensions), -1, np.int64),
        np.full((capacity, dimensions, 2), -1, np.int64),
        np.zeros((capacity, dimensions), np.int64),
        np.ones(dimensions, np.int64),
        np.full(dimensions, -np.inf),
        np.zeros(dimensions, np.int64),
        np.arange(dimensions + 1),
    )
