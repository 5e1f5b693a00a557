"""A burst of ten times the rows, one object with half of them, one rule that holds for every row: streams catch up."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.spark import bands, watch
from tests.spark.files import put_file
from tests.spark.test_bands import NAMED, SCHEMA, quotes

ROWS = 200
BURST = 10
AT_ONCE = 2
"""Files that a trigger may take."""


def skewed(seed: int, number: int) -> pa.Table:
    """Quotes of which every other one is of one venue and symbol."""
    table = quotes(ROWS, seed, start=number * ROWS)
    hot = pa.array([place % 2 == 0 for place in range(ROWS)])
    for name, value in (("venue", "hot"), ("symbol", "SAP")):
        column = pc.if_else(hot, pa.scalar(value), table[name])
        table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
    return table


def run(source: Any, path: Path) -> list[Any]:
    """Take all there is; what each trigger that had rows reports."""
    writer = source.writeStream.option("checkpointLocation", f"{path}/checkpoint").format("parquet")
    query = writer.trigger(availableNow=True).start(f"{path}/out")
    query.awaitTermination()
    return [report for report in query.recentProgress if report["numInputRows"]]


@pytest.mark.slow
def test_a_burst_of_skewed_rows_is_taken_in_parts(spark: Any, tmp_path: Path) -> None:
    tables = {side: [skewed(97 * n + len(side), n) for n in range(1 + BURST)] for side in ("left", "right")}
    pairs, moves = fp.Rules(), fp.Rules()
    pairs.add(1, "left.price - right.price > -1000", detect="enter,exit,inside")
    pairs.add(2, "left.price - right.price BETWEEN -0.5 AND 0.5", detect="enter,exit")
    moves.add(1, "price > -1000", detect="enter,exit,inside")
    moves.add(2, "price BETWEEN 2 AND 4 AND symbol = 'SAP'", detect="enter,exit")
    watched: dict[str, Any] = {"object": "venue", "time": "ts", "sequence": "seq"}
    for side in tables:
        (tmp_path / side).mkdir()

    def read(side: str) -> Any:
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", AT_ONCE).parquet(f"{tmp_path}/{side}")

    reports: dict[str, list[Any]] = {"watch": [], "bands": []}
    for begin, end in ((0, 1), (1, 1 + BURST)):
        for side, own in tables.items():
            for number in range(begin, end):
                put_file(own[number], tmp_path / side, number)
        reports["watch"] += run(watch(read("left"), moves, **watched, buckets=4, observe="watch"), tmp_path / "watch")
        reports["bands"] += run(
            bands(read("left"), read("right"), pairs, **NAMED, buckets=4, observe="bands"), tmp_path / "bands"
        )
    left, right = (pa.concat_tables(own) for own in tables.values())
    expected = {
        "watch": fp.Monitor(moves, **watched).update(left),
        "bands": fp.Monitor(pairs, **NAMED).update(left=left, right=right),
    }
    for name, sides in (("watch", 1), ("bands", 2)):
        taken = [report["observedMetrics"][name]["rows"] for report in reports[name]]
        assert sum(taken) == sides * ROWS * (1 + BURST), "nothing is left behind"
        assert max(taken) <= sides * ROWS * AT_ONCE, "a trigger takes no more than it may"
        assert len(taken) == 1 + BURST // AT_ONCE
        told = pq.read_table(tmp_path / name / "out")
        assert sorted(told["event_id"].to_pylist()) == sorted(expected[name]["event_id"].to_pylist())
    kept = {report["stateOperators"][0]["numRowsTotal"] for report in reports["bands"]}
    assert max(kept) <= 4, "state is a row per bucket, however many rows there were"
