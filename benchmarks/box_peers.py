"""Other people's box indexes behind one call: points in, for every point all ids out, materialised."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import shapely
from rtree.index import Index, Property

from fencepost.workloads import BoxWorkload

__all__ = ["PEERS", "Stab"]

Stab = Callable[[npt.NDArray[np.float64]], int]
"""Answers a batch; returns how many ids the answer has."""


def strtree(work: BoxWorkload) -> Stab:
    """shapely: a packed tree in C++ (GEOS), bounding boxes only, pairs of (point, id) as two arrays."""
    tree = shapely.STRtree(shapely.box(*work.los.T, *work.his.T))
    return lambda points: tree.query(shapely.points(points)).shape[1]


def strtree_predicate(work: BoxWorkload) -> Stab:
    """The same with its exact test of geometries."""
    tree = shapely.STRtree(shapely.box(*work.los.T, *work.his.T))
    return lambda points: tree.query(shapely.points(points), predicate="within").shape[1]


def libspatialindex(work: BoxWorkload) -> Stab:
    """Rtree from PyPI: libspatialindex, loaded in bulk, asked in bulk."""
    index = Index((work.ids, work.los, work.his), properties=Property(dimension=2))
    return lambda points: len(index.intersection_v(points, points)[0])


PEERS: dict[str, Callable[[BoxWorkload], Stab]] = {
    "STRtree bbox": strtree,
    "STRtree predicate": strtree_predicate,
    "rtree (PyPI)": libspatialindex,
}
