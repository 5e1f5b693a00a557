"""Event ids: the documented record, its vectors, and the two ways to compute them."""

import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.events import (
    ABSENT,
    REASONS,
    Facts,
    Identity,
    Moved,
    event_id,
    event_ids,
    event_schema,
    event_table,
    identify,
    time_tag,
)
from fencepost.ordinals import BIGINT, DOUBLE, TIMESTAMP, AttributeType
from fencepost.snapshot import DETECTS

int64s = st.integers(-(2**63), 2**63 - 1)
ordinals = st.one_of(st.none(), int64s)

VECTORS: list[tuple[dict[str, Any], str, str]] = [
    (
        {
            "rule": 1, "version": 1, "object": "IBM", "other": None, "detect": "enter",
            "time": (TIMESTAMP, 0), "reason": None, "sequence": (), "moved": (),
        },
        "01 0100000000000000 0100000000000000"
        " 73 945dd4ea4e2c320895b066e511f770a4"
        " 00 00000000000000000000000000000000"
        " 02 74 0000000000000000 00 00 0000",
        "8e6ad9f27925c84e93df658e01e9be91",
    ),
    (
        {
            "rule": -7, "version": 3, "object": 42, "other": 43, "detect": "exit",
            "time": (BIGINT, 5), "reason": "edited", "sequence": (9, None),
            "moved": ((DOUBLE.encode_one(39.0), DOUBLE.encode_one(-41.5)), (None, 1)),
        },
        "01 f9ffffffffffffff 0300000000000000"
        " 69 2a000000000000000000000000000000"
        " 69 2b000000000000000000000000000000"
        " 04 69 0500000000000000 05"
        " 02 01 0900000000000000 00 0000000000000000"
        " 0200 01 0000000000804340 01 000000000040bbbf"
        " 00 0000000000000000 01 0100000000000000",
        "9d89f4addfc9cdb24a7021c5aec46411",
    ),
]  # fmt: skip


def identity_of(value: Any) -> Identity:
    return ABSENT if value is None else Identity(*(int(column[0]) for column in identify(pa.array([value]))))


def arguments(vector: dict[str, Any]) -> tuple[Any, ...]:
    time, at = vector["time"]
    return (
        vector["rule"],
        vector["version"],
        identity_of(vector["object"]),
        identity_of(vector["other"]),
        DETECTS[vector["detect"]],
        time_tag(time),
        at,
        REASONS.index(vector["reason"]),
        vector["sequence"],
        vector["moved"],
    )


@pytest.mark.parametrize(("vector", "record", "expected"), VECTORS, ids=["plain", "full"])
def test_ids_are_the_hash_of_the_documented_record(vector: dict[str, Any], record: str, expected: str) -> None:
    assert event_id(*arguments(vector)) == expected
    assert blake2b(bytes.fromhex(record), digest_size=16).hexdigest() == expected


@given(
    st.lists(
        st.tuples(int64s, int64s, int64s, st.sampled_from([1, 2, 4, 8]), int64s, st.integers(0, 6), ordinals, ordinals),
        max_size=5,
    ),
    st.booleans(),
    st.integers(0, 3),
)
def test_many_ids_are_those_of_each(rows: list[tuple[Any, ...]], sequenced: bool, attributes: int) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * 8
    known = np.array([value is not None for value in columns[6]], np.bool_)
    also_known = np.array([value is not None for value in columns[7]], np.bool_)
    one = np.array([value or 0 for value in columns[6]], np.int64)
    other = np.array([value or 0 for value in columns[7]], np.int64)
    facts = Facts(
        np.array(columns[0], np.int64),
        np.array(columns[1], np.int64),
        identify(pa.array(columns[2], pa.int64())),
        None,
        np.array(columns[3], np.uint8),
        time_tag(BIGINT),
        np.array(columns[4], np.int64),
        np.array(columns[5], np.uint8),
        [(one, known)] if sequenced else [],
        {name: Moved(one, known, other, also_known) for name in "zyx"[:attributes]},
    )
    expected = [
        event_id(
            rule, version, identity_of(object), ABSENT, detect, time_tag(BIGINT), time, reason,
            [first] if sequenced else [], [(first, second)] * attributes,
        )
        for rule, version, object, detect, time, reason, first, second in rows
    ]  # fmt: skip
    assert event_ids(facts).to_pylist() == expected


