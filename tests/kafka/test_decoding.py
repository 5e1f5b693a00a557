"""Messages in Avro, in Protobuf and of Debezium on a real broker, with schema files and with a registry on loopback."""

import base64
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from tools.kafka import Broker

import fencepost as fp
from fencepost.book import RuleBook
from fencepost.pipeline import check, run
from tests.kafka.test_kafka import messages
from tests.registry import Registry

pytestmark = pytest.mark.system

FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Move",
    "fields": [
        {"name": "vehicle", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "x", "type": ["null", "double"]},
    ],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "driver", "type": "string", "default": "nobody"}]}
OTHER = {**FIRST, "fields": [FIRST["fields"][1], FIRST["fields"][0]]}
"""Without x, and in another order."""
ROWS: list[dict[str, Any]] = [{"vehicle": "v1", "at": at, "x": x} for at, x in enumerate((1.0, 5.0, None, 6.0, 9.0))]


def send(spark: Any, broker: Broker, topic: str, rows: list[Any], schema: Any = None, id: int | None = None) -> None:
    """Rows in Avro, as a registry's producer frames them where they have an id; or bytes as they are."""
    from pyspark.sql.avro.functions import to_avro

    if schema is None:
        frame = spark.createDataFrame([(bytearray(row) if row is not None else None,) for row in rows], "value binary")
    else:
        types = {"string": "string", "long": "bigint"}
        names = [field["name"] for field in schema["fields"]]
        ddl = ", ".join(f"{f['name']} {types.get(str(f['type']), 'double')}" for f in schema["fields"])
        frame = spark.createDataFrame([tuple(row.get(name) for name in names) for row in rows], ddl)
        value = to_avro(F.struct(*names), json.dumps(schema))
        header = b"" if id is None else b"\0" + id.to_bytes(4, "big")
        frame = frame.select(F.concat(F.lit(bytearray(header)), value).alias("value"))
    frame = frame.select(F.lit("one partition").alias("key"), "value").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("topic", topic).save()


def rules() -> fp.Rules:
    made = fp.Rules()
    made.add(1, "x BETWEEN 4 AND 8", detect="enter,exit")
    return made


def write_pipeline(home: Path, broker: Broker, topic: str, decode: str) -> Path:
    rules().publish(home / "published", {"x": "double"})
    (home / "pipeline.toml").write_text(f"""
[source]
format = "kafka"
servers = "{broker.servers}"
topic = "{topic}"
decode = "avro"
{decode}
dead_letters = "dead"
[rules]
directory = "published"
[operator]
kind = "watch"
object = "vehicle"
time = "at"
buckets = 2
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
once = true
""")
    return home / "pipeline.toml"


