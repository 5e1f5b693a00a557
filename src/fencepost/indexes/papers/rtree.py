"""RTree: Guttman's R-tree, the baseline of the VCR report, and its packed form."""

import math

import numpy as np
from typing_extensions import override

from fencepost.indexes.arrays import Float64s, Int64s
from fencepost.indexes.contracts.boxes import TableBoxes
from fencepost.indexes.contracts.registry import array_bytes
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.papers.listed import enlarged
from fencepost.indexes.papers.rtree_kernels import (
    FANOUT,
    FAR,
    FEWEST,
    HEIGHT,
    MOST_LEVELS,
    NODES_IN_USE,
    ROOT,
    Scratch,
    Tree,
    fill_nodes,
    insert_slots,
    new_node,
    remove_slots,
    search,
)


class RTree(TableBoxes):
    """An R-tree (Guttman 1984) with quadratic splits and least enlargement, 12 to 32 entries per node.

    Arrays: see `Tree`. Boxes in the tree are closed: a half-open end is kept as the last float64 before it.

    Invariants: (1) every node but the root has at least 12 entries, and none more than 32; (2) the box of an
    entry is exactly the smallest around the node below it; (3) all leaves have level 0, and a node's children the
    level below its own; (4) `home` and `parents` name the node an entry is in.

    Deviations: a box finds its leaf by `home` instead of a search; areas are computed with unbounded sides cut at
    1e18, which only guides the choice of nodes.

    Args:
        dimensions: coordinates of a point.
        closed: boxes are ``[lo, hi]`` in every dimension.
        packed: `insert_many` into an empty tree packs it (sort-tile-recursive) instead of inserting one by one.

    Costs: search all nodes whose box contains the point; insert and remove O(log n) nodes, 32**2 per split; space
    about 16 d / fill bytes per box and the table of bounds.

    >>> index = RTree(dimensions=2)
    >>> index.insert(7, (3, 3), (14, 9))
    >>> index.stab([(3, 3), (13.5, 8.5), (14, 5)]).sets()
    [{7}, {7}, set()]
    """

    def __init__(self, dimensions: int = 2, closed: bool = False, packed: bool = False) -> None:
        super().__init__(dimensions, closed)
        self.packed = packed
        sides = 2 * self.dimensions
        self._scratch = Scratch(
            entry=np.empty(sides),
            left=np.empty(sides),
            right=np.empty(sides),
            boxes=np.empty((FANOUT + 1, sides)),
            children=np.empty(FANOUT + 1, np.int64),
            side=np.empty(FANOUT + 1, np.int64),
            orphans=np.empty(MOST_LEVELS, np.int64),
        )
        self._clear(8)
        new_node(self._tree, 0)

    def _clear(self, nodes: int) -> None:
        """No nodes, but room for so many."""
        self._tree = Tree(
            bounds=np.zeros((nodes, 2 * self.dimensions, FANOUT + 1)),
            children=np.zeros((nodes, FANOUT + 1), np.int64),
            counts=np.zeros(nodes, np.int64),
            levels=np.zeros(nodes, np.int64),
            parents=np.zeros(nodes, np.int64),
            home=np.zeros(len(self._queries.ids), np.int64),
            state=np.array([0, 1, 0, 0, -1, 0]),
        )

    # -- changing the set -------------------------------------------------------------------------------

    def _attach(self, slots: Int64s) -> None:
        if len(self._tree.home) < len(self._queries.ids):
            self._tree = self._tree._replace(home=enlarged(self._tree.home, len(self._queries.ids)))
        if self.packed and len(slots) == len(self) > FANOUT:
            self._pack(slots)
            return
        done = 0
        while True:
            done = insert_slots(self._tree, self._scratch, self._queries, self.closed, slots, done)
            if done == len(slots):
                break
            self._enlarge()

    def _detach(self, slots: Int64s) -> None:
        done = 0
        while True:
            done = remove_slots(self._tree, self._scratch, slots, done)
            if done == len(slots):
                break
            self._enlarge()

    def _enlarge(self) -> None:
        size = 2 * len(self._tree.counts)
        fields = ("bounds", "children", "counts", "levels", "parents")
        self._tree = self._tree._replace(**{name: enlarged(getattr(self._tree, name), size) for name in fields})

    def _pack(self, slots: Int64s) -> None:
        """Build the tree level by level: tiles of neighbouring boxes, as full as they come out evenly."""
        self._clear(8 + 2 * len(slots) // FEWEST)
        boxes = self._queries.bounds[slots]
        highs = boxes[:, self.dimensions :]
        if not self.closed:
            boxes[:, self.dimensions :] = np.where(highs == np.inf, highs, np.nextafter(highs, -np.inf))
        children, level = slots, 0
        while len(children) > FANOUT:
            order = self._tiles(boxes)
            nodes = np.empty(-(-len(children) // FANOUT), np.int64)
            cuts = _even_cuts(np.array([0, len(children)]), len(nodes))
            fill_nodes(self._tree, level, boxes, children, order, cuts, nodes)
            boxes, children, level = self._around(boxes[order], cuts), nodes, level + 1
        cuts, root = np.array([0, len(children)]), np.empty(1, np.int64)
        fill_nodes(self._tree, level, boxes, children, np.arange(len(children)), cuts, root)
        self._tree.state[ROOT], self._tree.state[HEIGHT] = root[0], level + 1

    def _tiles(self, boxes: Float64s) -> Int64s:
        """Sort-tile-recursive: an order in which neighbours make good nodes."""
        clipped = np.clip(boxes, -FAR, FAR)
        centres = clipped[:, : self.dimensions] + clipped[:, self.dimensions :]
        nodes = -(-len(boxes) // FANOUT)
        slabs = math.ceil(nodes ** (1 / self.dimensions))
        order = np.arange(len(boxes))
        cuts = np.array([0, len(boxes)])
        for axis in range(self.dimensions):
            parts = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts))
            order = order[np.lexsort((centres[order, axis], parts))]
            cuts = _even_cuts(cuts, slabs)
        return order

    def _around(self, boxes: Float64s, cuts: Int64s) -> Float64s:
        """The smallest box around each node's entries."""
        lows = np.minimum.reduceat(boxes[:, : self.dimensions], cuts[:-1])
        return np.hstack([lows, np.maximum.reduceat(boxes[:, self.dimensions :], cuts[:-1])])

    # -- asking -----------------------------------------------------------------------------------------

    def _stab(self, points: Float64s, out: Matches | None) -> Matches:
        total = len(points)
        offsets, ids = answer_buffers(total, 0, np.int64, out)
        offsets[0] = 0
        inside = np.empty(FANOUT, np.bool_)
        stack = np.empty(FANOUT * MOST_LEVELS + 1, np.int64)
        done = 0
        while True:
            done = search(self._tree, self._queries.ids, points, inside, stack, offsets, ids, done)
            if done == total:
                return Matches(offsets, ids[: offsets[total]])
            filled = int(offsets[done])
            ids = widened(ids, filled, filled + 8 * FANOUT, out)

    # -- reporting --------------------------------------------------------------------------------------

    def storage(self) -> Storage:
        """Nodes and entries of all nodes; 4 bytes per bound and child, as a C structure would take."""
        nodes = int(self._tree.state[NODES_IN_USE])
        entries = int(self._tree.counts.sum())
        model = nodes * FANOUT * (8 * self.dimensions + 4)
        return Storage(nodes, entries, model, self._table_bytes() + array_bytes(self._tree))

    @override
    def _check(self) -> None:
        tree, root = self._tree, int(self._tree.state[ROOT])
        assert tree.parents[root] == -1, "the root has no parent"
        assert tree.levels[root] == tree.state[HEIGHT] - 1, "the height is the root's level and one"
        found: list[int] = []
        nodes = [root]
        for node in nodes:
            count, level = int(tree.counts[node]), int(tree.levels[node])
            fewest = FEWEST if node != root else 2 if level else 0
            assert fewest <= count <= FANOUT, f"node {node} has {count} entries"
            children = tree.children[node, :count].tolist()
            if level == 0:
                found += children
                assert all(tree.home[slot] == node for slot in children), "every box knows its leaf"
                continue
            for e, child in enumerate(children):
                assert tree.levels[child] == level - 1, "a child is one level below"
                assert tree.parents[child] == node, "a child knows its parent"
                below = tree.bounds[child, :, : tree.counts[child]]
                lows, lasts = below[: self.dimensions].min(axis=1), below[self.dimensions :].max(axis=1)
                assert np.array_equal(tree.bounds[node, :, e], np.append(lows, lasts)), "boxes are tight"
            nodes += children
        assert sorted(found) == sorted(self._live_slots().tolist()), "every box is in one leaf"
        assert len(nodes) == tree.state[NODES_IN_USE], "every node is in use or free"


def _even_cuts(cuts: Int64s, parts: int) -> Int64s:
    """Cut each range between two cuts into so many parts of about one size."""
    widths = np.diff(cuts)[:, np.newaxis]
    inner = cuts[:-1, np.newaxis] + widths * np.arange(parts) // parts
    return np.append(inner.reshape(-1), cuts[-1])
