"""Other people's box indexes behind one call, and the scan that anyone would write: points in, all ids out."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import shapely
from rtree.index import Index, Property

from fencepost.indexes import SliceList
from fencepost.indexes.ordinal import ranges, values_to_ordinals
from fencepost.indexes.vectors import prefetch
from fencepost.workloads import BoxWorkload

__all__ = ["PEERS", "Peer", "scan_of_one_attribute"]

Points = npt.NDArray[np.float64]
Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
AHEAD = 16


class Peer(NamedTuple):
    """How to ask a prepared index a batch, and how to read what it answered."""

    ask: Callable[[Points], Any]
    pairs: Callable[[Any], Pairs]
    """For each id of an answer the row of its point, and the id."""


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
    """The candidates of the attribute that has fewest, from a SliceList, compared with the exact rows of the others.

    A row is contiguous, at most a cache line, and asked for ahead; the comparison does not branch and is compiled
    for its number of columns.
    """
    shape = n, dimensions = work.los.shape
    bounds = ranges(work.los.reshape(-1), work.his.reshape(-1), "[)", "float64")
    firsts, lasts = bounds.firsts.reshape(shape), bounds.lasts.reshape(shape)
    asked = values_to_ordinals(work.points[:64].reshape(-1), "float64")[0].reshape(-1, dimensions)
    candidates = [
        sum(int(((firsts[:, axis] <= value) & (value <= lasts[:, axis])).sum()) for value in asked[:, axis])
        for axis in range(dimensions)
    ]
    best = int(np.argmin(candidates))
    others = [axis for axis in range(dimensions) if axis != best]
    one = SliceList(values="float64")
    one.insert_ordinals(np.arange(n), firsts[:, best].copy(), lasts[:, best].copy())
    rows = np.hstack([firsts[:, others], lasts[:, others]])
    keep = compiled_scan(len(others))

    def ask(points: Points) -> Any:
        ordinals = values_to_ordinals(points.reshape(-1), "float64")[0].reshape(points.shape)
        found = one.stab_ordinals(ordinals[:, best].copy(), slots=True)
        keep(found.offsets, found.ids, rows, ordinals[:, others].copy())
        return found

    return Peer(ask, lambda found: (np.repeat(np.arange(len(found)), found.counts), found.ids[: found.offsets[-1]]))


def compiled_scan(columns: int) -> Any:
    """Keep of each point's candidates those whose further ranges hold it, in place."""

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def keep(offsets: Any, slots: Any, rows: Any, values: Any) -> None:
        at = begin = 0
        for point in range(len(values)):
            end = offsets[point + 1]
            for i in range(begin, end):
                prefetch(rows, 2 * columns * np.int64(slots[min(i + AHEAD, end - 1)]))
                slot = slots[i]
                inside = True
                for column in range(columns):
                    value = values[point, column]
                    inside &= (rows[slot, column] <= value) & (value <= rows[slot, columns + column])
                slots[at] = slot
                at += np.int64(inside)
            begin = end
            offsets[point + 1] = at

    return keep
