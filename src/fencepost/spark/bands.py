"""bands: which pairs of rows of two DataFrames come within a band and leave it, in batch and in streams."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from pyspark.sql.types import StructField, StructType

from fencepost._text import count
from fencepost.buckets import checked_buckets
from fencepost.emitting.further import EventColumns, event_columns
from fencepost.errors import FencepostError
from fencepost.events import event_schema
from fencepost.monitor.settings import check_first, check_report
from fencepost.ordinals import BIGINT
from fencepost.ordinals.schema import read_schema
from fencepost.pairing.rows import key_kind
from fencepost.pairing.rules import SIDES, band_rules
from fencepost.pairing.sides import Pairing
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot, Table
from fencepost.spark.plan.columns import KEY, own_name, quoted, usable_columns
from fencepost.spark.plan.rules import Plan, plan_rules
from fencepost.spark.plan.sent import Sent, attributes_of, event_fields, name_roles, sent_columns, sequence_roles
from fencepost.spark.plan.steps import check_clock, check_time, pack_rows, step_buckets, task_arguments, unpack_events
from fencepost.spark.session import warn_untuned
from fencepost.spark.work.band_task import BandTask, needed_by_bands
from fencepost.spark.work.bucket import join_bucket
from fencepost.spark.work.caches import Published
from fencepost.spark.work.packing import ROW_KINDS, unpack
from fencepost.spark.work.task import DELETED, OBJECT, TIME, Side
from fencepost.spark.work.usable import skipped_rules

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
    labels: bool = False,
    carry: str | Sequence[str] = (),
    condition: bool = False,
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
        buckets: how many buckets the keys are spread over; a checkpoint keeps the number it was made with.
        first: "enter" reports bands that a row is in when it is first seen, "silent" does not.
        timeout: how long a row may be silent before it is gone: a timedelta, or a number in the unit of time.
        late: a directory for late rows, as Parquet files in `left` and `right`; they are counted in any case.
        clock: a directory of clock markers that this stream alone reads, beside those of the rules; pipelines have one.
        observe: a name under which Spark's query progress reports what was joined; see `prometheus_text`.
        labels: whether events have the `name` and the `labels` of the rule version that they name.
        carry: columns of the row that moved, which the event has, too; null where no row did. Either side may lack
            them.
        condition: whether events have the `condition` of the rule.
    """
    warn_untuned(left.sparkSession, stateful=left.isStreaming)
    check_first(first)
    check_report(report)
    checked_buckets(buckets)
    if left.isStreaming != right.isStreaming:
        raise FencepostError(
            "a streaming frame beside a batch frame", "both streaming, or both batch", "Read both with readStream."
        )
    roles = name_roles(object, time, sequence, deleted)
    columns = event_columns(labels, condition, carry)
    prepared = _prepare((left, right), rules, roles, (key,) if isinstance(key, str) else tuple(key), columns)
    fields = _event_fields(prepared, columns)
    times = [side.field(TIME) for side in prepared.sides]
    task = BandTask(
        sides=tuple(side.known for side in prepared.sides),
        attributes=tuple(sorted(prepared.attributes.items())),
        sequence=sequence_roles(roles),
        pairing=Pairing(None if deleted is None else DELETED, prepared.key, report),
        time_type=str(check_time(times, timeout)),
        buckets=buckets if prepared.key else 1,
        first=first,
        timeout=timeout,
        **task_arguments(left, prepared.plan, fields, late, columns),
    )
    check_clock(task, prepared.plan.snapshot, times[0].name)
    packed, declared = _pack(prepared, task), StructType(fields)
    if left.isStreaming:
        return unpack_events(step_buckets(packed, task, clock), declared, observe)
    return packed.groupBy("bucket").applyInPandas(_joiner(task), "payload binary").mapInArrow(unpack, declared)


def _joiner(task: BandTask) -> Any:
    def fencepost_bands(frame: Any) -> Any:
        return join_bucket(frame, task)

    return fencepost_bands


def _pack(prepared: "_Prepared", task: BandTask) -> Any:
    """The rows of both sides, packed by bucket."""
    left, right = (
        pack_rows(side.sent.rows(side.frame), side.hashed, task.buckets).withColumn("kind", F.lit(kind))
        for kind, side in zip(ROW_KINDS, prepared.sides, strict=True)
    )
    return left.unionByName(right)


