"""Settings of messages in Avro and Protobuf: checked with their schema, before Spark starts."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from fencepost.errors import FencepostError
from fencepost.pipeline import check
from fencepost.pipeline.file.avro import read_record, reader_schema, record_columns
from fencepost.pipeline.file.columns import source_columns
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.file.registry import Registry as Asked
from tests.pipeline.test_run import WATCH, write_pipeline
from tests.registry import Registry

TICK: dict[str, Any] = {
    "type": "record",
    "name": "Tick",
    "namespace": "market",
    "fields": [
        {"name": "symbol", "type": "string"},
        {"name": "price", "type": ["null", "double"]},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
SINK = 'format = "parquet"\npath = "out"\ncheckpoint = "checkpoint"'
PACKAGES = '\n[session]\npackages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "{}"]\n'


@pytest.fixture
def servers() -> Iterator[str]:
    """Somebody who listens, which is all that `check` asks of a broker."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def pipeline(home: Path, servers: str, decode: str, packages: str = "org.apache.spark:spark-avro_2.13:4.1.1") -> Path:
    source = f'format = "kafka"\nservers = "{servers}"\ntopic = "ticks"\n{decode}'
    file = write_pipeline(home, source, WATCH, SINK)
    file.write_text(file.read_text() + PACKAGES.format(packages))
    return file


def faults(file: Path) -> dict[str, str]:
    return {fault.place: f"{fault.got}; {fault.expected}" for fault in check(file)}


def test_columns_of_a_schema_file(tmp_path: Path, servers: str) -> None:
    (tmp_path / "tick.avsc").write_text(json.dumps(TICK))
    file = pipeline(tmp_path, servers, 'decode = "avro"\nschema = "tick.avsc"')
    assert check(file) == []
    columns = source_columns(read_pipeline(file)[0], "source", [])
    assert columns is not None
    assert columns.types == {
        "symbol": "string",
        "price": "double",
        "ts": "timestamp",
        "kafka_partition": "int",
        "kafka_offset": "bigint",
        "kafka_timestamp": "timestamp",
    }


def test_a_column_of_rules_that_the_schema_does_not_have(tmp_path: Path, servers: str) -> None:
    fields = [{**TICK["fields"][0], "name": "ticker"}, {"name": "price", "type": "string"}, TICK["fields"][2]]
    (tmp_path / "tick.avsc").write_text(json.dumps({**TICK, "fields": fields}))
    found = sorted(str(fault) for fault in check(pipeline(tmp_path, servers, 'decode = "avro"\nschema = "tick.avsc"')))
    assert len(found) == 3
    assert "the column symbol, which [source] does not have" in found[0]
    assert "a source whose column price is string; expected double" in found[1]
    assert "a source without the column symbol; expected that column, since rule 1 needs it" in found[2]


