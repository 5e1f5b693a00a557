"""A static interval tree over inclusive int64 ranges: each range hangs at the topmost centre it contains."""

from typing import Any, NamedTuple

import numpy as np

from fencepost.compiled import kernel
from fencepost.indexes.arrays import Int64s, i64


class IntervalTree(NamedTuple):
    """The tree (de Berg et al., section 10.1), its nodes in an array.

    Arrays: `centres`, a node each, sorted; the tree over them is implicit: the root of ``centres[i:j]`` is the middle.
    The ranges of node v are ``starts[v]:starts[v + 1]`` of `by_first` (their first values ascending) and of `by_last`
    (their last values descending), which hold (first or last value, payload).

    A search follows one path and reads a prefix at each node: O(log N + k).
    """

    centres: Int64s
    starts: Int64s
    by_first: Int64s
    by_last: Int64s

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self)


def built_tree(firsts: Int64s, lasts: Int64s, payloads: Int64s) -> IntervalTree:
    """The tree of the ranges that are not empty."""
    full = firsts <= lasts
    firsts, lasts, payloads = firsts[full], lasts[full], payloads[full]
    centres = np.unique(firsts)
    nodes = np.empty(len(firsts), np.int64)
    assign(centres, firsts, lasts, nodes)
    starts = np.searchsorted(np.sort(nodes), np.arange(len(centres) + 1))
    by_first = np.lexsort((firsts, nodes))
    by_last = np.lexsort((~lasts, nodes))
    return IntervalTree(
        centres,
        starts.astype(np.int64),
        np.stack([firsts[by_first], payloads[by_first]], axis=1),
        np.stack([lasts[by_last], payloads[by_last]], axis=1),
    )


def check_tree(tree: IntervalTree) -> None:
    """Assert that each range contains its node's centre, and that the lists are sorted."""
    for node, centre in enumerate(tree.centres.tolist()):
        own = slice(tree.starts[node], tree.starts[node + 1])
        assert (tree.by_first[own, 0] <= centre).all(), "ranges begin at or before their centre"
        assert (tree.by_last[own, 0] >= centre).all(), "ranges end at or after their centre"
        firsts, lasts = tree.by_first[own, 0], tree.by_last[own, 0]
        assert (firsts[1:] >= firsts[:-1]).all(), "first values ascend"
        assert (lasts[1:] <= lasts[:-1]).all(), "last values descend"


@kernel
def assign(centres: Int64s, firsts: Int64s, lasts: Int64s, nodes: Int64s) -> None:
    """The topmost node whose centre is in each range."""
    for i in range(len(firsts)):
        low, high = 0, len(centres)
        while True:
            middle = (low + high) >> 1
            if lasts[i] < centres[middle]:
                high = middle
            elif firsts[i] > centres[middle]:
                low = middle + 1
            else:
                break
        nodes[i] = middle


@kernel
def stab_tree(tree: IntervalTree, value: int, out: Int64s, count: int) -> Any:
    """Append the payloads of the ranges that contain a value; the new count, even beyond the room of `out`."""
    low, high = i64(0), i64(len(tree.centres))
    while low < high:
        middle = (low + high) >> 1
        left = value <= tree.centres[middle]
        listed = tree.by_first if left else tree.by_last
        for i in range(tree.starts[middle], tree.starts[middle + 1]):
            if (listed[i, 0] > value) if left else (listed[i, 0] < value):
                break
            if count < len(out):
                out[count] = listed[i, 1]
            count += 1
        if left:
            high = middle
        else:
            low = middle + 1
    return count