# -- arguments, checked ------------------------------------------------------------------------------------


class _PreparedSide(NamedTuple):
    """One side, checked."""

    frame: Any
    sent: Sent
    known: Side
    hashed: list[Any]
    """The columns of the key among the rows that go to Python, as they are hashed."""
    carry: tuple[str, ...]
    """The columns that events carry, as far as this side has them."""

    def field(self, name: str) -> Any:
        """The frame's own field of a column."""
        return self.sent.field(self.frame, name)


class _Prepared(NamedTuple):
    """The arguments of bands, checked."""

    plan: Plan
    sides: tuple[_PreparedSide, ...]
    attributes: dict[str, str]
    """Of events, with their types."""
    key: tuple[str, ...]
    """As rules call the columns."""


def _prepare(
    frames: tuple[Any, Any], rules: Any, roles: list[tuple[str, str]], key: Sequence[str], columns: EventColumns
) -> _Prepared:
    plan = plan_rules(frames[0].sparkSession, rules, _both(frames) if isinstance(rules, Rules) else None)
    lacking = [_lacking(plan, frame) for frame in frames]
    if any(lacking):
        plan = _without_lacking(plan, lacking)
    if plan.snapshot.bands is None:
        raise FencepostError(
            f"{count(len(plan.snapshot), 'rule')} without a band",
            "rules over left. and right., such as left.price - right.price BETWEEN -1 AND 1",
            "Use watch for rules about one stream.",
        )
    schema = plan.needed if isinstance(plan.source, Published) else {}
    needed = needed_by_bands(plan.snapshot)
    attributes = attributes_of(schema) | needed[0][0] | needed[1][0]
    names = tuple(_rule_name(frames[0], name, plan, needed) for name in key)
    sides = []
    for name, frame, lacks, (subtracted, texts, same) in zip(SIDES, frames, lacking, needed, strict=True):
        has = Table(dict.fromkeys(frame.columns, ()))
        # Later versions may need any column of the schema that the side has.
        usable = {column: kind for column, kind in schema.items() if column not in lacks}
        more = {column: kind for column, kind in usable.items() if has.find(column) is not None}
        bound = {**more, **dict.fromkeys(sorted(texts), KEY), **subtracted}
        try:
            carry = [column for column in columns.carry if has.find(column) is not None]
            others = sorted({*same, *names} - set(bound))
            sides.append(_prepare_side(frame, plan.snapshot, roles, names, bound, others, carry))
        except FencepostError as error:
            raise FencepostError(f"on the {name} side {error.got}", error.expected, error.remedy) from None
    _check_same(plan.snapshot, sides, names)
    return _Prepared(plan, tuple(sides), attributes, names)


def _lacking(plan: Plan, frame: Any) -> frozenset[str]:
    """The columns that were added to the directory and that one side cannot give."""
    added = {name: kind for name, kind in plan.needed.items() if name in plan.added}
    return frozenset(added.keys() - usable_columns(frame.dtypes, added, added, plan.snapshot).keys())


def _without_lacking(plan: Plan, lacking: Sequence[frozenset[str]]) -> Plan:
    """The plan without the rules that need such a column of a side, and without columns that neither side can give."""
    every = frozenset(plan.needed) | {
        name for side in needed_by_bands(plan.snapshot) for columns in side for name in columns
    }
    rows, needed = skipped_rules(plan.snapshot, tuple(every - each for each in lacking))
    absent = frozenset.intersection(*lacking)
    return plan.only({name: kind for name, kind in plan.needed.items() if name not in absent}, rows, needed)


def _both(frames: tuple[Any, Any]) -> StructType:
    """The columns of both frames; where both have one, the left side's decides, and the right's must convert."""
    fields = {field.name.lower(): field for frame in reversed(frames) for field in frame.schema.fields}
    return StructType(list(fields.values()))