@pytest.mark.parametrize(
    ("decode", "place", "got"),
    [
        ("", "source.schema", "no schema; schema, columns and their Spark types"),
        ('schema = "tick.avsc"', "source.schema", "the file tick.avsc for JSON"),
        ('decode = "avro"', "source.schema", "no schema; a file with the schema, or a registry"),
        ('decode = "avro"\nschema = { price = "double" }', "source.schema", "columns and their types for avro"),
        ('decode = "avro"\nschema = "none.avsc"', "source.schema", "{home}/none.avsc (No such file or directory)"),
        ('decode = "avro"\nschema = "empty"', "source.schema", "{home}/empty is empty"),
        ('decode = "avro"\nschema = "text"', "source.schema", "a schema that is no JSON"),
        ('decode = "avro"\nschema = "tick.avsc"\nmessage = "Tick"', "source.message", "a message for avro"),
        ('decode = "avro"\nregistry = "registry:8081"', "source.registry", "'registry:8081' as a registry"),
        ('decode = "protobuf"\nmessage = "Tick"', "source.schema", "no schema; a file of descriptors"),
        ('decode = "protobuf"\nschema = "text"', "source.message", "no message"),
        ('decode = "protobuf"\nschema = "text"\nmessage = "Tick"', "source.schema", "a file that is no set of"),
        ('decode = "protobuf"\nregistry = "http://r"\nmessage = "T"', "source.registry", "a registry for protobuf"),
        ('decode = "avroo"\nschema = "tick.avsc"', "source.decode", "'avroo'; one of json, avro, protobuf"),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, servers: str, decode: str, place: str, got: str) -> None:
    (tmp_path / "tick.avsc").write_text(json.dumps(TICK))
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("no schema")
    found = faults(pipeline(tmp_path, servers, decode, 'spark:spark-avro:4", "spark:spark-protobuf:4'))
    assert found[place].startswith(got.format(home=tmp_path)), found


def test_several_topics_need_a_schema(tmp_path: Path, servers: str) -> None:
    file = pipeline(tmp_path, servers, 'decode = "avro"\nregistry = "http://127.0.0.1:1"')
    file.write_text(file.read_text().replace('topic = "ticks"', 'topic = ["ticks", "quotes"]'))
    assert faults(file)["source.schema"].startswith("several topics and a registry")


def test_the_package_must_be_there(tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_JARS", str(tmp_path / "jars"))
    (tmp_path / "tick.avsc").write_text(json.dumps(TICK))
    (fault,) = check(pipeline(tmp_path, servers, 'decode = "avro"\nschema = "tick.avsc"', "a:b:1"))
    assert (fault.place, fault.got) == ("source.decode", 'decode = "avro" without Spark\'s package for it')
    assert fault.remedy.startswith("Run fencepost connector avro, or name it in session.settings")


def test_a_registry_is_asked_and_its_password_is_not_shown(
    tmp_path: Path, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Registry("ann:s3cr:et") as registry:
        decode = f'decode = "avro"\nregistry = "http://ann:${{PASSWORD}}@{registry.address}/"'
        monkeypatch.setenv("PASSWORD", "wrong-one")
        (fault,) = check(pipeline(tmp_path, servers, decode))
        assert fault.place == "source.registry"
        assert fault.got == f"http://***@{registry.address}, which answers 401 Unauthorized"
        monkeypatch.setenv("PASSWORD", "s3cr:et")
        (fault,) = check(pipeline(tmp_path, servers, decode))
        assert fault.got == f"no subject ticks-value in http://***@{registry.address}"
        registry.add(7, TICK, "ticks-value")
        assert check(pipeline(tmp_path, servers, decode)) == []
        (tmp_path / "tick.avsc").write_text(json.dumps(TICK))
        assert check(pipeline(tmp_path, servers, f'{decode}\nschema = "tick.avsc"')) == []
        monkeypatch.setenv("PASSWORD", "wrong-one")
        (fault,) = check(pipeline(tmp_path, servers, f'{decode}\nschema = "tick.avsc"'))
        assert "401" in fault.got
    (fault,) = check(pipeline(tmp_path, servers, decode))
    assert fault.may_pass
    assert fault.got.startswith(f"no answer from http://***@{registry.address} (")
    assert "wrong-one" not in str(fault)


def test_what_a_registry_says() -> None:
    with Registry() as registry:
        asked = Asked(f"http://{registry.address}")
        registry.add(1, TICK, "ticks-value")
        registry.add(9, {**TICK, "doc": "newer"}, "ticks-value")
        registry.add(2, "message Tick {}", schemaType="PROTOBUF")
        registry.add(3, TICK, references=[{"name": "market.Side", "subject": "side", "version": 1}])
        assert set(asked.schemas_of("ticks-value")) == {1, 9}
        assert asked.schemas_of("none") == {}
        assert (json.loads(asked.latest("ticks-value"))["doc"], asked.schema(4)) == ("newer", None)
        for id, got in ((2, "schema 2 is PROTOBUF"), (3, "schema 3 refers to other schemas")):
            with pytest.raises(FencepostError, match=got):
                asked.schema(id)


def column(type_: Any) -> str | None:
    record = read_record(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": type_}]}))
    return record_columns(record)["a"]


def test_types_of_columns() -> None:
    assert column(["double", "null"]) == column({"type": "double"}) == "double"
    assert column(["int", "long"]) == "bigint"
    assert column(["null", "int", "string"]) == "struct<member0:int,member1:string>"
    assert column({"type": "array", "items": ["null", "string"]}) == "array<string>"
    assert column({"type": "map", "values": "float"}) == "map<string,float>"
    assert column({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}) == "decimal(9,2)"
    assert column({"type": "fixed", "name": "F", "size": 4}) == "binary"
    assert column({"type": "enum", "name": "E", "symbols": ["A"]}) == "string"
    assert column({"type": "int", "logicalType": "date"}) == "date"
    assert column({"type": "long", "logicalType": "local-timestamp-millis"}) == "timestamp_ntz"
    assert column({"type": "int", "logicalType": "time-millis"}) is None, "releases of Spark differ"
    inner = {"type": "record", "name": "I", "namespace": "n", "fields": [{"name": "b", "type": "int"}]}
    assert column(inner) == "struct<b:int>"
    assert column(["null", "R"]) is None, "a record in itself"
    twice = {"type": "record", "name": "R", "fields": [{"name": "a", "type": inner}, {"name": "c", "type": "n.I"}]}
    assert record_columns(read_record(json.dumps(twice))) == {"a": "struct<b:int>", "c": "struct<b:int>"}


@pytest.mark.parametrize(
    ("schema", "got"),
    [
        ("[]", "a list"),
        ('{"type": "string"}', "the type 'string'"),
        ('{"type": "record", "name": "R"}', "the record R without fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}', "the field 'a b' of R"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "text"}]}', "the type 'text'"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": 3}]}', "a type that is 3"),
        ('{"type": "record", "fields": []}', "the name None"),
        ("[" * 100_000, "a schema that is no JSON"),
    ],
)
def test_schemas_that_are_none(schema: str, got: str) -> None:
    with pytest.raises(FencepostError) as error:
        read_record(schema)
    assert error.value.got.startswith(got)


def test_every_field_may_be_missing_where_spark_reads() -> None:
    fields = {field["name"]: field for field in json.loads(reader_schema(TICK))["fields"]}
    assert fields["symbol"] == {"name": "symbol", "type": ["null", "string"], "default": None}
    assert fields["price"]["type"] == ["null", "double"]
    assert fields["fencepost_is_decoded"]["default"] is True
    kept = {"name": "price", "type": "double", "default": 0.0}
    assert kept in json.loads(reader_schema({**TICK, "fields": [kept]}))["fields"]


def descriptors() -> bytes:
    made = FileDescriptorSet()
    file = made.file.add(name="ticks.proto", package="market", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Tick")
    kinds = [("symbol", 9), ("price", 1), ("volume", 3), ("tags", 9)]
    for number, (name, kind) in enumerate(kinds, start=1):
        label = FieldDescriptorProto.LABEL_REPEATED if name == "tags" else FieldDescriptorProto.LABEL_OPTIONAL
        message.field.add(name=name, number=number, type=kind, label=label)
    message.field.add(name="ts", number=5, type=11, label=1, type_name=".google.protobuf.Timestamp")
    file.message_type.add(name="Quote")
    return bytes(made.SerializeToString())


def test_columns_of_a_protobuf_message(tmp_path: Path, servers: str) -> None:
    (tmp_path / "ticks.desc").write_bytes(descriptors())
    decode = 'decode = "protobuf"\nschema = "ticks.desc"\nmessage = "{}"'
    package = "a:b:1"  # no package of Spark's is needed
    file = pipeline(tmp_path, servers, decode.format("market.Tick"), package)
    assert check(file) == []
    columns = source_columns(read_pipeline(file)[0], "source", [])
    assert columns is not None
    wanted = {"symbol": "string", "price": "double", "volume": "bigint", "tags": "array<string>", "ts": "timestamp"}
    assert wanted.items() <= columns.types.items()
    found = check(pipeline(tmp_path, servers, decode.format("Tik"), package))
    assert [(fault.place, fault.got) for fault in found] == [("source.schema", "no message Tik in the descriptors")]
