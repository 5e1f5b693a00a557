"""Messages in Protobuf: their columns, and their rows, from what Protobuf itself encodes."""

import pickle
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message_factory, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.file.protobuf import Decoder, find_message
from tests.pipeline.test_run import WATCH, write_pipeline

WELL_KNOWN = ("timestamp", "duration", "wrappers")
KINDS = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12, "uint32": 13}


def field(message: DescriptorProto, name: str, kind: str, *, repeated: bool = False) -> Any:
    """A field of a plain kind, an enum of this package, or a message."""
    made = message.field.add(name=name, number=len(message.field) + 1, label=3 if repeated else 1)
    if kind in KINDS:
        made.type = KINDS[kind]
    else:
        made.type, made.type_name = (14 if kind == ".market.Side" else 11), kind
    return made


def market() -> FileDescriptorProto:
    """A file of messages with every kind of field."""
    file = FileDescriptorProto(name="market.proto", package="market", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in WELL_KNOWN)
    side = file.enum_type.add(name="Side")
    for number, name in enumerate(("UNKNOWN", "BUY", "SELL")):
        side.value.add(name=name, number=number)
    venue = file.message_type.add(name="Venue")
    field(venue, "name", "string")
    field(venue, "parent", ".market.Venue")
    tick = file.message_type.add(name="Tick")
    entry = tick.nested_type.add(name="SizesEntry")
    entry.options.map_entry = True
    field(entry, "key", "string")
    field(entry, "value", ".market.Venue")
    for kind in KINDS:
        field(tick, f"a_{kind}", kind)
    field(tick, "maybe", "double").proto3_optional = True
    tick.field[-1].oneof_index = 0
    tick.oneof_decl.add(name="_maybe")
    field(tick, "tags", "string", repeated=True)
    field(tick, "side", ".market.Side")
    field(tick, "venue", ".market.Venue")
    field(tick, "venues", ".market.Venue", repeated=True)
    field(tick, "sizes", ".market.Tick.SizesEntry", repeated=True)
    field(tick, "ts", ".google.protobuf.Timestamp")
    field(tick, "took", ".google.protobuf.Duration")
    field(tick, "wrapped", ".google.protobuf.DoubleValue")
    return file


def message_class(file: FileDescriptorProto, name: str) -> Any:
    """What encodes the messages of a file that imports what Protobuf brings."""
    from google.protobuf import duration_pb2, wrappers_pb2

    pool = DescriptorPool()
    for module in (timestamp_pb2, duration_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


CONTENT = FileDescriptorSet(file=[market()]).SerializeToString()
TICK = message_class(market(), "market.Tick")
COLUMNS = {
    "a_double": "double",
    "a_int64": "bigint",
    "a_uint64": "bigint",
    "a_int32": "int",
    "a_bool": "boolean",
    "a_string": "string",
    "a_bytes": "binary",
    "a_uint32": "bigint",
    "maybe": "double",
    "tags": "array<string>",
    "side": "string",
    "venue": "struct<`name`:string>",
    "venues": "array<struct<`name`:string>>",
    "sizes": "map<string,struct<`name`:string>>",
    "ts": "timestamp",
    "took": "interval day to second",
    "wrapped": "double",
}


def decoded(message: Any) -> dict[str, Any]:
    row = Decoder(CONTENT, "market.Tick")(message.SerializeToString())
    assert row is not None
    return dict(zip(COLUMNS, row, strict=True))


def test_every_kind_of_field_has_a_column() -> None:
    assert find_message(CONTENT, "Tick") == ("market.Tick", COLUMNS)


def test_what_a_message_leaves_out_is_zero_unless_it_can_be_missing() -> None:
    zeros = {"a_double": 0.0, "a_int64": 0, "a_uint64": 0, "a_int32": 0, "a_bool": False, "a_string": ""}
    zeros |= {"a_bytes": b"", "a_uint32": 0, "tags": [], "side": "UNKNOWN", "venues": [], "sizes": {}}
    missing = dict.fromkeys(["maybe", "venue", "ts", "took", "wrapped"])
    assert decoded(TICK()) == zeros | missing
    present = decoded(TICK(maybe=0.0, wrapped={"value": 0.0}, venue={}))
    assert (present["maybe"], present["wrapped"], present["venue"]) == (0.0, 0.0, ("",))


@given(
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**32 - 1),
    st.text(st.characters(codec="utf-8")),
    st.binary(),
    st.lists(st.text(st.characters(codec="utf-8"), max_size=3), max_size=3),
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
)
def test_values_come_back(
    price: float, count: int, small: int, symbol: str, raw: bytes, tags: list[str], at: datetime
) -> None:
    message = TICK(a_double=price, a_int64=count, a_uint32=small, a_string=symbol, a_bytes=raw, tags=tags, side=2)
    message.ts.FromDatetime(at)
    message.took.FromTimedelta(timedelta(microseconds=small))
    message.sizes[symbol].name = symbol
    found = decoded(message)
    assert [found[f"a_{kind}"] for kind in ("double", "int64", "uint32", "string", "bytes")] == [
        *(price, count, small, symbol, raw)
    ]
    assert (found["tags"], found["side"], found["sizes"]) == (tags, "SELL", {symbol: (symbol,)})
    assert (found["ts"], found["took"]) == (at.replace(tzinfo=UTC), timedelta(microseconds=small))


