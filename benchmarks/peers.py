"""Other people's interval indexes behind one call: values in, for every value all ids out, materialised."""

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl
from intervaltree import Interval, IntervalTree
from ncls import NCLS
from superintervals import IntervalMap

from benchmarks.contest import Pairs, Peer
from fencepost.lab.workloads import IntervalWorkload

__all__ = ["PEERS"]


def superintervals(work: IntervalWorkload) -> Peer:
    """superintervals: C++ behind Cython, closed ends, a Python list of positions per value, its fastest answer."""
    index = IntervalMap.from_arrays(work.los.astype(np.int32), (work.his - 1).astype(np.int32), work.ids.tolist())

    def ask(values: Any) -> Any:
        asked = values.astype(np.int32)
        return index.search_idxs_batch(asked, asked)

    return Peer(ask, lambda found: _listed([[index.data_at(position) for position in each] for each in found]))


def ncls(work: IntervalWorkload) -> Peer:
    """ncls: nested containment lists in C, pairs of (value, id) as two arrays."""
    index = NCLS(work.los, work.his, work.ids)
    return Peer(lambda values: index.all_overlaps_both(values, values + 1, np.arange(len(values))), lambda found: found)


def polars_join_where(work: IntervalWorkload) -> Peer:
    """polars: an inequality join of two frames."""
    intervals = pl.DataFrame({"id": work.ids, "lo": work.los, "hi": work.his})

    def ask(values: Any) -> pl.DataFrame:
        asked = pl.DataFrame({"row": np.arange(len(values)), "value": values})
        joined = asked.join_where(intervals, pl.col("lo") <= pl.col("value"), pl.col("value") < pl.col("hi"))
        return joined.select("row", "id")

    return Peer(ask, _columns)


def duckdb_range_join(work: IntervalWorkload) -> Peer:
    """DuckDB: a range join, materialised as Arrow."""
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    intervals = pl.DataFrame({"id": work.ids, "lo": work.los, "hi": work.his}).to_arrow()
    connection.register("given", intervals)
    connection.execute("CREATE TABLE intervals AS SELECT * FROM given")

    def ask(values: Any) -> Any:
        asked = pl.DataFrame({"row": np.arange(len(values)), "value": values}).to_arrow()
        connection.register("asked", asked)
        query = "SELECT row, id FROM asked JOIN intervals ON lo <= value AND value < hi"
        return connection.sql(query).to_arrow_table()

    return Peer(ask, _columns)


def interval_tree(work: IntervalWorkload) -> Peer:
    """intervaltree: pure Python, a set per value."""
    rows = zip(work.los.tolist(), work.his.tolist(), work.ids.tolist(), strict=True)
    tree = IntervalTree(Interval(lo, hi, id) for lo, hi, id in rows)
    return Peer(
        lambda values: [tree.at(value) for value in values.tolist()],
        lambda found: _listed([[interval.data for interval in each] for each in found]),
    )


def _listed(found: Any) -> Pairs:
    """A list of ids per value as pairs."""
    rows = np.repeat(np.arange(len(found)), [len(each) for each in found])
    return rows, np.array([id for each in found for id in each], np.int64)


def _columns(found: Any) -> Pairs:
    return found["row"].to_numpy(), found["id"].to_numpy()


PEERS: dict[str, Callable[[IntervalWorkload], Peer]] = {
    "superintervals": superintervals,
    "ncls": ncls,
    "polars join_where": polars_join_where,
    "DuckDB range join": duckdb_range_join,
    "intervaltree": interval_tree,
}
