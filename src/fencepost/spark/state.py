"""The state of a stream, as its checkpoint has it."""

import json
import os
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from fencepost.errors import FencepostError
from fencepost.spark.plan.columns import arrow_schema
from fencepost.spark.plan.sent import spark_type
from fencepost.spark.work.store import state_rows


def read_state(spark: Any, checkpoint: str | os.PathLike[str]) -> Any:
    """The objects that a stream of `watch` knows, with their last time and values, as its checkpoint has them.

    Of a stream of `bands`: the rows of both sides; the column `side` says which.
    Who is inside which rule: ``match(read_state(spark, checkpoint), rules, explode=True)``.

    Args:
        spark: a session.
        checkpoint: the checkpoint location of the query.
    """
    pieces = _read_pieces(spark, os.fspath(checkpoint))
    first = pieces.where("number = -2").first()
    if first is None:
        raise FencepostError(f"no state in {checkpoint}", "the checkpoint of a query that has run", "Check the path.")
    declared = StructType(
        [StructField(name, spark_type(kind)) for name, kind in _columns(json.loads(bytes(first["piece"]))).items()]
    )
    schema = arrow_schema(declared.fields)

    def fencepost_state(pieces: pa.Table) -> pa.Table:
        return state_rows(pieces, schema)

    return pieces.groupBy("bucket").applyInArrow(fencepost_state, declared)


def _columns(head: dict[str, Any]) -> dict[str, str]:
    """The columns of the state, with their types."""
    sides = head.get("sides")
    kinds = {"object": head["object"] if sides is None else _object_type(sides)}
    kinds |= {"time": head["clock"]["type"], "snapshot_version": "bigint"}
    if sides is None:
        return {**kinds, **head["attributes"], **dict.fromkeys(head["keys"], "string")}
    used = {name for side in sides for name in side["attributes"]}
    keys = {name for side in sides for name in side["keys"]}
    kinds = {"side": "string"} | kinds | dict.fromkeys([*head["key"], *sorted(keys)], "string")
    return kinds | {name: kind for name, kind in head["attributes"].items() if name in used}


def _object_type(sides: list[dict[str, Any]]) -> str:
    """The type that names rows of both sides; text where they differ."""
    left, right = (side["object"] for side in sides)
    return str(left) if left == right else "string"


def _read_pieces(spark: Any, checkpoint: str) -> Any:
    """The head, the tables and the log of every bucket, numbered for `state_rows`."""

    def piece(frame: Any, number: str, column: str) -> Any:
        return frame.selectExpr("key.bucket", f"{number} AS number", f"cast({column} AS binary) AS piece")

    store = spark.read.format("statestore")
    operator = spark.read.format("state-metadata").load(checkpoint).select("operatorName").first()
    if operator is not None and "transformWithState" in operator[0]:
        head, base = (store.option("stateVarName", name).load(checkpoint) for name in ("head", "base"))
        log = store.option("stateVarName", "log").load(checkpoint)
        entries = piece(log, "list_element.number", "list_element.entry")
        return piece(head, "-2", "value.head").union(piece(base, "-1", "value.base")).union(entries)
    blobs = store.load(checkpoint)
    return piece(blobs, "-2", "value.groupState.head").union(piece(blobs, "-1", "value.groupState.base"))
