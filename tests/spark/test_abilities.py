"""Sessions that can do less give the same answers: each ability is taken from a session of this Spark."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.spark import match, read_state, register, tune
from fencepost.spark.plan import abilities, routing
from fencepost.spark.plan.abilities import Abilities, abilities_of
from fencepost.spark.session import PROVIDER
from fencepost.spark.state import check_state_form
from fencepost.spark.work.match import exact_array
from tests.spark.needs import RELEASE
from tests.spark.test_match import SCHEMA, conditions_of, pairs, rows_of
from tests.spark.test_watch import Stream, facts, of_monitor, rules_of, traffic

ALL = Abilities(**dict.fromkeys(Abilities._fields, True))


@pytest.mark.oldest
def test_each_release_can_do_what_it_brought(spark: Any) -> None:
    newer = ALL if RELEASE >= (4, 3) else ALL._replace(sends_artifacts=False)
    assert abilities_of(spark) == (OLDEST if RELEASE < (4, 1) else newer)
    assert abilities._since((5, 0), False) == abilities._since((4, 1), True) == ALL
    assert abilities._since((3, 5), False) == Abilities(**dict.fromkeys(Abilities._fields, False))
    assert abilities._release("4.3.0-SNAPSHOT") == (4, 3)


@pytest.mark.oldest
def test_types_are_parsed_where_spark_has_no_public_name_for_it(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    public = abilities.parse_type("a bigint, b array<string>")
    monkeypatch.setattr("fencepost.spark.plan.abilities.types.DataType", object)
    assert abilities.parse_type("a bigint, b array<string>") == public
    assert public.simpleString() == "struct<a:bigint,b:array<string>>"


OLDEST = ALL._replace(arrow_functions=False, numbered_partitions=False, sends_artifacts=False, steps_rows=False)
"""What Spark 4.0 can do."""


@pytest.fixture
def less(spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A session that can do as much as one of Spark 4.0."""
    session = spark.newSession()
    tune(session)
    capsys.readouterr()
    monkeypatch.setitem(abilities._known, session, OLDEST)
    return session


@pytest.mark.oldest
def test_match_and_sql_without_arrow_functions(spark: Any, less: Any) -> None:
    rows = rows_of(300, 11)
    texts = [text for text in conditions_of(50, 12) if "TIMESTAMP" not in text]
    rules = fp.Rules.from_dicts({"id": id, "condition": text} for id, text in enumerate(texts))
    frame, schema = less.createDataFrame(rows, SCHEMA), spark.createDataFrame([], SCHEMA).schema
    expected = pairs(match(spark.createDataFrame(rows, SCHEMA), rules))
    assert len(expected) > 300
    odd = frame.selectExpr("*", "array(id) AS `a.b`", "struct(symbol, map(id, at)) AS `c``d`")
    matched = match(odd, rules)
    assert "MapInArrow" in matched._jdf.queryExecution().toString()
    assert matched.columns == [*odd.columns, "rule_ids"]
    assert pairs(matched) == expected
    untouched = [{row["id"]: tuple(row)[: len(odd.columns)] for row in each.collect()} for each in (odd, matched)]
    assert str(untouched[0]) == str(untouched[1]), "NaN is there, which differs from itself"
    takes = register(less, rules, schema=schema)
    frame.createOrReplaceTempView("narrow_events")
    asked = f"SELECT id, fencepost_match({', '.join(takes)}) AS rule_ids FROM narrow_events"  # noqa: S608
    assert pairs(less.sql(asked)) == expected
    assert pairs(match(frame, rules, shards=3)) == expected
    timed = fp.Rules()
    timed.add(1, "at > TIMESTAMP '2024-01-01'")
    with pytest.raises(FencepostError, match=r"compare at, a timestamp, as a function .*Spark 4\.1 or newer"):
        register(less, timed, schema=schema)


