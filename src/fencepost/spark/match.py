"""match: every event with the rules that hold for it."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)
from pyspark.sql.types import StructField, StructType

from fencepost.errors import FencepostError
from fencepost.ordinals.spellings import TYPES
from fencepost.spark.metrics import observed
from fencepost.spark.plan.abilities import abilities_of, parse_type
from fencepost.spark.plan.columns import Column, bind_columns, quoted
from fencepost.spark.plan.routing import SHARD, group_by_shard, shard_column
from fencepost.spark.plan.rules import Plan, plan_for, plan_rules
from fencepost.spark.session import warn_untuned
from fencepost.spark.work.caches import Shards
from fencepost.spark.work.match import METER, METER_TYPE, MatchTask, match_arrays, match_batches, match_series

_NARROW = 4
"""Up to so many columns it is cheaper to send whole rows through Python than to join the answer to them."""


def match(
    events: Any, rules: Any, explode: bool = False, *, shards: int | None = None, observe: str | None = None
) -> Any:
    """Add to each event the ids of all rules that hold for it; a null or NaN is in no range.

    Example::

        from fencepost import Rules
        from fencepost.spark import match

        rules = Rules()
        rules.add(7, "symbol = 'IBM' AND price BETWEEN 40 AND 50")
        rules.add(8, "price > 45")
        ticks = spark.createDataFrame([("IBM", 41.0), ("SAP", 48.0), ("SAP", 9.0)], "symbol string, price double")
        match(ticks, rules).show()
        # +------+-----+--------+
        # |symbol|price|rule_ids|
        # +------+-----+--------+
        # |   IBM| 41.0|     [7]|
        # |   SAP| 48.0|     [8]|
        # |   SAP|  9.0|      []|
        # +------+-----+--------+

    Args:
        events: a DataFrame, batch or streaming, of a classic session or of Spark Connect.
        rules: `Rules`, bound to the types of the frame; a `Snapshot`; or a directory of published rules, path or URL.
            A stream follows the directory: each micro-batch takes the newest version, and its retries and replays
            take the same one. A batch frame takes the newest version now.
        explode: give one row per event and rule, with a column ``rule_id bigint``, instead of ``rule_ids
            array<bigint>``; events without a rule are left out.
        shards: for rule sets larger than a worker should hold: the rules are cut into this many shards, each event
            goes to one of them, and a task loads no other. A directory keeps the number it was first published with.
        observe: a name under which Spark's query progress reports what was matched; see `prometheus_text`.
    """
    spark = events.sparkSession
    warn_untuned(spark)
    added = "rule_id" if explode else "rule_ids"
    for name in events.columns:
        if name.lower() in {added, "rule_ids", METER, SHARD}:
            raise FencepostError(
                f"a frame with a column {name}", "that name to be free for the answer", "Rename the column before."
            )
    plan = plan_for(plan_rules(spark, rules, events.schema, shards), events)
    columns = bind_columns(events.dtypes, plan.needed, plan.snapshot)
    task = _task(plan, columns, follow=events.isStreaming, metered=observe is not None)
    given = events if plan.shards is None else _route(events, plan, plan.shards, columns)
    matched = _way_through(spark, events.schema)(given, task, columns, events.schema.fields)
    if observe is not None:
        matched = observed(matched, observe).drop(METER)
    if not explode:
        return matched
    return matched.select(*map(quoted, events.columns), F.explode("rule_ids").alias("rule_id"))


def column_function(spark: Any, plan: Plan, columns: Sequence[Column]) -> Any:
    """The function that takes these columns and gives the list of rule ids; a stream follows the rules with it."""
    task = _task(plan, columns, follow=True, metered=False)
    return _udf(task) if abilities_of(spark).arrow_functions else _pandas_udf(task, plan)


def _task(plan: Plan, columns: Sequence[Column], *, follow: bool, metered: bool) -> MatchTask:
    names = tuple(column.name for column in columns)
    return MatchTask(plan.source, plan.snapshot.version, follow, names, metered, plan.shards)


def _route(events: Any, plan: Plan, shards: Shards, columns: Sequence[Column]) -> Any:
    """The events with the shard that each goes to as a last column, and those of one shard together."""
    own = {column.name: quoted(column.own) for column in columns}
    names = [field.name for field in events.schema.fields]
    hashed = [quoted(field.name) for field in events.schema.fields if _is_plain(field) and names.count(field.name) == 1]
    routed = events.withColumn(SHARD, shard_column(shards.plan, own, plan.needed))
    return group_by_shard(routed, shards.plan.shards, F.xxhash64(*hashed) if hashed else F.lit(0))


def _way_through(spark: Any, schema: Any) -> Callable[..., Any]:
    if _is_narrow(schema):
        return _through_rows
    return _beside if abilities_of(spark).arrow_functions else _through_any_rows


def _through_rows(events: Any, task: MatchTask, columns: Sequence[Column], fields: Sequence[StructField]) -> Any:
    """Whole rows go to Python and come back with their answer."""
    positions = [events.columns.index(column.own) for column in columns]
    schema = StructType([*fields, *_answer_fields(task)])
    return events.mapInArrow(partial(match_batches, task=task, positions=positions), schema)


def _through_any_rows(events: Any, task: MatchTask, columns: Sequence[Column], fields: Sequence[StructField]) -> Any:
    """Likewise where names or metadata would not survive: rows travel under plain names, without any metadata."""
    names = [f"c{place}" for place in range(len(fields))]
    plain = events.toDF(*names, *events.columns[len(fields) :])
    own = [Column(column.name, names[events.columns.index(column.own)]) for column in columns]
    sent = [StructField(name, field.dataType, field.nullable) for name, field in zip(names, fields, strict=True)]
    found = _through_rows(plain, task, own, sent)
    renamed = [
        F.col(name).alias(field.name, metadata=field.metadata) if field.metadata else F.col(name).alias(field.name)
        for name, field in zip(names, fields, strict=True)
    ]
    return found.select(*renamed, *found.columns[len(fields) :])


def _answer_fields(task: MatchTask) -> list[StructField]:
    described = {"rule_ids": "array<bigint>"} | ({METER: METER_TYPE} if task.metered else {})
    return list(parse_type(", ".join(f"{name} {type_}" for name, type_ in described.items())).fields)


def _beside(events: Any, task: MatchTask, columns: Sequence[Column], _: Sequence[StructField]) -> Any:
    """Only the needed columns go to Python; the rest of the row waits in the JVM."""
    sent = [quoted(column.own) for column in columns] + ([] if task.shards is None else [quoted(SHARD)])
    answer = _udf(task)(*(sent or [F.lit(True)]))
    both = events.withColumn("rule_ids", answer).drop(SHARD)
    if not task.metered:
        return both
    return both.withColumn(METER, F.col(f"rule_ids.{METER}")).withColumn("rule_ids", F.col("rule_ids.rule_ids"))


def _udf(task: MatchTask) -> Any:
    def fencepost_match(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        return match_arrays(batches, task)

    returned = f"struct<rule_ids: array<bigint>, {METER}: {METER_TYPE}>" if task.metered else "array<bigint>"
    # A deterministic function would be copied into every filter on its answer, and run once for each copy.
    return F.arrow_udf(fencepost_match, returned).asNondeterministic()


def _pandas_udf(task: MatchTask, plan: Plan) -> Any:
    """The same where Spark has no Arrow UDFs; pandas cannot hold what Spark's timestamps can."""
    import pandas as pd

    kinds = [plan.needed[name] for name in task.names]
    times = [name for name in task.names if plan.needed[name].startswith("timestamp")]
    if times:
        raise FencepostError(
            f"rules that compare {times[0]}, a timestamp, as a function of columns",
            "Spark 4.1 or newer, where such a function gets timestamps as they are",
            "Use match(frame, rules), which takes them on every Spark, or a newer Spark.",
        )

    def fencepost_match(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        return match_series(batches, task, kinds)

    return F.pandas_udf(fencepost_match, "array<bigint>").asNondeterministic()


def _is_narrow(schema: Any) -> bool:
    """Whether rows are few columns that survive the way through mapInArrow as they are."""
    names = {field.name for field in schema.fields}
    return len(schema.fields) <= _NARROW and len(names) == len(schema.fields) and all(map(_survives, schema.fields))


def _survives(field: Any) -> bool:
    """A plain type, no metadata such as a watermark, and a name that mapInArrow does not parse."""
    return _is_plain(field) and not field.metadata and not set(".`") & set(field.name)


def _is_plain(field: Any) -> bool:
    type_ = field.dataType.simpleString()
    return type_ in TYPES or type_.startswith("decimal(")
