"""Expressions on Spark: the answers of Spark's own SQL, and in a stream the events of a Monitor."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import expr

import fencepost as fp
from fencepost.spark import match
from fencepost.spark.session import SETTINGS
from tests.computed.expressions import SCHEMA, condition, random_rows
from tests.spark.test_watch import Stream, ids, traffic

pytestmark = pytest.mark.oldest

MODERATE = 1e9


def test_conditions_hold_where_they_do_in_spark(spark: Any) -> None:
    """But for what docs/rules.md names: bigints that wrap around, and doubles that FLOOR cannot make bigints of."""
    spark = spark.newSession()
    for key, value in {**SETTINGS, "spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "UTC"}.items():
        spark.conf.set(key, value)
    rng = np.random.default_rng(7)
    table = random_rows(rng, 120)
    for name in "abmn":
        sizes = pc.abs(pc.fill_null(table[name].cast(pa.float64()), 0.0))
        table = table.filter(pc.less(sizes, MODERATE))
    rules, texts = fp.Rules(), {}
    for id in range(60):
        text = condition(rng).replace("ISODOW", "DAYOFWEEK_ISO")
        try:
            rules.add(id, text)
            rules.compile(SCHEMA)
        except fp.FencepostError:  # it can never hold
            if id in rules:
                rules.remove(id)
            continue
        texts[id] = text
    frame = spark.createDataFrame(table, spark_schema())
    own = frame.select(*(expr(f"coalesce({text}, false)").alias(f"r{id}") for id, text in texts.items())).collect()
    found = match(frame, rules.compile(SCHEMA)).select("rule_ids").collect()
    wrong = []
    for row, (theirs, ours) in enumerate(zip(own, found, strict=True)):
        for id, text in texts.items():
            if theirs[f"r{id}"] != (id in ours["rule_ids"]):
                wrong.append(f"{text} for {table.slice(row, 1).to_pylist()[0]}: {theirs[f'r{id}']}")
    assert len(texts) > 30
    assert not wrong, "\n".join(wrong[:10])


def spark_schema() -> str:
    """Of the random rows."""
    kinds = {"double": "double", "int64": "bigint", "decimal128(9, 2)": "decimal(9,2)", "string": "string"}
    kinds |= {"timestamp[us, tz=UTC]": "timestamp", "date32[day]": "date"}
    return ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in SCHEMA)


def test_a_stream_tells_what_a_monitor_tells(spark: Any, tmp_path: Path) -> None:
    rules = fp.Rules()
    for id, text in enumerate(
        [
            "x - y < 1.5",
            "zone <> 'b' AND x > y",
            "y IS NULL",
            "zone LIKE 'a%' AND ABS(x - 5) < 2",
            "EXTRACT(SECOND FROM ts) BETWEEN 10 AND 20",
            "UPPER(zone) IN ('A', 'C') AND GREATEST(x, y) >= 8",
            "x / y > 2",
        ]
    ):
        rules.add(id, text, detect="enter,exit,inside")
    stream = Stream(spark, tmp_path, rules, buckets=3)
    parts = [traffic(150, seed, start=seed * 60) for seed in range(2)]
    for part in parts:
        stream.put(part)
        stream.run()
    monitor = fp.Monitor(rules, object="vehicle", time="ts", sequence="seq")
    expected = [monitor.update(part) for part in parts]
    assert ids(stream.told()) == sorted(pa.concat_tables(expected)["event_id"].to_pylist())