@pytest.mark.oldest
def test_a_watermark_goes_with_rows_of_any_kind(less: Any, tmp_path: Path) -> None:
    stream = less.readStream.schema(f"{SCHEMA}, extra array<int>").parquet(str(tmp_path))
    marked = stream.withWatermark("at", "10 seconds")
    rules = fp.Rules()
    rules.add(1, "price > 4")
    matched = match(marked, rules, observe="match")
    assert matched.schema.fields[:-1] == marked.schema.fields
    assert matched.schema["at"].metadata


@pytest.mark.parametrize("shards", [None, 2])
def test_a_stream_without_rows_in_its_state_operator(
    less: Any, tmp_path: Path, shards: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = rules_of(31)
    published = tmp_path / "published"
    rules.publish(published, shards=shards)
    stream = Stream(less, tmp_path / "stream", published, timeout=timedelta(seconds=30), buckets=3, shards=shards)
    monitor = fp.Monitor(
        rules.compile(version=1), object="vehicle", time="ts", sequence="seq", timeout=timedelta(seconds=30)
    )
    expected = []
    for number in range(3):
        part = traffic(200, number, start=number * 70)
        stream.put(part)
        expected.append(monitor.update(part))
        if number:
            stream.run()
    assert facts(stream.told()) == of_monitor(pa.concat_tables(expected))
    checkpoint = tmp_path / "stream" / "checkpoint"
    assert read_state(less, checkpoint).count() == 12
    check_state_form(less, checkpoint)
    monkeypatch.setitem(abilities._known, less, ALL)
    with pytest.raises(FencepostError, match=r"written by Spark 4\.0 .*; expected one written by Spark 4\.1 or newer"):
        check_state_form(less, checkpoint)
    less.conf.unset(PROVIDER)
    with pytest.raises(FencepostError, match=r"expected one written by Spark with its default .*read_state"):
        check_state_form(less, checkpoint)
    check_state_form(less, tmp_path)


@pytest.mark.oldest
def test_a_number_for_every_partition(spark: Any) -> None:
    numbers = np.array([0, 1, -1, 42, 2**31 - 1, -(2**31), 123456789], np.int32)
    rows = spark.createDataFrame([(number,) for number in numbers.tolist()], "n int").selectExpr("hash(n)").collect()
    assert routing._murmur3(numbers).tolist() == [row[0] for row in rows]
    for partitions in (1, 2, 7, 400):
        found = np.array(routing._hashed_to(partitions), np.int32)
        assert (routing._murmur3(found) % partitions).tolist() == list(range(partitions))


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1.0, None, -3.0], "bigint", pa.array([1, None, -3])),
        ([1, 2**60 + 1], "bigint", pa.array([1, 2**60 + 1])),
        ([1.5, None], "bigint", pa.array([1.5, None])),
        ([1.5, None], "double", pa.array([1.5, None])),
        ([1e300, None], "double", pa.array([1e300, None])),
        ([Decimal("1.50"), None], "decimal(9,2)", pa.array([Decimal("1.50"), None])),
        ([7.0, None], "decimal(9,2)", pa.array([7, None])),
        ([None, None], "decimal(9,2)", pa.nulls(2, pa.decimal128(9, 2))),
        ([None, None], "key", pa.nulls(2, pa.string())),
        (["a", None], "key", pa.array(["a", None])),
        ([True, None], "boolean", pa.array([True, None])),
        ([], "bigint", pa.nulls(0, pa.int64())),
    ],
)
def test_columns_are_what_they_were_before_pandas(values: list[Any], kind: str, expected: pa.Array) -> None:
    series = pd.Series(values, dtype=None if values else object)
    assert exact_array(series, "n", kind).equals(expected)


def test_what_pandas_has_rounded_is_refused() -> None:
    for large in (2**53, 2**53 + 1, -(2**60)):
        with pytest.raises(FencepostError, match=r"n with nulls and a number near .*below 9,007,199,254,740,992"):
            exact_array(pd.Series([large, None]), "n", "bigint")
    assert exact_array(pd.Series([2**53 - 1, None]), "n", "bigint").to_pylist() == [2**53 - 1, None]
