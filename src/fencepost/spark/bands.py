"""bands: which pairs of rows of two DataFrames come within a band and leave it, in batch and in streams."""

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from pyspark.sql.types import StructField, StructType

from fencepost.buckets import checked_buckets
from fencepost.errors import FencepostError
from fencepost.monitor.settings import check_first, check_report
from fencepost.ordinals import AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.pairing.rules import SIDES, band_rules
from fencepost.pairing.sides import Pairing
from fencepost.rules import Rules
from fencepost.snapshot import NEVER, Snapshot, Table
from fencepost.spark.metrics import observed_watch
from fencepost.spark.plan.columns import KEY, arrow_type, own_name, quoted
from fencepost.spark.plan.rules import Plan, plan_rules
from fencepost.spark.plan.sent import Sent, attributes_of, event_fields, sent_columns
from fencepost.spark.plan.steps import step_buckets
from fencepost.spark.session import warn_untuned
from fencepost.spark.work.band_task import BandTask, SideTask, needed_by_bands
from fencepost.spark.work.bucket import join_bucket
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import PACKED, ROW_KINDS, pack, unpack
from fencepost.spark.work.task import DELETED, OBJECT, TIME
from fencepost.watching.clock import Clock

_BUCKET = "fencepost bucket"
_HASHED = {"bigint": "bigint", "boolean": "boolean", "date": "date", "timestamp": "timestamp"}
"""Types of keys, and what both sides are cast to, so that equal keys have equal hashes; others go as they are."""


def bands(
    left: Any,
    right: Any,
    rules: Any,
    *,
    object: str,
    time: str,
    key: str | Sequence[str] = (),
    sequence: str | Sequence[str] | None = None,
    deleted: str | None = None,
    report: Literal["pairs", "rules"] = "pairs",
    buckets: int = 32,
    first: Literal["enter", "silent"] = "enter",
    timeout: timedelta | int | None = None,
    late: str | os.PathLike[str] | None = None,
    clock: str | os.PathLike[str] | None = None,
    observe: str | None = None,
) -> Any:
    """The pairs of rows that come within a band and leave it: the events of a `Monitor` with the same arguments.

    Example::

        from fencepost import Rules
        from fencepost.spark import bands

        rules = Rules()
        rules.add(7, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
        columns = "venue string, symbol string, ts bigint, price double"
        bids = spark.createDataFrame([("Paris", "IBM", 1, 40.0), ("Paris", "IBM", 3, 44.0)], columns)
        asks = spark.createDataFrame([("London", "IBM", 2, 40.5)], columns)
        events = bands(bids, asks, rules, object="venue", time="ts", key="symbol")
        events.select("time", "object", "other", "detect", "rule_id").orderBy("time").show()
        # +----+------+------+------+-------+
        # |time|object| other|detect|rule_id|
        # +----+------+------+------+-------+
        # |   2| Paris|London| enter|      7|
        # |   3| Paris|London|  exit|      7|
        # +----+------+------+------+-------+

    A stream keeps the last row of every object of either side in Spark's state store. Rows of both sides are applied
    in the order of time, at one time the left ones first, then by sequence. Every change is reported; changes within a
    micro-batch do not cancel each other out.

    Args:
        left: a DataFrame, batch or streaming, of a classic session or of Spark Connect.
        right: likewise; both are batch or both are streaming.
        rules: `Rules`, bound to the types of the frames; a `Snapshot`; or a directory of published rules, path or URL.
        object: the column that names a row, on both sides.
        time: the column of event time.
        key: the columns that rows are spread by: only rows of one key make pairs, and one id under two keys is two
            rows. Without a key all rows meet in one bucket, which is one task.
        sequence: a column, or several, that order rows of equal time.
        deleted: a boolean column that says that a row is gone.
        report: "pairs", or "rules" for events that name only the row that moved, once for each rule it affects.
        buckets: how many parts the keys are spread over; a checkpoint keeps the number it was made with.
        first: "enter" reports bands that a row is in when it is first seen, "silent" does not.
        timeout: how long a row may be silent before it is gone: a timedelta, or a number in the unit of time.
        late: a directory for late rows, as Parquet files in `left` and `right`; they are counted in any case.
        clock: a directory of clock markers that this stream alone hears, beside those of the rules; pipelines have one.
        observe: a name under which Spark's query progress reports what was joined; see `prometheus_text`.
    """
    warn_untuned(left.sparkSession, stateful=left.isStreaming)
    check_first(first)
    check_report(report)
    checked_buckets(buckets)
    if left.isStreaming != right.isStreaming:
        raise FencepostError(
            "a streaming frame beside a batch frame", "both streaming, or both batch", "Read both with readStream."
        )
    names = (key,) if isinstance(key, str) else tuple(key)
    order = (sequence,) if isinstance(sequence, str) else tuple(sequence or ())
    roles = [(OBJECT, object), (TIME, time), *((f"fencepost sequence {n}", c) for n, c in enumerate(order))]
    roles += [] if deleted is None else [(DELETED, deleted)]
    given = _given((left, right), rules, roles, names)
    kind = _time_type(given, timeout)
    fields = _event_fields(given)
    task = BandTask(
        given.plan.source,
        given.plan.snapshot.version,
        left.isStreaming and isinstance(given.plan.source, Published),
        (given.sides[0].task, given.sides[1].task),
        tuple(sorted(given.attributes.items())),
        tuple(role for role, _ in roles if role.startswith("fencepost sequence")),
        Pairing(None if deleted is None else DELETED, given.key, report),
        str(kind),
        buckets if given.key else 1,
        first,
        timeout,
        None if late is None else os.fspath(Path(late).absolute()),
        pa.schema([(field.name, arrow_type(field)) for field in fields]),
    )
    declared = StructType(fields)
    if not left.isStreaming:
        return (
            _packed(given, task)
            .groupBy("bucket")
            .applyInPandas(_batch_function(task), "payload binary")
            .mapInArrow(unpack, declared)
        )
    stepped = stepped_bands(given, task, clock)
    if observe is not None:
        stepped = observed_watch(stepped, observe)
    return stepped.where("payload IS NOT NULL").select("payload").mapInArrow(unpack, declared)


