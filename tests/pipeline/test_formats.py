"""Sources and sinks of any format against the Monitor; what only Spark can tell is refused when it starts."""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

import fencepost as fp
from fencepost.pipeline import PipelineFaultsError, check, run
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.file.session import session_settings
from fencepost.pipeline.runtime.formats import unfinished_batch
from tests.pipeline.test_run import EPOCH, SCHEMA, TICKS, WATCH, expected, json_lines, ticks, write_pipeline

ORC = f'format = "orc"\npath = "in"\n{SCHEMA}'
SINK = 'format = "parquet"\npath = "out"\ncheckpoint = "checkpoint"'
LAKE = 'format = "delta"\npath = "in"'


class TickerSource(DataSource):  # type: ignore[misc]
    """Gives the ticks, one by one as a stream."""

    @classmethod
    def name(cls) -> str:
        return "ticker"

    def schema(self) -> str:
        return "symbol string, price double, ts timestamp"

    def streamReader(self, schema: Any) -> "TickReader":  # noqa: N802 (Spark's name)
        del schema
        return TickReader()


class TickReader(DataSourceStreamReader):  # type: ignore[misc]
    """The number of ticks is the offset."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"at": len(TICKS)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import timedelta

        begin, end = partition.value
        for i in range(begin, end):
            yield (*TICKS[i], EPOCH.replace(tzinfo=None) + timedelta(seconds=i))


def event_ids(rows: Any) -> list[str]:
    return sorted(row["event_id"] for row in rows)


def refused(file: Path, spark: Any) -> list[str]:
    with pytest.raises(PipelineFaultsError) as error:
        run(file, spark, out=StringIO())
    assert not (file.parent / "checkpoint" / "offsets").exists(), "nothing was started"
    return [str(fault) for fault in error.value.faults]


def test_orc_to_orc_and_an_xml_row_that_does_not_fit(spark: Any, tmp_path: Path) -> None:
    frame = spark.createDataFrame([tuple(row.values()) for row in ticks()], "symbol string, price double, ts timestamp")
    frame.coalesce(1).write.orc(str(tmp_path / "in"))
    file = write_pipeline(tmp_path, ORC, WATCH, SINK.replace("parquet", "orc"))
    assert check(file) == []
    assert check(file).unchecked == ()
    summary = run(file, spark, out=StringIO())
    assert summary.events == expected().num_rows
    assert event_ids(spark.read.orc(str(tmp_path / "out")).collect()) == event_ids(expected().to_pylist())
    (tmp_path / "xml").mkdir()
    rows = [f"<r><symbol>IBM</symbol><price>{price}</price></r>" for price in ("44.5", "much")]
    (tmp_path / "xml" / "a.xml").write_text(f"<all>{''.join(rows)}</all>")
    source = 'format = "xml"\npath = "xml"\nschema = { symbol = "string", price = "double" }\n'
    source += 'options = { rowTag = "r" }\ndead_letters = "dead"'
    sink = 'format = "text"\npath = "lines"\ncheckpoint = "second"'
    summary = run(write_pipeline(tmp_path, source, 'kind = "match"', sink), spark, out=StringIO())
    assert (summary.rows, summary.events, summary.dead_letters) == (2, 1, 1)
    (letter,) = json_lines(tmp_path / "dead")
    assert (letter["fault"], "much" in letter["value"]) == ("does not fit the schema", True)
    (answer,) = [text for path in (tmp_path / "lines").glob("*.txt") for text in path.read_text().splitlines()]
    assert answer == '{"symbol":"IBM","price":44.5,"rule_ids":[1]}'


def test_a_data_source_in_python_to_a_database(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(TickerSource)
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    sink = f'format = "jdbc"\ntable = "alerts"\ncheckpoint = "checkpoint"\noptions = {{ url = "{url}" }}'
    file = write_pipeline(tmp_path, 'format = "ticker"', WATCH, sink)
    assert check(file) == []
    assert check(file).unchecked == (
        "source.format: whether the session knows 'ticker'",
        "source: its columns, and whether they are those that the rules and the operator need",
    )
    assert run(file, spark, out=StringIO()).events == expected().num_rows

    def written() -> list[str]:
        return event_ids(spark.read.jdbc(url, "alerts").collect())

    assert written() == event_ids(expected().to_pylist())
    # As after a kill while the rows of the last micro-batch were written: some are there, some are not.
    assert unfinished_batch(tmp_path / "checkpoint") is None
    newest = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (newest, newest.with_name(f".{newest.name}.crc")):
        path.unlink(missing_ok=True)
    assert unfinished_batch(tmp_path / "checkpoint") == int(newest.name)
    kept = spark.read.jdbc(url, "alerts").limit(2).collect()
    spark.createDataFrame(kept, spark.read.jdbc(url, "alerts").schema).write.jdbc(url, "alerts", "overwrite")
    assert len(written()) == 2
    run(file, spark, out=StringIO())
    assert written() == event_ids(expected().to_pylist())


def test_what_only_spark_can_tell_is_refused_at_its_place(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(TickerSource)
    (tmp_path / "in").mkdir()
    watch = WATCH.replace('"symbol"', '"vehicle"').replace('"ts"', '"symbol"')
    assert refused(write_pipeline(tmp_path, 'format = "ticker"', watch, SINK), spark) == [
        "operator.object (line 7): the column vehicle, which [source] does not have; expected a column of the source. "
        "Remove it; there are price, symbol, ts.",
        "operator.time (line 8): symbol is string; expected double, bigint, decimal(p,s) with p <= 18, "
        "timestamp, timestamp_ntz, date or boolean. Name another column, or cast it in columns.",
    ]
    source = 'format = "ticker"\ncolumns = { price = "CAST(price AS string)" }'
    (fault,) = refused(write_pipeline(tmp_path, source, WATCH, SINK), spark)
    assert fault.startswith("source.schema (line 1): a source whose column price is string; expected double or a type")
    source = 'format = "ticker"\ncolumns = { mid = "bid / 2" }'
    (fault,) = refused(write_pipeline(tmp_path, source, WATCH, SINK), spark)
    assert fault.startswith("source.columns (line 3): [UNRESOLVED_COLUMN")
    (fault,) = refused(write_pipeline(tmp_path, LAKE, WATCH, SINK), spark)
    assert fault.startswith("source.format (line 2): 'delta', which this session does not know; expected a format of")
    assert 'Add packages = ["io.delta:delta-spark_' in fault
    (fault,) = refused(write_pipeline(tmp_path, 'format = "jdbc"\ntable = "ticks"', WATCH, SINK), spark)
    assert fault.startswith("source.format (line 2): 'jdbc' cannot be read as a stream; expected a format that")
    (fault,) = refused(write_pipeline(tmp_path, 'format = "orc"\npath = "in"', WATCH, SINK), spark)
    assert fault.startswith("source.schema (line 1): no schema (Schema must be specified")
    (fault,) = refused(write_pipeline(tmp_path, 'format = "ticker"\ntable = "none"', WATCH, SINK), spark)
    assert fault.startswith("source.table (line 3): [TABLE_OR_VIEW_NOT_FOUND]")


def test_a_sink_that_the_session_does_not_know(spark: Any, tmp_path: Path) -> None:
    spark.dataSource.register(TickerSource)
    sink = 'format = "lake"\npath = "out"\ncheckpoint = "checkpoint"'
    with pytest.raises(PipelineFaultsError) as error:
        run(write_pipeline(tmp_path, 'format = "ticker"', WATCH, sink), spark, out=StringIO())
    (fault,) = error.value.faults
    assert str(fault) == (
        "sink.format (line 11): 'lake', which this session does not know; expected a format of Spark. "
        "Name the package that has it in session.packages."
    )
    assert not (tmp_path / "checkpoint" / "offsets").exists()


def test_names_that_are_almost_a_format(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    session = "\n[session]\n"
    for written, meant in (("JSON", "json"), ("parkuet", "parquet"), ("delt", "delta"), ("Avroo", "avro")):
        file = write_pipeline(tmp_path, f'format = "{written}"\npath = "in"', WATCH, SINK)
        found = {fault.place: fault.remedy for fault in check(file)}
        assert found.pop("source.format") == f"Did you mean {meant}?"
        assert [*found] == ["source.schema"] * (meant in ("json", "parquet")), "which these need"
    file.write_text(file.read_text() + session + 'packages = "org.example:avroo:1"\n')
    assert check(file) == [], "a package may bring a format of any name"
    assert read_pipeline(write_pipeline(tmp_path, 'format = "parkuet"', WATCH, SINK), any_format=True)[1] == []
    file = write_pipeline(tmp_path, LAKE, WATCH, SINK)
    (format_, columns) = check(file).unchecked
    assert "whether the session knows 'delta' (io.delta:delta-spark_" in format_
    assert columns.startswith("source: its columns")
    file.write_text(file.read_text() + session + 'packages = ["io.delta:delta-spark", "a:b:c d"]\n')
    places = [(fault.place, fault.got) for fault in check(file)]
    assert places == [("session.packages", "'io.delta:delta-spark'"), ("session.packages", "'a:b:c d'")]


def test_the_settings_of_a_session_with_packages(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, LAKE, WATCH, SINK)
    file.write_text(
        file.read_text() + '[session]\npackages = ["a:b:1", "c:d:2"]\n'
        'settings = { "spark.jars.packages" = "e:f:3", "spark.sql.extensions" = "mine" }\n'
    )
    assert session_settings(read_pipeline(file)[0]) == {
        "spark.jars.packages": "e:f:3,a:b:1,c:d:2",
        "spark.sql.extensions": "mine",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def test_faults_of_paths_and_tables(tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "price > 4")
    rules.publish(tmp_path / "published")
    source = 'format = "delta"\npath = "lake/ticks"\ntable = "ticks"'
    sink = 'format = "delta"\npath = "lake/ticks/out"\ncheckpoint = "checkpoint"\ntopic = "t"'
    found = {fault.place: fault.got for fault in check(write_pipeline(tmp_path, source, WATCH, sink))}
    assert found == {
        "source.path": f"{tmp_path}/lake/ticks does not exist",
        "source.table": "both path and table",
        "sink.topic": "the key topic",
        "sink.path": f"{tmp_path}/lake/ticks/out, which lies in what [source] reads",
    }
