"""The one event schema, and event ids that are the same wherever a fact is found.

An event id is the 16-byte BLAKE2b hash, in lower-case hex, of this record. Integers are little-endian, fields
follow each other without gaps, and what is absent is zero:

    1 byte    format of this record: 1
    8         rule id
    8         rule version
    1 + 16    object: a tag, and the value (below)
    1 + 16    other: the same; absent where there is no partner
    1         detect: inside 1, enter 2, exit 4, cross 8, silent 16
    1 + 8     time: the tag of its type, and its ordinal
    1         reason: none 0, initial 1, removed 2, paused 3, expired 4, edited 5, timeout 6, held 7, kept 8, cooldown 9
    1         number of sequence columns; then for each 1 + 8: whether it is present, and its ordinal
    2         number of attributes; then for each, in the order of their names (by code point):
    1 + 8     whether a value before is known, and its ordinal
    1 + 8     whether a value after is known, and its ordinal

The tag is an ASCII letter: i bigint, d double, n decimal, t timestamp, l timestamp without zone, y date, b boolean,
s string, x binary; 0 is absent. A string or binary value is the 16-byte BLAKE2b hash of its bytes (UTF-8); any other
is its ordinal in 8 bytes, then 8 bytes that are zero but for decimals, which have their scale there. So an int32 and
an int64 column give the same ids. The snapshot version is not in the record.

Two vectors, which the tests assert byte by byte. Rule 1, version 1, object 'IBM', enter, timestamp 0, nothing else:
8e6ad9f27925c84e93df658e01e9be91. Rule -7, version 3, object 42, other 43, exit, bigint time 5, reason edited,
sequence (9, absent), two attributes that go from 39.0 to -41.5 and from unknown to the ordinal 1:
9d89f4addfc9cdb24a7021c5aec46411.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._coded import CODED, coded, coded_nulls
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.blake2b import blake2b_rows
from fencepost.ordinals import AttributeType, Kind
from fencepost.ordinals.spellings import is_string
from fencepost.snapshot.columns import DETECTS

REASONS = (None, "initial", "removed", "paused", "expired", "edited", "timeout", "held", "kept", "cooldown")
"""Why an event happened where the object did not move; the position is the code in the record."""

_FORMAT = 1
_TAGS: dict[Kind, str] = {
    "bigint": "i",
    "double": "d",
    "decimal": "n",
    "timestamp": "t",
    "timestamp_ntz": "l",
    "date": "y",
    "boolean": "b",
}
_DIGEST = 16
_DETECT_NAMES = {code: name for name, code in DETECTS.items()}


class Identity(NamedTuple):
    """One value as the record holds it: a tag and sixteen bytes."""

    tag: int
    low: int
    high: int


ABSENT = Identity(0, 0, 0)


class Identities(NamedTuple):
    """The same for a column of values."""

    tags: UInt8s
    lows: Int64s
    highs: Int64s

    def take(self, positions: Int64s) -> "Identities":
        """Those at the given positions."""
        return Identities(self.tags[positions], self.lows[positions], self.highs[positions])


class Moved(NamedTuple):
    """One attribute of many events: ordinals before and after; the masks say which are known, None means all."""

    before: Int64s
    before_known: Bools | None
    after: Int64s
    after_known: Bools | None


class Facts(NamedTuple):
    """All that identifies events, as columns of equal length."""

    rule_ids: Int64s
    rule_versions: Int64s
    objects: Identities
    others: Identities | None
    detects: UInt8s
    """Bits of `DETECTS`."""
    time_tag: int
    times: Int64s
    reasons: UInt8s
    """Positions in `REASONS`."""
    sequences: Sequence[tuple[Int64s, Bools | None]]
    """Ordinals of each sequence column, and which are present."""
    attributes: Mapping[str, Moved]


def time_tag(time: AttributeType) -> int:
    """The tag of a type that has ordinals.

    >>> chr(time_tag(AttributeType.parse("timestamp")))
    't'
    """
    return ord(_TAGS[time.kind])


def identify(values: Any) -> Identities:
    """The identities of an Arrow array of objects; nulls are absent.

    >>> identify(pa.array([7, None], pa.int32())).lows.tolist()
    [7, 0]

    """
    count = len(values)
    tags, lows, highs = np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
    tag = _bytes_tag(values.type)
    if tag is None:
        attribute = AttributeType.parse(values.type)
        ordinals, known = attribute.encode(values, "object")
        present = slice(None) if known is None else known
        tags[present] = time_tag(attribute)
        lows[present] = ordinals[present]
        if attribute.kind == "decimal":
            highs[present] = attribute.scale
        return Identities(tags, lows, highs)
    present = np.asarray(pc.is_valid(values))
    tags[present] = ord(tag)
    digests = b"".join(_digest(value) for value in values.to_pylist() if value is not None)
    halves = np.frombuffer(digests, np.dtype("<i8")).reshape(-1, 2)
    lows[present], highs[present] = halves[:, 0], halves[:, 1]
    return Identities(tags, lows, highs)


def _bytes_tag(type_: Any) -> str | None:
    """The tag of a type that is hashed by its bytes; None for one that has ordinals."""
    if is_string(type_):
        return "s"
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_):
        return "x"
    try:
        AttributeType.parse(type_)
    except FencepostError:
        raise FencepostError(
            f"objects of type {type_}",
            "strings, binary, integers, or any other type an attribute can have",
            "Cast the object column, for example to string.",
        ) from None
    return None


def _digest(value: str | bytes) -> bytes:
    return blake2b(value.encode() if isinstance(value, str) else value, digest_size=_DIGEST).digest()


@cache
def _record(sequences: int, attributes: int) -> Any:
    """The packed NumPy type of the record."""
    fields: list[tuple[str, str]] = [("format", "u1"), ("rule", "<i8"), ("version", "<i8")]
    for value in ("object", "other"):
        fields += [(f"{value}_tag", "u1"), (f"{value}_low", "<i8"), (f"{value}_high", "<i8")]
    fields += [("detect", "u1"), ("time_tag", "u1"), ("time", "<i8"), ("reason", "u1"), ("sequences", "u1")]
    for i in range(sequences):
        fields += [(f"sequence_known_{i}", "u1"), (f"sequence_{i}", "<i8")]
    fields.append(("attributes", "<u2"))
    for i in range(attributes):
        fields += [(f"before_known_{i}", "u1"), (f"before_{i}", "<i8")]
        fields += [(f"after_known_{i}", "u1"), (f"after_{i}", "<i8")]
    return np.dtype(fields)


@cache
def _packed(sequences: int, attributes: int) -> struct.Struct:
    """The same record for `struct`."""
    return struct.Struct("<Bqq" + "Bqq" * 2 + "BBqBB" + "Bq" * sequences + "H" + "BqBq" * attributes)


def event_ids(facts: Facts, in_bytes: bool = False) -> Any:
    """The ids of many events, an Arrow string array; or an array of their bytes.

    >>> one = np.ones(1, np.int64)
    >>> flag = one.astype(np.uint8)
    >>> facts = Facts(one, one, identify(pa.array([7])), None, 2 * flag, ord("i"), one, 0 * flag, (), {})
    >>> event_ids(facts).to_pylist() == [event_id(1, 1, Identity(105, 7, 0), ABSENT, 2, 105, 1, 0, (), ())]
    True

    """
    count = len(facts.rule_ids)
    names = sorted(facts.attributes)
    records = np.zeros(count, _record(len(facts.sequences), len(names)))
    records["format"] = _FORMAT
    records["rule"] = facts.rule_ids
    records["version"] = facts.rule_versions
    for name, identities in (("object", facts.objects), ("other", facts.others)):
        if identities is not None:
            records[f"{name}_tag"], records[f"{name}_low"], records[f"{name}_high"] = identities
    records["detect"] = facts.detects
    records["time_tag"] = facts.time_tag
    records["time"] = facts.times
    records["reason"] = facts.reasons
    records["sequences"] = len(facts.sequences)
    for i, (ordinals, known) in enumerate(facts.sequences):
        _put(records, f"sequence_known_{i}", f"sequence_{i}", ordinals, known)
    records["attributes"] = len(names)
    for i, name in enumerate(names):
        moved = facts.attributes[name]
        _put(records, f"before_known_{i}", f"before_{i}", moved.before, moved.before_known)
        _put(records, f"after_known_{i}", f"after_{i}", moved.after, moved.after_known)
    digests = blake2b_rows(records.view(np.uint8).reshape(count, records.itemsize), _DIGEST).tobytes()
    if in_bytes:
        return pa.Array.from_buffers(pa.binary(_DIGEST), count, [None, pa.py_buffer(digests)])
    offsets = np.arange(count + 1, dtype=np.int64) * (2 * _DIGEST)
    if count * 2 * _DIGEST < 2**31:  # what 32-bit offsets reach: 67 million events
        text = pa.py_buffer(digests.hex().encode())
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.astype(np.int32)), text)
    return pa.array([digests[at : at + _DIGEST].hex() for at in range(0, len(digests), _DIGEST)], pa.string())


def _put(records: Any, known_field: str, field: str, ordinals: Int64s, known: Bools | None) -> None:
    """Write ordinals, zero where not known."""
    if known is None:
        records[known_field] = 1
        records[field] = ordinals
    else:
        records[known_field] = known
        records[field] = np.where(known, ordinals, 0)


def event_id(
    rule: int,
    version: int,
    object: Identity,
    other: Identity,
    detect: int,
    time_tag: int,
    time: int,
    reason: int,
    sequence: Sequence[int | None],
    moved: Sequence[tuple[int | None, int | None]],
) -> str:
    """The id of one event; `reason` is a position in `REASONS`, `moved` has the attributes in the order of their names.

    >>> ibm = Identity(*(int(column[0]) for column in identify(pa.array(["IBM"]))))
    >>> event_id(1, 1, ibm, ABSENT, 2, time_tag(AttributeType("timestamp")), 0, 0, (), ())
    '8e6ad9f27925c84e93df658e01e9be91'

    """
    fields: list[int] = [_FORMAT, rule, version, *object, *other, detect, time_tag, time, reason, len(sequence)]
    for ordinal in sequence:
        fields += (0, 0) if ordinal is None else (1, ordinal)
    fields.append(len(moved))
    for pair in moved:
        for ordinal in pair:
            fields += (0, 0) if ordinal is None else (1, ordinal)
    return blake2b(_packed(len(sequence), len(moved)).pack(*fields), digest_size=_DIGEST).hexdigest()


def event_schema(
    object: Any,
    time: Any,
    attributes: Mapping[str, AttributeType],
    other: Any = None,
    further: Sequence[tuple[str, Any]] = (),
) -> Any:
    """The Arrow schema of events; further columns, with their types, stand behind the attributes.

    >>> event_schema(pa.string(), pa.int64(), {"price": AttributeType("double")}).names[-3:]
    ['reason', 'price', 'price_before']

    """
    return _event_schema(object, time, tuple(sorted(attributes.items())), other, tuple(further))


@lru_cache(64)
def _event_schema(
    object: Any,
    time: Any,
    attributes: tuple[tuple[str, AttributeType], ...],
    other: Any,
    further: tuple[tuple[str, Any], ...],
) -> Any:
    fields = [
        ("event_id", pa.string()),
        ("rule_id", pa.int64()),
        ("rule_version", pa.int64()),
        ("snapshot_version", pa.int64()),
        ("object", object),
        ("other", pa.null() if other is None else other),
        ("detect", pa.string()),
        ("time", time),
        ("reason", pa.string()),
    ]
    taken = {name for name, _ in fields}
    for name, type_ in attributes:
        for column in (name, f"{name}_before"):
            if column in taken:
                raise FencepostError(
                    f"an attribute {name!r}, which needs the event column {column!r}",
                    "a column name that no other event column has",
                    f"Rename {name} in the stream and in the rules.",
                )
            taken.add(column)
            fields.append((column, type_.arrow))
    return pa.schema([*fields, *further])


def event_table(
    facts: Facts,
    objects: Any,
    time: AttributeType,
    attributes: Mapping[str, AttributeType],
    snapshot_version: int,
    others: Any = None,
    further: Sequence[tuple[str, Any]] = (),
    short: bool = False,
) -> Any:
    """The events as an Arrow table, in its short form if that is asked for (`_coded`).

    Further columns stand behind the attributes.
    """
    count = len(facts.rule_ids)
    detections, reasons = _texts()
    if short:
        versions, zeros = facts.rule_versions, np.zeros(count, np.int8)
        is_one = bool((versions == versions[0]).all())
        columns = [
            event_ids(facts, in_bytes=True),
            pa.array(facts.rule_ids),
            coded(zeros, pa.array(versions[:1])) if is_one else pa.array(versions),
            coded(zeros, pa.array(np.full(1, snapshot_version, np.int64))),
            objects,
            coded_nulls(count, pa.null()) if others is None else others,
            coded(facts.detects, detections),
            time.decode(facts.times),
            coded(facts.reasons, reasons),
        ]
    else:
        columns = [
            event_ids(facts),
            pa.array(facts.rule_ids),
            pa.array(facts.rule_versions),
            pa.array(np.full(count, snapshot_version, np.int64)),
            objects,
            pa.nulls(count) if others is None else others,
            detections.take(pa.array(facts.detects)),
            time.decode(facts.times),
            reasons.take(pa.array(facts.reasons)),
        ]
    for name in sorted(attributes):
        moved, type_ = facts.attributes[name], attributes[name]
        columns.append(type_.decode(moved.after, moved.after_known))
        columns.append(type_.decode(moved.before, moved.before_known))
    types = [(name, column.type) for name, column in further]
    schema = event_schema(objects.type, time.arrow, attributes, None if others is None else others.type, types)
    if short:
        table = pa.table([*columns, *(column for _, column in further)], names=schema.names)
        return table.replace_schema_metadata(CODED)
    return pa.Table.from_arrays([*columns, *(column for _, column in further)], schema=schema)


@cache
def _texts() -> tuple[Any, Any]:
    """Detections and reasons by their codes; made on first use, since Arrow imports pandas to make an array."""
    detections = [_DETECT_NAMES.get(code) for code in range(max(_DETECT_NAMES) + 1)]
    return pa.array(detections, pa.string()), pa.array(REASONS, pa.string())