def stepped_bands(given: "_Given", task: BandTask, clock: str | os.PathLike[str] | None) -> Any:
    """The packed events of two streams and their meters, a row per bucket."""
    return step_buckets(_packed(given, task), task, clock)


def _batch_function(task: BandTask) -> Any:
    def fencepost_bands(frame: Any) -> Any:
        return join_bucket(frame, task)

    return fencepost_bands


def _packed(given: "_Given", task: BandTask) -> Any:
    """The rows of both sides, packed by bucket."""
    sides = []
    for kind, side in zip(ROW_KINDS, given.sides, strict=True):
        hashed = [quoted(column).cast(type_) if type_ else quoted(column) for column, type_ in side.hashed]
        bucket = F.pmod(F.xxhash64(*hashed), F.lit(task.buckets)).cast("int") if hashed else F.lit(0)
        packed = side.rows.withColumn(_BUCKET, bucket).mapInArrow(pack, PACKED)
        sides.append(packed.withColumn("kind", F.lit(kind)))
    return sides[0].unionByName(sides[1])


# -- what was given ----------------------------------------------------------------------------------------


class _Side(NamedTuple):
    """One side, checked and made ready."""

    frame: Any
    sent: Sent
    rows: Any
    """The columns that go to Python."""
    task: SideTask
    hashed: list[tuple[str, str | None]]
    """The columns of the key among the rows, and the types they are hashed as."""


class _Given(NamedTuple):
    """What the operator was given, checked and made ready."""

    plan: Plan
    sides: tuple[_Side, _Side]
    attributes: dict[str, str]
    """Of events, with their types."""
    key: tuple[str, ...]
    """As rules call the columns."""


def _given(frames: tuple[Any, Any], rules: Any, roles: list[tuple[str, str]], key: Sequence[str]) -> _Given:
    plan = plan_rules(frames[0].sparkSession, rules, _both(frames) if isinstance(rules, Rules) else None)
    if plan.snapshot.bands is None:
        raise FencepostError(
            f"{len(plan.snapshot):,} rules without a band",
            "rules over left. and right., such as left.price - right.price BETWEEN -1 AND 1",
            "Use watch for rules about one stream.",
        )
    schema = plan.needed if isinstance(plan.source, Published) else {}
    needed = needed_by_bands(plan.snapshot)
    attributes = attributes_of(schema) | needed[0][0] | needed[1][0]
    names = tuple(_rule_name(frames[0], name, plan, needed) for name in key)
    sides = [
        _side(name, frame, plan.snapshot, roles, names, own, schema)
        for name, frame, own in zip(SIDES, frames, needed, strict=True)
    ]
    _check_same(plan.snapshot, sides, names)
    return _Given(plan, (sides[0], sides[1]), attributes, names)


def _both(frames: tuple[Any, Any]) -> StructType:
    """The columns of both frames; where both have one, the left side's decides, and the right's must convert."""
    fields = {field.name.lower(): field for frame in reversed(frames) for field in frame.schema.fields}
    return StructType(list(fields.values()))