def test_a_message_within_itself_has_no_column_there() -> None:
    inner = {"name": "XNYS", "parent": {"name": "ICE", "parent": {"name": "top"}}}
    assert decoded(TICK(venue=inner))["venue"] == ("XNYS",)


def test_an_enums_value_without_a_name_is_its_number() -> None:
    assert decoded(TICK(side=7))["side"] == "7"


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        b"\x09\x00",
        TICK(a_string="x").SerializeToString()[:-1] + b"\xff",
        TICK(a_uint64=2**63).SerializeToString(),
        TICK(ts={"seconds": 2**60}).SerializeToString(),
    ],
    ids=["no tag", "cut", "no UTF-8", "beyond bigint", "beyond the year 9999"],
)
def test_what_is_no_such_message_is_nothing(value: bytes) -> None:
    assert Decoder(CONTENT, "market.Tick")(value) is None


def test_a_decoder_travels() -> None:
    decoder = Decoder(CONTENT, "market.Tick")
    value = TICK(a_double=2.5).SerializeToString()
    assert decoder(value) == pickle.loads(pickle.dumps(decoder))(value)


def test_old_messages_have_defaults_and_groups_of_their_own() -> None:
    file = FileDescriptorProto(name="old.proto", syntax="proto2")
    old = file.message_type.add(name="Old")
    field(old, "price", "double").default_value = "7"
    field(old, "size", "int32").label = 2
    content = FileDescriptorSet(file=[file]).SerializeToString()
    assert find_message(content, "Old") == ("Old", {"price": "double", "size": "int"})
    assert Decoder(content, "Old")(b"\x10\x05") == (None, 5)
    assert Decoder(content, "Old")(b"\x09" + struct.pack("<d", 7.0) + b"\x10\x05") == (7.0, 5)
    assert Decoder(content, "Old")(b"") is None, "what is required is not there"


@pytest.mark.parametrize(
    ("file", "got"),
    [
        (FileDescriptorProto(name="a", dependency=["other.proto"]), "descriptors without other.proto"),
        (FileDescriptorProto(name="a", dependency=[struct_pb2.DESCRIPTOR.name]), "descriptors without google/prot"),
        (FileDescriptorProto(name="a", message_type=[DescriptorProto(name="Empty")]), "the message Empty has"),
    ],
)
def test_descriptors_that_cannot_be_used(file: FileDescriptorProto, got: str) -> None:
    with pytest.raises(FencepostError) as refused:
        find_message(FileDescriptorSet(file=[file]).SerializeToString(), "Empty")
    assert refused.value.got.startswith(got)


def test_descriptors_that_do_not_fit_together() -> None:
    file = market()
    file.message_type[1].field[0].type_name = ".market.Nothing"
    file.message_type[1].field[0].type = 11
    with pytest.raises(FencepostError) as refused:
        find_message(FileDescriptorSet(file=[file]).SerializeToString(), "Tick")
    assert refused.value.got.startswith("descriptors that do not fit together")


def test_spark_has_the_same_columns_and_values(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql.functions import col

    from fencepost.pipeline.runtime.decoding import decode_messages

    (tmp_path / "market.desc").write_bytes(CONTENT)
    source = 'format = "kafka"\nservers = "127.0.0.1:1"\ntopic = "t"\ndecode = "protobuf"\nmessage = "Tick"\n'
    sink = 'format = "parquet"\npath = "out"\ncheckpoint = "checkpoint"'
    file, _ = read_pipeline(write_pipeline(tmp_path, source + 'schema = "market.desc"', WATCH, sink))
    message = TICK(a_double=1.5, a_uint32=2**32 - 1, a_bytes=b"\0", tags=["a"], side=1, venue={"name": "XNYS"})
    message.ts.FromDatetime(datetime(2026, 1, 2, 3, 4, 5, 678))
    message.took.FromTimedelta(timedelta(seconds=5))
    message.sizes["a"].name = "b"
    values = [message.SerializeToString(), b"", b"\xff", None]
    raw = spark.createDataFrame([(None if each is None else bytearray(each),) for each in values], "raw binary")
    made, fault = decode_messages(file, "source", col("raw"), col("parsed"))
    frame = raw.select("raw", made.alias("parsed")).select("parsed", fault.alias("fault"))
    assert dict(frame.select("parsed.*").dtypes) == {name: type_.replace("`", "") for name, type_ in COLUMNS.items()}
    found = frame.selectExpr("parsed", "fault", "CAST(parsed.ts AS BIGINT) AS seconds").collect()
    assert [row.fault for row in found] == [None, None, "does not fit the schema", "empty"]
    full, zeros, *_ = found
    assert full.seconds == int(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
    assert (full.parsed.a_uint32, full.parsed.a_bytes, full.parsed.tags) == (2**32 - 1, b"\0", ["a"])
    assert (full.parsed.venue.name, full.parsed.sizes["a"].name, full.parsed.side) == ("XNYS", "b", "BUY")
    assert full.parsed.took == timedelta(seconds=5)
    assert (zeros.parsed.a_double, zeros.parsed.maybe, zeros.parsed.tags) == (0.0, None, [])
