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

from fencepost._arrow import plain_array, strings_array
from fencepost._coded import CODED, coded, coded_nulls
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s, UInt8s
from fencepost.indexes.kernels.blake2b import blake2b_records
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
_DETECTIONS = tuple(_DETECT_NAMES.get(code) for code in range(max(_DETECT_NAMES) + 1))
_INT64, _STRING = pa.int64(), pa.string()
_FEW, _VERY_FEW = 256, 2
"""Events whose texts are looked up one by one, and those for which the array is kept."""


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
def _widths(sequences: int, attributes: int) -> Int64s:
    """How many bytes each field of the record takes."""
    widths = [1, 8, 8, *(1, 8, 8) * 2, 1, 1, 8, 1, 1, *(1, 8) * sequences, 2, *(1, 8) * (2 * attributes)]
    return np.array(widths, np.int64)


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
    count, names = len(facts.rule_ids), sorted(facts.attributes)
    widths = _widths(len(facts.sequences), len(names))
    fields = np.zeros((len(widths), count), np.int64)
    fields[0], fields[1], fields[2] = _FORMAT, facts.rule_ids, facts.rule_versions
    fields[3], fields[4], fields[5] = facts.objects
    if facts.others is not None:
        fields[6], fields[7], fields[8] = facts.others
    fields[9], fields[10], fields[11], fields[12] = facts.detects, facts.time_tag, facts.times, facts.reasons
    fields[13], at = len(facts.sequences), 14
    for ordinals, known in facts.sequences:
        at = _put(fields, at, ordinals, known)
    fields[at], at = len(names), at + 1
    for name in names:
        before, before_known, after, after_known = facts.attributes[name]
        at = _put(fields, _put(fields, at, before, before_known), after, after_known)
    if in_bytes:
        digests = blake2b_records(fields, widths, _DIGEST, in_hex=False)
        return pa.Array.from_buffers(pa.binary(_DIGEST), count, [None, pa.py_buffer(digests)])
    texts = blake2b_records(fields, widths, _DIGEST, in_hex=True)
    offsets = np.arange(0, len(texts) + 1, 2 * _DIGEST)
    if len(texts) < 2**31:  # what 32-bit offsets reach: 67 million events
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(texts))
    return pa.LargeStringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts)).cast(pa.string())


def _put(fields: Int64s, at: int, ordinals: Int64s, known: Bools | None) -> int:
    """Write which ordinals are known, and these, zero where not; the next field."""
    if known is None:
        fields[at], fields[at + 1] = 1, ordinals
    else:
        fields[at] = known
        np.multiply(ordinals, known, out=fields[at + 1])
    return at + 2


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
    further: Sequence[Any] = (),
    schema: Any = None,
    short: bool = False,
) -> Any:
    """The events as an Arrow table, in its short form if that is asked for (`_coded`).

    Further columns, which only a schema can name, stand behind the attributes.
    """
    count = len(facts.rule_ids)
    if short:
        versions, zeros = facts.rule_versions, np.zeros(count, np.int8)
        is_one = bool((versions == versions[0]).all())
        columns = [
            event_ids(facts, in_bytes=True),
            plain_array(_INT64, facts.rule_ids),
            coded(zeros, plain_array(_INT64, versions[:1])) if is_one else plain_array(_INT64, versions),
            coded(zeros, plain_array(_INT64, np.full(1, snapshot_version, np.int64))),
            objects,
            coded_nulls(count, pa.null()) if others is None else others,
            coded(facts.detects, _all_texts(_DETECTIONS)),
            time.decode(facts.times),
            coded(facts.reasons, _all_texts(REASONS)),
        ]
    else:
        columns = [
            event_ids(facts),
            plain_array(_INT64, facts.rule_ids),
            plain_array(_INT64, facts.rule_versions),
            plain_array(_INT64, np.full(count, snapshot_version, np.int64)),
            objects,
            _no_values(count, None) if others is None else others,
            _texts(_DETECTIONS, facts.detects),
            time.decode(facts.times),
            _texts(REASONS, facts.reasons) if facts.reasons.any() else _no_values(count, _STRING),
        ]
    for name in sorted(attributes):
        moved, type_ = facts.attributes[name], attributes[name]
        columns.append(type_.decode(moved.after, moved.after_known))
        columns.append(type_.decode(moved.before, moved.before_known))
    if schema is None:
        schema = event_schema(objects.type, time.arrow, attributes, None if others is None else others.type)
    if short:
        return pa.table([*columns, *further], names=schema.names).replace_schema_metadata(CODED)
    return pa.Table.from_arrays([*columns, *further], schema=schema)


def _no_values(count: int, type_: Any) -> Any:
    """So many nulls, by default of no type."""
    return _few_nulls(count, type_) if count <= _FEW else pa.nulls(count, type_)


@lru_cache(64)
def _few_nulls(count: int, type_: Any) -> Any:
    return pa.nulls(count, type_)


def _texts(names: Sequence[str | None], codes: UInt8s) -> Any:
    """The texts of codes, an Arrow array of strings."""
    if len(codes) <= _FEW:
        return _few_texts(names, codes.tobytes()) if len(codes) <= _VERY_FEW else _made_texts(names, codes.tobytes())
    return _all_texts(names).take(pa.array(codes))


@cache
def _all_texts(names: Sequence[str | None]) -> Any:
    return _made_texts(names, bytes(range(len(names))))


def _made_texts(names: Sequence[str | None], codes: bytes) -> Any:
    return strings_array([names[code] for code in codes])


_few_texts = lru_cache(64)(_made_texts)