def _rule_name(frame: Any, wanted: str, plan: Plan, needed: Any) -> str:
    """The name that rules have for a column of the key, or else the frame's own."""
    names = Table(dict.fromkeys(frame.columns, ()))
    own = own_name(names, wanted, lambda: "which was named as key")
    known = {*plan.needed, *(name for part in needed for group in part for name in group)}
    return next((name for name in sorted(known) if names.find(name) == own), own)


def _side(
    name: str,
    frame: Any,
    snapshot: Snapshot,
    roles: list[tuple[str, str]],
    key: tuple[str, ...],
    needed: tuple[dict[str, str], set[str], set[str]],
    schema: dict[str, str],
) -> _Side:
    subtracted, texts, same = needed
    has = Table(dict.fromkeys(frame.columns, ()))
    # Later versions may need any column of the schema that the side has.
    more = {column: kind for column, kind in schema.items() if has.find(column) is not None}
    bound = {**more, **dict.fromkeys(sorted(texts), KEY), **subtracted}
    others = sorted({*same, *key} - set(bound))
    try:
        sent = sent_columns(frame, roles, bound, snapshot, others)
    except FencepostError as error:
        raise FencepostError(f"on the {name} side {error.got}", error.expected, error.remedy) from None
    if DELETED in dict(roles):
        type_ = sent.field(frame, DELETED).dataType.simpleString()
        if type_ != "boolean":
            raise FencepostError(
                f"{name}.{dict(roles)[DELETED]} of type {type_}",
                "booleans, true where a row is gone",
                "Cast the column.",
            )
    rows = sent.rows(frame)
    task = SideTask(
        sent.twice,
        tuple(sorted(attributes_of(bound))),
        tuple(sorted(column for column, kind in bound.items() if kind == KEY)),
        frozenset((*bound, *others)),
        sent.field(frame, OBJECT).dataType.simpleString(),
    )
    hashed = []
    for column in key:
        kind = _key_kind(sent.field(frame, column))
        if kind == "double":
            raise FencepostError(
                f"{name}.{column} of type double as a key",
                "strings, integers, decimals, dates or timestamps",
                "Cast the column to a decimal or a string.",
            )
        hashed.append((dict(sent.twice).get(column, column), _HASHED.get(kind)))
    return _Side(frame, sent, rows, task, hashed)


def _key_kind(field: Any) -> str:
    """What keys of this type are compared as; one that cannot be is refused."""
    text = field.dataType.simpleString()
    type_ = read_schema({"column": text}).types.get("column")
    if type_ is None:
        raise FencepostError(
            f"{field.name} of type {text}, which rules compare", "a string or a plain type", "Cast the column."
        )
    if not isinstance(type_, AttributeType):
        return "string"
    return str(type_) if type_.kind == "decimal" else type_.kind


def _check_same(snapshot: Snapshot, sides: list[_Side], key: tuple[str, ...]) -> None:
    """Refuse columns that must be equal and never can be, since their types differ."""
    same = {pair for rule in band_rules(snapshot, snapshot.in_force, key) for pair in rule.shape.same}
    for names in sorted(same):
        fields = [side.sent.field(side.frame, name) for side, name in zip(sides, names, strict=True)]
        one, other = map(_key_kind, fields)
        if one != other:
            raise FencepostError(
                f"left.{names[0]} as {one} and right.{names[1]} as {other}",
                "one type, since they must be equal",
                "Cast one of the two columns to the type of the other.",
            )


def _time_type(given: _Given, timeout: timedelta | int | None) -> AttributeType:
    """The type of times, the same on both sides."""
    fields = [side.sent.field(side.frame, TIME) for side in given.sides]
    clock, snapshot = Clock(fields[0].name, timeout), given.plan.snapshot
    kinds = [clock.type_for(arrow_type(field)) for field in fields]
    if kinds[0] != kinds[1]:
        raise FencepostError(
            f"left.{fields[0].name} as {kinds[0]} and right.{fields[1].name} as {kinds[1]}",
            "times of one type",
            "Cast one of the two columns to the type of the other.",
        )
    in_force = snapshot.in_force
    clock.check(kinds[0], snapshot.rules.ids[in_force][snapshot.rules.expires[in_force] != NEVER])
    return kinds[0]


def _event_fields(given: _Given) -> list[Any]:
    left, right = given.sides
    types = {
        "object": left.sent.field(left.frame, OBJECT).dataType,
        "other": right.sent.field(right.frame, OBJECT).dataType,
        "time": left.sent.field(left.frame, TIME).dataType,
    }
    fields = event_fields(types, given.attributes)
    taken = {field.name for field in fields}
    for name in given.key:
        if name in taken:
            raise FencepostError(
                f"key={name!r}, which events have as a column already",
                "a column name that no other event column has",
                f"Rename {name} in both frames and in the rules.",
            )
        fields.append(StructField(name, left.sent.field(left.frame, name).dataType))
    return fields
