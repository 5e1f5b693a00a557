"""Other people's interval indexes behind one call: values in, for every value all ids out, materialised."""

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
from intervaltree import Interval, IntervalTree
from ncls import NCLS
from superintervals import IntervalMap

from fencepost.workloads import IntervalWorkload

__all__ = ["PEERS", "Stab"]

Stab = Callable[[npt.NDArray[np.int64]], int]
"""Answers a batch; returns how many ids the answer has."""


def superintervals(work: IntervalWorkload) -> Stab:
    """superintervals: C++ behind Cython, closed ends, a Python list per value."""
    index = IntervalMap.from_arrays(work.los.astype(np.int32), (work.his - 1).astype(np.int32))

    def stab(values: npt.NDArray[np.int64]) -> int:
        asked: Any = values.astype(np.int32)
        return sum(map(len, index.search_idxs_batch(asked, asked)))

    return stab


def ncls(work: IntervalWorkload) -> Stab:
    """ncls: nested containment lists in C, pairs of (value, id) as two arrays."""
    index = NCLS(work.los, work.his, work.ids)

    def stab(values: npt.NDArray[np.int64]) -> int:
        _, found = index.all_overlaps_both(values, values + 1, np.arange(len(values)))
        return len(found)

    return stab


def polars_join_where(work: IntervalWorkload) -> Stab:
    """polars: an inequality join of two frames."""
    intervals = pl.DataFrame({"id": work.ids, "lo": work.los, "hi": work.his})

    def stab(values: npt.NDArray[np.int64]) -> int:
        asked = pl.DataFrame({"row": np.arange(len(values)), "value": values})
        joined = asked.join_where(intervals, pl.col("lo") <= pl.col("value"), pl.col("value") < pl.col("hi"))
        return joined.select("row", "id").height

    return stab


def duckdb_range_join(work: IntervalWorkload) -> Stab:
    """DuckDB: a range join, materialised as Arrow."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    intervals = pl.DataFrame({"id": work.ids, "lo": work.los, "hi": work.his}).to_arrow()
    connection.register("given", intervals)
    connection.execute("CREATE TABLE intervals AS SELECT * FROM given")

    def stab(values: npt.NDArray[np.int64]) -> int:
        asked = pl.DataFrame({"row": np.arange(len(values)), "value": values}).to_arrow()
        connection.register("asked", asked)
        query = "SELECT row, id FROM asked JOIN intervals ON lo <= value AND value < hi"
        return int(connection.sql(query).to_arrow_table().num_rows)

    return stab


def interval_tree(work: IntervalWorkload) -> Stab:
    """intervaltree: pure Python, a set per value."""
    rows = zip(work.los.tolist(), work.his.tolist(), work.ids.tolist(), strict=True)
    tree = IntervalTree(Interval(lo, hi, id) for lo, hi, id in rows)

    def stab(values: npt.NDArray[np.int64]) -> int:
        return sum(len(tree.at(value)) for value in values.tolist())

    return stab


PEERS: dict[str, Callable[[IntervalWorkload], Stab]] = {
    "superintervals": superintervals,
    "ncls": ncls,
    "polars join_where": polars_join_where,
    "DuckDB range join": duckdb_range_join,
    "intervaltree": interval_tree,
}
