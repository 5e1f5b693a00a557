"""Kernels of RTree: choosing leaves, splitting nodes, condensing them, and searching."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Float64s, Int64s, i64
from fencepost.indexes.contracts.registry import Queries
from fencepost.indexes.kernels.vectors import PADDING

FANOUT = 32
"""Most entries of a node (the paper's M); arrays have room for one more, which makes it split."""
FEWEST = 12
"""Fewest entries of a node that is not the root (m = 0.4 M)."""
MOST_LEVELS = 24
NONE = -1
ROOT, HEIGHT, NODES_USED, FREE_NODES, FIRST_FREE, NODES_IN_USE = 0, 1, 2, 3, 4, 5
FAR = 1e18


class Tree(NamedTuple):
    """The nodes of one tree.

    Node v has ``counts[v]`` entries: ``bounds[v, :, e]`` are the lows of all dimensions, then the last numbers that
    still belong to the box, and ``children[v, e]`` is a slot of the query table in a leaf (level 0) or a
    node of the level below. `home` is the leaf of each slot.
    """

    bounds: Float64s
    children: Int64s
    counts: Int64s
    levels: Int64s
    parents: Int64s
    home: Int64s
    state: Int64s
    """[root, height, nodes handed out, free nodes among them, first free node or -1, nodes in use]"""


class Scratch(NamedTuple):
    """Work space: boxes (lows, then lasts) and lists of entries."""

    entry: Float64s
    """Box of the entry that is put in."""
    left: Float64s
    right: Float64s
    boxes: Float64s
    """Entries of a node that is split."""
    children: Int64s
    side: Int64s
    orphans: Int64s
    """Nodes whose entries are to be put in again."""


@kernel
def side_length(low: float, high: float) -> Any:
    """A side, finite also where the box is unbounded."""
    return min(high, FAR) - max(low, -FAR)


@kernel
def volume(box: Float64s) -> Any:
    """The area of a box."""
    dimensions = len(box) // 2
    product = 1.0
    for axis in range(dimensions):
        product *= side_length(box[axis], box[dimensions + axis])
    return product


@kernel
def joint_volume(box: Float64s, other: Float64s) -> Any:
    """The area of the smallest box around two."""
    dimensions = len(box) // 2
    product = 1.0
    for axis in range(dimensions):
        last = dimensions + axis
        product *= side_length(min(box[axis], other[axis]), max(box[last], other[last]))
    return product


@kernel
def copy_box(source: Float64s, target: Float64s) -> None:
    """Write a box over another."""
    for i in range(len(source)):
        target[i] = source[i]


@kernel
def stretch(box: Float64s, other: Float64s) -> None:
    """Enlarge a box by another."""
    dimensions = len(box) // 2
    for axis in range(dimensions):
        box[axis] = min(box[axis], other[axis])
        box[dimensions + axis] = max(box[dimensions + axis], other[dimensions + axis])


@kernel
def new_node(tree: Tree, level: int) -> Any:
    """An empty node; the caller has made sure that there is one."""
    node = tree.state[FIRST_FREE]
    if node != NONE:
        tree.state[FIRST_FREE] = tree.parents[node]
        tree.state[FREE_NODES] -= 1
    else:
        node = tree.state[NODES_USED]
        tree.state[NODES_USED] += 1
    tree.state[NODES_IN_USE] += 1
    tree.counts[node] = 0
    tree.levels[node] = level
    tree.parents[node] = NONE
    return node


@kernel
def free_node(tree: Tree, node: int) -> None:
    """Give a node back; free nodes are chained through `parents`."""
    tree.parents[node] = tree.state[FIRST_FREE]
    tree.state[FIRST_FREE] = node
    tree.state[FREE_NODES] += 1
    tree.state[NODES_IN_USE] -= 1
    tree.counts[node] = 0


@kernel
def put_entry(tree: Tree, node: int, box: Float64s, child: int) -> None:
    """Append an entry to a node that has room."""
    at = tree.counts[node]
    copy_box(box, tree.bounds[node, :, at])
    tree.children[node, at] = child
    tree.counts[node] = at + 1
    if tree.levels[node] == 0:
        tree.home[child] = node
    else:
        tree.parents[child] = node


@kernel
def fill_nodes(
    tree: Tree, level: int, boxes: Float64s, children: Int64s, order: Int64s, cuts: Int64s, nodes: Int64s
) -> None:
    """A new node for the entries between any two cuts of an order."""
    for number in range(len(nodes)):
        nodes[number] = new_node(tree, level)
        for row in range(cuts[number], cuts[number + 1]):
            put_entry(tree, nodes[number], boxes[order[row]], children[order[row]])


@kernel
def around(tree: Tree, node: int, box: Float64s) -> None:
    """The smallest box around a node's entries."""
    copy_box(tree.bounds[node, :, 0], box)
    for e in range(1, tree.counts[node]):
        stretch(box, tree.bounds[node, :, e])


@kernel
def place_of(tree: Tree, node: int, child: int) -> Any:
    """Where a child stands in its node."""
    at = 0
    while tree.children[node, at] != child:
        at += 1
    return at


@kernel
def choose(tree: Tree, box: Float64s, level: int) -> Any:
    """The node of a level that needs the least enlargement on every step; of equals, the smallest."""
    node = tree.state[ROOT]
    while tree.levels[node] > level:
        best, best_growth, best_volume = 0, np.inf, np.inf
        for e in range(tree.counts[node]):
            size = volume(tree.bounds[node, :, e])
            growth = joint_volume(tree.bounds[node, :, e], box) - size
            if growth < best_growth or (growth == best_growth and size < best_volume):
                best, best_growth, best_volume = e, growth, size
        node = tree.children[node, best]
    return node


@kernel
def pick_seeds(boxes: Float64s, count: int) -> tuple[int, int]:
    """The pair of entries that would waste the most area together."""
    first, second, worst = 0, 1, -np.inf
    for i in range(count):
        own = volume(boxes[i])
        for j in range(i + 1, count):
            waste = joint_volume(boxes[i], boxes[j]) - own - volume(boxes[j])
            if waste > worst:
                first, second, worst = i, j, waste
    return first, second


@kernel
def split(tree: Tree, node: int, scratch: Scratch) -> Any:
    """Quadratic split: move about half of a node's entries to a new node, which is returned."""
    count = tree.counts[node]
    boxes, children, side, left, right = scratch.boxes, scratch.children, scratch.side, scratch.left, scratch.right
    for e in range(count):
        copy_box(tree.bounds[node, :, e], boxes[e])
        children[e] = tree.children[node, e]
        side[e] = NONE
    first, second = pick_seeds(boxes, count)
    copy_box(boxes[first], left)
    copy_box(boxes[second], right)
    side[first], side[second] = 0, 1
    lefts, rights = 1, 1
    for rest in range(count - 2, 0, -1):
        if lefts + rest == FEWEST or rights + rest == FEWEST:
            to = 0 if lefts + rest == FEWEST else 1
            for e in range(count):
                if side[e] == NONE:
                    side[e] = to
                    stretch(left if to == 0 else right, boxes[e])
            break
        left_size, right_size = volume(left), volume(right)
        chosen, strongest, to = NONE, -1.0, 0
        for e in range(count):
            if side[e] == NONE:
                left_growth = joint_volume(left, boxes[e]) - left_size
                right_growth = joint_volume(right, boxes[e]) - right_size
                preference = abs(left_growth - right_growth)
                if preference > strongest:
                    chosen, strongest = e, preference
                    smaller = left_size < right_size or (left_size == right_size and lefts <= rights)
                    to = i64(right_growth < left_growth or (right_growth == left_growth and not smaller))
        side[chosen] = to
        if to == 0:
            stretch(left, boxes[chosen])
            lefts += 1
        else:
            stretch(right, boxes[chosen])
            rights += 1
    sibling = new_node(tree, tree.levels[node])
    tree.counts[node] = 0
    for e in range(count):
        put_entry(tree, node if side[e] == 0 else sibling, boxes[e], children[e])
    return sibling


@kernel
def insert_entry(tree: Tree, scratch: Scratch, child: int, level: int) -> None:
    """Put ``scratch.entry`` into a node of a level, split what overflows, and adjust the boxes above."""
    node = choose(tree, scratch.entry, level)
    put_entry(tree, node, scratch.entry, child)
    while True:
        sibling = split(tree, node, scratch) if tree.counts[node] > FANOUT else NONE
        parent = tree.parents[node]
        if parent == NONE and sibling == NONE:
            return
        if parent == NONE:
            parent = new_node(tree, tree.levels[node] + 1)
            tree.state[ROOT] = parent
            tree.state[HEIGHT] += 1
            put_entry(tree, parent, scratch.left, node)
        at = place_of(tree, parent, node)
        if sibling == NONE:
            around(tree, node, scratch.left)
            copy_box(scratch.left, tree.bounds[parent, :, at])
        else:
            copy_box(scratch.left, tree.bounds[parent, :, at])
            put_entry(tree, parent, scratch.right, sibling)
        node = parent


@kernel
def read_entry(queries: Queries, slot: int, closed: bool, entry: Float64s) -> None:
    """A registered box in the tree's form: high ends moved to the last number inside."""
    dimensions = len(entry) // 2
    for axis in range(dimensions):
        high = queries.bounds[slot, dimensions + axis]
        entry[axis] = queries.bounds[slot, axis]
        entry[dimensions + axis] = high if closed or high == np.inf else np.nextafter(high, -np.inf)


@kernel
def spare_nodes(tree: Tree) -> Any:
    """Nodes that can be taken before the arrays must grow."""
    return len(tree.counts) - tree.state[NODES_USED] + tree.state[FREE_NODES]


@kernel
def insert_slots(tree: Tree, scratch: Scratch, queries: Queries, closed: bool, slots: Int64s, first: int) -> Any:
    """Insert registered boxes one by one; the row it stopped at for want of nodes."""
    for row in range(first, len(slots)):
        if spare_nodes(tree) < tree.state[HEIGHT] + 1:
            return row
        read_entry(queries, slots[row], closed, scratch.entry)
        insert_entry(tree, scratch, slots[row], 0)
    return len(slots)


@kernel
def take_entry(tree: Tree, node: int, child: int) -> None:
    """Take an entry out of its node; the last one takes its place."""
    at = place_of(tree, node, child)
    last = tree.counts[node] - 1
    copy_box(tree.bounds[node, :, last], tree.bounds[node, :, at])
    tree.children[node, at] = tree.children[node, last]
    tree.counts[node] = last


@kernel
def remove_slots(tree: Tree, scratch: Scratch, slots: Int64s, first: int) -> Any:
    """Remove boxes one by one, condensing the tree; the row it stopped at for want of nodes."""
    for row in range(first, len(slots)):
        height = tree.state[HEIGHT]
        if spare_nodes(tree) < (height + 1) * height * FEWEST:
            return row
        node = tree.home[slots[row]]
        take_entry(tree, node, slots[row])
        orphans = 0
        while tree.parents[node] != NONE:
            parent = tree.parents[node]
            if tree.counts[node] < FEWEST:
                take_entry(tree, parent, node)
                scratch.orphans[orphans] = node
                orphans += 1
            else:
                around(tree, node, scratch.left)
                copy_box(scratch.left, tree.bounds[parent, :, place_of(tree, parent, node)])
            node = parent
        for o in range(orphans - 1, -1, -1):
            orphan = scratch.orphans[o]
            for e in range(tree.counts[orphan]):
                copy_box(tree.bounds[orphan, :, e], scratch.entry)
                insert_entry(tree, scratch, tree.children[orphan, e], tree.levels[orphan])
            free_node(tree, orphan)
        root = tree.state[ROOT]
        while tree.levels[root] > 0 and tree.counts[root] == 1:
            only = tree.children[root, 0]
            free_node(tree, root)
            tree.parents[only] = NONE
            tree.state[ROOT] = only
            tree.state[HEIGHT] -= 1
            root = only
    return len(slots)


@kernel
def search(
    tree: Tree,
    query_ids: Int64s,
    points: Float64s,
    inside: Any,
    stack: Int64s,
    offsets: Int64s,
    out: Int64s,
    first: int,
) -> Any:
    """Descend into every entry that contains a point; the row it stopped at for want of room.

    A node is compared as a whole, one bound after the other, so that the compiler uses vectors.
    """
    bounds, children, counts, levels = tree.bounds, tree.children, tree.counts, tree.levels
    dimensions = points.shape[1]
    room = len(out) - PADDING
    at = offsets[first]
    for i in range(first, len(points)):
        stack[0] = tree.state[ROOT]
        depth = 1
        while depth:
            depth -= 1
            node = stack[depth]
            for e in range(FANOUT):
                inside[e] = (bounds[node, 0, e] <= points[i, 0]) & (points[i, 0] <= bounds[node, dimensions, e])
            for axis in range(1, dimensions):
                value = points[i, axis]
                for e in range(FANOUT):
                    inside[e] &= (bounds[node, axis, e] <= value) & (value <= bounds[node, dimensions + axis, e])
            if levels[node] == 0:
                if at + FANOUT > room:
                    return i
                for e in range(counts[node]):
                    out[at] = query_ids[children[node, e]]
                    at += inside[e]
            else:
                for e in range(counts[node]):
                    stack[depth] = children[node, e]
                    depth += inside[e]
        offsets[i + 1] = at
    return len(points)
