"""The shard that a row goes to, as an expression of Spark SQL: the number that `fencepost.published.routing` gives."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.ordinals import AttributeType
from fencepost.published import ShardPlan
from fencepost.spark.plan.abilities import abilities_of

SHARD = "fencepost shard"
_PLACE = "fencepost place"


def group_by_shard(frame: Any, shards: int, spread: Any) -> Any:
    """The frame with the rows of each shard in partitions of their own.

    There are as many partitions as the session's shuffles have, or the next multiple of the shards, so that a shard
    with most of the rows is the work of several tasks.

    The rows of a shard are spread by `spread`, a column of whole numbers.
    """
    each = ceil(int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions")) / shards)
    place = F.col(f"`{SHARD}`") + shards * F.pmod(spread, F.lit(each)).cast("int")
    if abilities_of(frame.sparkSession).numbered_partitions:
        # As a column, because a shuffle takes only rows that the JVM has made itself, not those of a Python operator.
        return frame.withColumn(_PLACE, place).repartitionById(each * shards, F.col(f"`{_PLACE}`")).drop(_PLACE)
    hashed = F.element_at(F.array(*map(F.lit, _hashed_to(each * shards))), place + 1)
    return frame.withColumn(_PLACE, hashed).repartition(each * shards, F.col(f"`{_PLACE}`")).drop(_PLACE)


def _hashed_to(partitions: int) -> list[int]:
    """A number for every partition that Spark's hash sends there."""
    found: dict[int, int] = {}
    for start in range(0, 2**31 - 1, 64 * partitions):
        numbers = np.arange(start, start + 64 * partitions, dtype=np.int32)
        for place, number in zip((_murmur3(numbers) % partitions).tolist(), numbers.tolist(), strict=True):
            found.setdefault(place, number)
        if len(found) == partitions:
            break
    return [found[place] for place in range(partitions)]


def _murmur3(numbers: Any) -> Any:
    """The hash by which Spark spreads a column of 32-bit integers over partitions: Murmur3 with the seed 42."""

    def rotated(values: Any, by: int) -> Any:
        return values << np.uint32(by) | values >> np.uint32(32 - by)

    mixed = rotated(numbers.view(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    hashed = rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64) ^ np.uint32(4)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        hashed = (hashed ^ hashed >> np.uint32(shift)) * np.uint32(factor)
    return hashed.view(np.int32)


def shard_column(plan: ShardPlan, columns: Mapping[str, Any], types: Mapping[str, str]) -> Any:
    """The shard of each row."""
    value, kind = None, None
    if plan.attribute is not None:
        kind = AttributeType.parse(types[plan.attribute])
        value = _number(columns[plan.attribute].cast(str(kind)), kind)

    def cell(cuts: Sequence[int], shards: Sequence[int]) -> Any:
        """The shard of a row of one lane: halves are compared until one cell is left."""
        if not cuts:
            return F.lit(shards[0])
        assert kind is not None, "lanes are cut by an attribute"
        middle = len(cuts) // 2
        below, above = cell(cuts[:middle], shards[: middle + 1]), cell(cuts[middle + 1 :], shards[middle + 1 :])
        return F.when(value >= _literal(cuts[middle], kind), above).otherwise(below)

    def lane(cuts: Sequence[int], shards: Sequence[int]) -> Any:
        """The same, also for rows without a value."""
        if kind is None or kind.kind != "double":  # a null is above no cut, NaN above all
            return cell(cuts, shards)
        return F.when(F.isnan(value), F.lit(shards[0])).otherwise(cell(cuts, shards))

    if plan.key is None:
        (only,) = plan.lanes
        return lane(only.cuts, only.shards).cast("int")
    key = columns[plan.key]
    found = F.when(key.isNull(), F.lit(0))
    for heavy in plan.lanes:
        found = found.when(key == F.lit(heavy.text), lane(heavy.cuts, heavy.shards))
    return found.otherwise(F.pmod(F.crc32(key.cast("binary")), F.lit(plan.shards))).cast("int")


def _number(column: Any, kind: AttributeType) -> Any:
    """A column as something that compares like its ordinals."""
    as_numbers = {"timestamp": F.unix_micros, "date": F.unix_date}
    if kind.kind == "boolean":
        return column.cast("int")
    return as_numbers[kind.kind](column) if kind.kind in as_numbers else column


def _literal(ordinal: int, kind: AttributeType) -> Any:
    """The value that `_number` has where the ordinal is this."""
    if kind.kind in ("timestamp", "date", "boolean", "bigint"):
        return F.lit(ordinal)
    value = kind.decode(np.array([ordinal], np.int64))[0].as_py()
    return F.lit(value) if kind.kind == "double" else F.lit(str(value)).cast(str(kind))
