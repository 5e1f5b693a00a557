"""bands with expressions and conditions of sides: batch, stream and Monitor tell the same, while rules change."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import fencepost as fp
from fencepost.published import VersionDirectory
from fencepost.spark import bands, read_state
from fencepost.spark.session import SETTINGS, STATE_SETTINGS
from tests.spark.test_bands import NAMED, SCHEMA, Streams, facts, monitor_of, quotes

CONDITIONS = [
    "left.price * 1.1 - right.price BETWEEN -1 AND 1",
    "left.price - right.price < 2 AND left.price > 3 AND right.kind IS NOT NULL",
    "(left.price + left.seq % 3) / 2 - right.price > 0.5 AND left.kind <> 'ask'",
    "left.price > right.price * 1.2 AND (right.kind LIKE 'b%' OR right.price < 4)",
    "ABS(left.price - right.price) < 2 AND UPPER(left.kind) = UPPER(right.kind)",
    "left.price - right.price > -3 AND EXTRACT(MINUTE FROM left.ts) = EXTRACT(MINUTE FROM right.ts)",
    "left.price - right.price > 0 AND left.kind IN ('bid', 'last') AND right.seq % 2 = 0",
]


def sided_rules() -> fp.Rules:
    rules = fp.Rules()
    for id, condition in enumerate(CONDITIONS):
        rules.add(id, condition, detect="enter,exit,cross,inside" if id % 2 else "enter,exit")
    rules.add(20, f"{CONDITIONS[1]} AND left.symbol = 'SAP'", detect="enter,exit", for_="3 seconds")
    rules.add(21, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    return rules


def test_sides_tell_the_same_everywhere(spark: Any, tmp_path: Path) -> None:
    rules, timeout = sided_rules(), timedelta(seconds=40)
    parts = [(quotes(120, 2 * n, start=60 * n), quotes(110, 2 * n + 1, start=60 * n)) for n in range(3)]
    types = {"price": "double", "seq": "bigint", "kind": "string", "ts": "timestamp", "symbol": "string"}
    streams = Streams(spark, tmp_path, rules, timeout=timeout)
    monitor = monitor_of(rules, timeout=timeout, schema=types)
    expected = []
    for number, (left, right) in enumerate(parts):
        streams.put(left, right)
        expected.append(monitor.update(left=left, right=right))
        if number != 1:
            streams.run()  # started anew with what it remembers
    told = pa.concat_tables(expected)
    assert set(told["rule_id"].to_pylist()) == {*range(len(CONDITIONS)), 20, 21}
    times = ["ts", "ts_before", "since"]  # Spark gives them back without a zone
    assert facts(streams.told().drop(*times)) == facts(told.drop_columns(times))
    assert streams.told().schema.names == told.schema.names
    assert {"price", "seq", "kind", "ts"} <= set(told.schema.names)
    in_order = [pa.concat_tables(side) for side in zip(*parts, strict=True)]
    one, two = (spark.createDataFrame(side.to_pandas(), SCHEMA).repartition(3) for side in in_order)
    batch = bands(one, two, rules, timeout=timeout, buckets=5, **NAMED)
    assert facts(batch.drop(*times)) == facts(told.drop_columns(times))


def test_a_live_rule_brings_expressions_over_columns_of_the_schema(spark: Any, tmp_path: Path) -> None:
    spark = spark.newSession()
    for key, value in {**SETTINGS, **STATE_SETTINGS}.items():
        spark.conf.set(key, value)
    directory = VersionDirectory(tmp_path / "rules")
    schema = {"price": "double", "kind": "string", "seq": "bigint", "symbol": "string"}
    first, second = fp.Rules(), fp.Rules()
    for rules in (first, second):
        rules.add(1, "left.price - right.price BETWEEN -2 AND 2", detect="enter,exit")
        # Events have the columns of all rules: both bodies know them from the start.
        rules.add(9, "left.price - right.price > 1e300 AND left.seq > 0 AND left.kind LIKE 'b%'", detect="exit")
    second.add(2, CONDITIONS[3], detect="enter,exit", initial=True)
    second.add(3, CONDITIONS[2], detect="enter,exit", initial=True)
    first.publish(tmp_path / "rules", schema=schema)
    streams = Streams(spark, tmp_path, tmp_path / "rules")
    monitor = monitor_of(directory.load(), schema=schema)
    tables = [(quotes(80, 2 * n, start=60 * n), quotes(80, 2 * n + 1, start=60 * n)) for n in range(2)]
    streams.put(*tables[0])
    expected = [monitor.update(left=tables[0][0], right=tables[0][1])]
    streams.run()
    second.publish(tmp_path / "rules", schema=schema)
    expected.append(monitor.follow(directory.load()))
    streams.put(*tables[1])
    expected.append(monitor.update(left=tables[1][0], right=tables[1][1]))
    streams.run()
    told = pa.concat_tables(expected, promote_options="default")
    assert (2, "initial") in set(zip(told["rule_id"].to_pylist(), told["reason"].to_pylist(), strict=True))

    def said(rows: Any) -> list[tuple[Any, ...]]:
        names = ("rule_id", "object", "other", "symbol", "detect", "reason", "price", "price_before", "event_id")
        return sorted((tuple(row[name] for name in names) for row in rows), key=str)

    assert said(row.asDict() for row in streams.told().collect()) == said(told.to_pylist())
    rows = read_state(spark, tmp_path / "checkpoint").collect()
    assert {"kind", "seq", "price"} <= set(rows[0].asDict())