def _rule_name(frame: Any, wanted: str, plan: Plan, needed: Any) -> str:
    """The name that rules have for a column of the key, or else the frame's own."""
    names = Table(dict.fromkeys(frame.columns, ()))
    own = own_name(names, wanted, lambda: "which was named as key")
    known = {*plan.needed, *(name for side in needed for columns in side for name in columns)}
    return next((name for name in sorted(known) if names.find(name) == own), own)


def _prepare_side(
    frame: Any,
    snapshot: Snapshot,
    roles: list[tuple[str, str]],
    key: tuple[str, ...],
    bound: Mapping[str, str],
    others: Sequence[str],
    carry: Sequence[str],
) -> _PreparedSide:
    sent = sent_columns(frame, roles, bound, snapshot, others, carry)
    if DELETED in dict(roles):
        field = sent.field(frame, DELETED)
        if field.dataType.simpleString() != "boolean":
            raise FencepostError(
                f"{field.name} of type {field.dataType.simpleString()}",
                "booleans, true where a row is gone",
                "Cast the column.",
            )
    hashed = []
    for column in key:
        kind = _key_kind(sent.field(frame, column))
        if kind == "double":
            raise FencepostError(
                f"{column} of type double as a key",
                "strings, integers, decimals, dates or timestamps",
                "Cast the column to a decimal or a string.",
            )
        own = quoted(dict(sent.twice).get(column, column))
        hashed.append(own.cast(_HASHED[kind]) if kind in _HASHED else own)
    return _PreparedSide(frame, sent, sent.side(frame, bound, others), hashed, tuple(carry))


def _key_kind(field: Any) -> str:
    """What keys of this type are compared as; one that cannot be is refused."""
    text = field.dataType.simpleString()
    type_ = read_schema({"column": text}).types.get("column")
    if type_ is None:
        raise FencepostError(
            f"{field.name} of type {text}, which rules compare", "a string or a plain type", "Cast the column."
        )
    return key_kind(type_)


def _check_same(snapshot: Snapshot, sides: Sequence[_PreparedSide], key: tuple[str, ...]) -> None:
    """Refuse columns that must be equal and never can be, since their types differ."""
    rules = band_rules(snapshot, snapshot.in_force, key)
    same = {pair: rule.sides.computed for rule in rules for pair in rule.shape.same}
    for names, computed in sorted(same.items(), key=lambda each: each[0]):
        one, other = (
            key_kind(computed[name].term.type) if name in computed else _key_kind(side.field(name))
            for side, name in zip(sides, names, strict=True)
        )
        if one != other:
            raise FencepostError(
                f"left.{names[0]} as {one} and right.{names[1]} as {other}",
                "one type, since they must be equal",
                "Cast one of the two columns to the type of the other.",
            )


def _carried_fields(prepared: _Prepared, columns: EventColumns) -> list[Any]:
    """The fields of columns that events carry; refuses those that no side has, or that differ in their types."""
    fields = []
    for name in columns.carry:
        found = [side.field(name) for side in prepared.sides if name in side.carry]
        types = sorted({field.dataType.simpleString() for field in found})
        if len(types) != 1:
            got = f"{name} as {' on one side and '.join(types)} on the other" if types else f"no column {name}"
            raise FencepostError(
                f"{got}, which carry= names", "one type on the sides that have it", "Cast the column, or leave it out."
            )
        fields.append(found[0])
    return fields


def _event_fields(prepared: _Prepared, columns: EventColumns) -> list[Any]:
    left, right = prepared.sides
    roles = {"object": left.field(OBJECT), "other": right.field(OBJECT), "time": left.field(TIME)}
    types = {role: field.dataType for role, field in roles.items()}
    names = event_schema(pa.null(), pa.null(), dict.fromkeys(prepared.attributes, BIGINT)).names
    for name in prepared.key:
        if name in names:
            raise FencepostError(
                f"key={name!r}, which events have as a column already",
                "a column name that no other event column has",
                f"Rename {name} in both frames and in the rules.",
            )
    band_key = [StructField(name, left.field(name).dataType) for name in prepared.key]
    keys = {name for side in prepared.sides for name in side.known.keys} - {*prepared.key}
    carried, since = _carried_fields(prepared, columns), prepared.plan.snapshot.damping is not None
    return event_fields(types, prepared.attributes, keys, columns, carried, band_key, since=since)