def expected(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    schema = pa.schema([("vehicle", pa.string()), ("at", pa.int64()), ("x", pa.float64())])
    monitor = fp.Monitor(rules().compile({"x": "double"}), object="vehicle", time="at")
    events = monitor.update(pa.Table.from_pylist(rows, schema)).to_pylist()
    return sorted((event["rule_id"], event["detect"], event["time"]) for event in events)


def told(spark: Any, home: Path) -> list[tuple[int, str, int]]:
    events = spark.read.parquet(str(home / "out")).collect()
    return sorted((event["rule_id"], event["detect"], event["time"]) for event in events)


def dead(home: Path) -> list[tuple[str, str, bytes | None]]:
    letters = [json.loads(line) for file in (home / "dead").glob("*.json") for line in file.read_text().splitlines()]
    return sorted(
        (each["origin"], each["fault"], base64.b64decode(each["value"]) if "value" in each else None)
        for each in letters
    )


def offsets(spark: Any, broker: Broker, topic: str, values: Sequence[bytes | None]) -> list[str]:
    """Where messages are."""
    found = {message["value"] and bytes(message["value"]): message for message in messages(spark, broker, topic)}
    return [f"{topic}/{found[value]['partition']}/{found[value]['offset']}" for value in values]


def test_a_schema_file_and_what_does_not_decode(spark: Any, broker: Broker, tmp_path: Path) -> None:
    poison = [b"\x10x", None]
    send(spark, broker, "avro-file", ROWS[:3], FIRST)
    send(spark, broker, "avro-file", poison)
    send(spark, broker, "avro-file", ROWS[3:], FIRST)
    (tmp_path / "move.avsc").write_text(json.dumps(FIRST))
    file = write_pipeline(tmp_path, broker, "avro-file", 'schema = "move.avsc"')
    assert check(file) == []
    summary = run(file, spark, out=StringIO())
    assert (summary.rows, summary.dead_letters) == (len(ROWS) + 2, 2)
    assert told(spark, tmp_path) == expected(ROWS)
    where = offsets(spark, broker, "avro-file", poison)
    faults = ["does not fit the schema", "empty"]
    assert dead(tmp_path) == sorted(zip(where, faults, poison, strict=True))


def test_protobuf_and_what_does_not_decode(spark: Any, broker: Broker, tmp_path: Path) -> None:
    proto = FileDescriptorProto(name="move.proto", syntax="proto3")
    move = proto.message_type.add(name="Move")
    for number, (name, kind) in enumerate((("vehicle", 9), ("at", 3), ("x", 1)), start=1):
        move.field.add(name=name, number=number, type=kind, label=1)
    move.field[2].proto3_optional, move.field[2].oneof_index = True, 0
    move.oneof_decl.add(name="_x")
    (tmp_path / "move.desc").write_bytes(FileDescriptorSet(file=[proto]).SerializeToString())
    pool = DescriptorPool()
    pool.Add(proto)
    encoded = message_factory.GetMessageClass(pool.FindMessageTypeByName("Move"))
    poison = [b"\xff", None]
    sent = [encoded(**{name: value for name, value in row.items() if value is not None}) for row in ROWS]
    send(spark, broker, "protobuf", [*(each.SerializeToString() for each in sent), *poison])
    file = write_pipeline(tmp_path, broker, "protobuf", 'schema = "move.desc"\nmessage = "Move"')
    file.write_text(file.read_text().replace('"avro"', '"protobuf"'))
    assert check(file) == []
    summary = run(file, spark, out=StringIO())
    assert (summary.rows, summary.dead_letters) == (len(ROWS) + 2, 2)
    assert told(spark, tmp_path) == expected(ROWS)
    where = offsets(spark, broker, "protobuf", poison)
    assert dead(tmp_path) == sorted(zip(where, ["does not fit the schema", "empty"], poison, strict=True))


def test_a_registry_whose_schemas_change_while_the_pipeline_runs(spark: Any, broker: Broker, tmp_path: Path) -> None:
    with Registry("ann:s3cret") as registry:
        registry.add(1, FIRST, "avro-registry-value")
        send(spark, broker, "avro-registry", ROWS[:2], FIRST, 1)
        poison = [b"no id at all", b"\0\0\0\0\1\x10x", b"\0\0\0\0\x63?", b"\0\0"]
        send(spark, broker, "avro-registry", poison)
        decode = f'registry = "http://ann:s3cret@{registry.address}"'
        file = write_pipeline(tmp_path, broker, "avro-registry", decode)
        assert check(file) == []
        # Not of the subject, as where a producer names subjects in its own way: it is met only in the topic.
        registry.add(2, SECOND)
        registry.add(3, OTHER)
        send(spark, broker, "avro-registry", [{**ROWS[3], "driver": "bob"}], SECOND, 2)
        send(spark, broker, "avro-registry", [{"vehicle": "v1", "at": 7}], OTHER, 3)
        said = StringIO()
        summary = run(file, spark, out=said)
        assert summary.rows == 4 + len(poison), said.getvalue()
        assert summary.dead_letters == len(poison)
        assert told(spark, tmp_path) == expected([*ROWS[:2], ROWS[3], {"vehicle": "v1", "at": 7, "x": None}])
        faults = ["no id of a schema", "does not fit the schema", "schema 99, which the registry does not have"]
        where = offsets(spark, broker, "avro-registry", poison)
        assert dead(tmp_path) == sorted(zip(where, [*faults, "no id of a schema"], poison, strict=True))
        by_id = [path for path in registry.asked if path.startswith("/schemas/ids/")]
        assert sorted(set(by_id)) == [f"/schemas/ids/{id}" for id in (2, 3, 99)]
        assert [by_id.count(f"/schemas/ids/{id}") for id in (2, 3)] == [1, 1], "each was fetched once"
        assert "s3cret" not in said.getvalue()
    # The registry is gone. What it said is kept, and a file says how to read.
    (tmp_path / "move.avsc").write_text(json.dumps(FIRST))
    send(spark, broker, "avro-registry", [{**ROWS[4], "at": 9, "driver": "eve"}], SECOND, 2)
    text = file.read_text().replace("[rules]", 'schema = "move.avsc"\n[rules]')
    file.write_text(text)
    (fault,) = check(file)
    assert fault.may_pass


def test_a_book_that_debezium_changes(spark: Any, broker: Broker, tmp_path: Path) -> None:
    def row(alert: int, low: Any, high: float) -> dict[str, Any]:
        return {"alert": alert, "low": low, "high": high}

    def envelope(op: str, before: Any, after: Any) -> bytes:
        return json.dumps({"before": before, "after": after, "source": {"connector": "postgresql"}, "op": op}).encode()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"vehicle": "v1", "at": 1, "x": 5.0}')
    first, second = row(1, 4.0, 8.0), row(2, 0.0, 1.0)
    values = [envelope("r", None, first), envelope("c", None, second), envelope("u", first, row(1, 4.5, 8.0))]
    send(
        spark,
        broker,
        "alert-table",
        [*values, envelope("d", second, None), None, envelope("c", None, row(3, "x", 1.0))],
    )
    book = RuleBook(f"sqlite:///{tmp_path}/rules.db")
    (tmp_path / "pipeline.toml").write_text(f"""
[source]
format = "json"
path = "in"
schema = {{ vehicle = "string", at = "bigint", x = "double" }}
[rules]
book = "sqlite:///rules.db"
[rules.changes]
format = "debezium"
servers = "{broker.servers}"
topic = "alert-table"
id = "alert"
range = "x=low,high"
detect = "enter"
dead_letters = "bad"
[operator]
kind = "watch"
object = "vehicle"
time = "at"
buckets = 2
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
once = true
""")
    assert check(tmp_path / "pipeline.toml") == []
    summary = run(tmp_path / "pipeline.toml", spark, out=StringIO())
    assert (summary.rule_changes, summary.bad_changes) == (1, 1)
    assert [(rule.id, str(rule.condition), rule.detect) for rule in book] == [(1, "x >= 4.5 AND x < 8.0", "enter")]
    book.close()
    (letter,) = [json.loads(line) for path in (tmp_path / "bad").iterdir() for line in path.read_text().splitlines()]
    assert letter["origin"].startswith("alert-table/")
    assert "low" in letter["fault"]
