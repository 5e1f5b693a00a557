"""Other people's box indexes behind one call, and the scan that anyone would write: points in, all ids out."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import shapely
from rtree.index import Index, Property

from benchmarks.contest import Pairs, Peer
from fencepost.lab.workloads import BoxWorkload

__all__ = ["PEERS", "scan_of_one_attribute"]

Points = npt.NDArray[np.float64]


def strtree(work: BoxWorkload) -> Peer:
    """shapely: a packed tree in C++ (GEOS), bounding boxes only, pairs of (point, id) as two arrays."""
    tree = shapely.STRtree(shapely.box(*work.los.T, *work.his.T))
    return Peer(lambda points: tree.query(shapely.points(points)), lambda found: (found[0], found[1]))


def strtree_predicate(work: BoxWorkload) -> Peer:
    """The same with its exact test of geometries."""
    tree = shapely.STRtree(shapely.box(*work.los.T, *work.his.T))
    return Peer(
        lambda points: tree.query(shapely.points(points), predicate="within"), lambda found: (found[0], found[1])
    )


def libspatialindex(work: BoxWorkload) -> Peer:
    """Rtree from PyPI: libspatialindex, loaded in bulk, asked in bulk."""
    index = Index((work.ids, work.los, work.his), properties=Property(dimension=2))
    return Peer(
        lambda points: index.intersection_v(points, points),
        lambda found: (np.repeat(np.arange(len(found[1])), found[1].astype(np.int64)), found[0]),
    )


PEERS: dict[str, Callable[[BoxWorkload], Peer]] = {
    "STRtree bbox": strtree,
    "STRtree predicate": strtree_predicate,
    "rtree (PyPI)": libspatialindex,
}


def scan_of_one_attribute(work: BoxWorkload) -> Peer:
    """The candidates of the attribute that has fewest, compared in all attributes.

    Boxes without bounds there come first, the others follow by where they start: the candidates of a point are the
    former and one window of the latter. Exact values lie in a contiguous column per bound and are compared as
    vectors, without a branch; what passed is collected from a mask, eight boxes at a time.
    """
    lows, highs = work.los, work.his
    candidates = [
        sum(int(((lows[:, axis] <= value) & (value < highs[:, axis])).sum()) for value in work.points[:64, axis])
        for axis in range(lows.shape[1])
    ]
    best = int(np.argmin(candidates))
    order = np.argsort(lows[:, best], kind="stable")
    starts = lows[order, best]
    free = int(np.searchsorted(starts, -np.inf, "right"))
    widest = float((highs[order, best] - starts)[free:].max())
    axes = [axis for axis in range(lows.shape[1]) if axis != best] + [best]
    low_columns, high_columns = lows.T[axes][:, order].copy(), highs.T[axes][:, order].copy()
    mask = np.zeros(len(lows) + 8, np.uint8)
    found, counts = np.zeros(1 << 20, np.int64), np.zeros(len(work.points), np.int64)

    def ask(points: Points) -> Pairs:
        firsts = np.maximum(np.searchsorted(starts, points[:, best] - widest * (1 + 1e-9)), free)
        lasts = np.searchsorted(starts, points[:, best], "right")
        values = points[:, axes].copy()
        total = scan_windows(low_columns, high_columns, order, values, free, firsts, lasts, mask, found, counts)
        return counts[: len(points)], found[:total]

    return Peer(ask, lambda answer: (np.repeat(np.arange(len(answer[0])), answer[0]), answer[1]))


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def scan_windows(
    lows: Any,
    highs: Any,
    order: Any,
    values: Any,
    free: Any,
    firsts: Any,
    lasts: Any,
    mask: Any,
    found: Any,
    counts: Any,
) -> Any:
    """Write the ids of the boxes in both windows of each point that hold it; how many there are."""
    at = 0
    for point in range(len(values)):
        before = at
        for begin, end in ((0, free), (firsts[point], lasts[point])):
            size = max(0, end - begin)
            passed = mask[: size + 8]
            compare_column(lows[0, begin:end], highs[0, begin:end], values[point, 0], passed[:size], True)
            for axis in range(1, len(lows)):
                compare_column(lows[axis, begin:end], highs[axis, begin:end], values[point, axis], passed[:size], False)
            passed[size:] = 0
            words = mask[: (size + 7) // 8 * 8].view(np.uint64)
            for word in range(len(words)):
                if words[word] != 0:
                    for i in range(8 * word, 8 * word + 8):
                        if passed[i]:
                            found[at] = order[begin + i]
                            at += 1
        counts[point] = at - before
    return at


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def compare_column(lows: Any, highs: Any, value: Any, passed: Any, first: Any) -> None:
    """Mark the ranges that hold a value, or unmark those that do not."""
    if first:
        for i in range(len(passed)):
            passed[i] = (lows[i] <= value) & (value < highs[i])
    else:
        for i in range(len(passed)):
            passed[i] &= (lows[i] <= value) & (value < highs[i])