def test_attributes_go_by_name_and_what_is_not_known_is_zero() -> None:
    one, two = np.array([1]), np.array([2])
    flag, no = np.array([1], np.uint8), np.array([False])

    def ids(attributes: dict[str, Moved]) -> Any:
        objects = identify(pa.array(["a"]))
        return event_ids(Facts(one, one, objects, None, flag, time_tag(BIGINT), one, 0 * flag, [], attributes))[
            0
        ].as_py()

    first, second = Moved(one, None, two, None), Moved(two, None, two, None)
    assert ids({"a": first, "b": second}) == ids({"b": second, "a": first}) != ids({"a": second, "b": first})
    assert ids({"a": Moved(one, no, two, None)}) == ids({"a": Moved(two, no, two, None)})


@pytest.mark.parametrize(
    ("values", "arrow_type", "tag", "body"),
    [
        ([7], pa.int8(), "i", struct.pack("<qq", 7, 0)),
        ([7], pa.uint64(), "i", struct.pack("<qq", 7, 0)),
        ([-0.0], pa.float32(), "d", bytes(16)),
        ([Decimal("1.50")], pa.decimal128(9, 2), "n", struct.pack("<qq", 150, 2)),
        ([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("s", "UTC"), "t", struct.pack("<qq", 10**6, 0)),
        ([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("ns"), "l", struct.pack("<qq", 10**6, 0)),
        ([date(1970, 1, 2)], pa.date32(), "y", struct.pack("<qq", 1, 0)),
        ([True], pa.bool_(), "b", struct.pack("<qq", 1, 0)),
        (["é"], pa.string(), "s", blake2b("é".encode(), digest_size=16).digest()),
        (["é"], pa.large_string(), "s", blake2b("é".encode(), digest_size=16).digest()),
        ([b"\x00"], pa.binary(), "x", blake2b(b"\x00", digest_size=16).digest()),
        ([None], pa.string(), "\0", bytes(16)),
        ([None], pa.int64(), "\0", bytes(16)),
    ],
)
def test_objects_of_every_type_have_an_identity(values: list[Any], arrow_type: Any, tag: str, body: bytes) -> None:
    tags, lows, highs = identify(pa.array(values, arrow_type))
    assert (chr(tags[0]), struct.pack("<qq", int(lows[0]), int(highs[0]))) == (tag, body)


def test_a_type_without_identity_is_refused() -> None:
    with pytest.raises(FencepostError) as caught:
        identify(pa.array([[1]]))
    assert str(caught.value) == (
        "Objects of type list<item: int64>; expected strings, binary, integers, or any other type an attribute can "
        "have. Cast the object column, for example to string."
    )


def test_attributes_must_not_hide_the_columns_of_events() -> None:
    price = {"price": DOUBLE}
    assert event_schema(pa.string(), pa.int64(), price, pa.string()).field("other").type == pa.string()
    for attributes, hidden in (({"reason": DOUBLE}, "reason"), ({**price, "price_before": DOUBLE}, "price_before")):
        with pytest.raises(FencepostError) as caught:
            event_schema(pa.string(), pa.int64(), attributes)
        assert f"which needs the event column '{hidden}'" in str(caught.value)
        assert "in the stream and in the rules." in str(caught.value)


def test_the_table_of_events_with_partners() -> None:
    one, flag = np.array([5]), np.array([4], np.uint8)
    objects, others = pa.array(["left"]), pa.array(["right"])
    moved = {"price": Moved(np.array([0]), np.array([False]), np.array([0]), None)}
    facts = Facts(one, one, identify(objects), identify(others), flag, time_tag(BIGINT), one, flag, [], moved)
    table = event_table(facts, objects, BIGINT, {"price": AttributeType("double")}, 12, others)
    assert table.drop_columns("event_id").to_pylist() == [
        {
            "rule_id": 5,
            "rule_version": 5,
            "snapshot_version": 12,
            "object": "left",
            "other": "right",
            "detect": "exit",
            "time": 5,
            "reason": "expired",
            "price": 0.0,
            "price_before": None,
        }
    ]
