"""The state of a stream, as its checkpoint has it."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from fencepost.errors import FencepostError
from fencepost.spark.plan.abilities import abilities_of
from fencepost.spark.plan.columns import arrow_schema
from fencepost.spark.plan.sent import spark_type
from fencepost.spark.session import BLOBS, FRAMES, ROWS, state_form
from fencepost.spark.work.store import DAMPED, state_rows


def read_state(spark: Any, checkpoint: str | os.PathLike[str]) -> Any:
    """The objects that a stream of `watch` knows, with their last time and values, as its checkpoint has them.

    The column `damped` says what is remembered by options such as `for`: a JSON list of rules with their times as
    ordinals, null where nothing is; `save_state` takes it along.

    Of a stream of `bands`: the rows of both sides; the column `side` says which.
    Which conditions hold for whom: ``match(read_state(spark, checkpoint), rules, explode=True)``. An object that is
    inside by `stay` alone meets no condition: the entry of that rule in `damped` has 1 among its `flags`, without 4.

    Args:
        spark: a session.
        checkpoint: the checkpoint location of the query.
    """
    if not abilities_of(spark).reads_state:
        raise FencepostError(
            f"Spark {spark.version}", "4.0 or newer, which can read the state of a checkpoint", "Use a newer Spark."
        )
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


def check_state_form(spark: Any, checkpoint: str | os.PathLike[str]) -> None:
    """Refuse a checkpoint at a path whose state another operator of Spark's wrote than this session would use."""
    written, own = _written_form(Path(checkpoint)), state_form(spark)
    if written is None or written == own:
        return
    raise FencepostError(
        f"{os.fspath(checkpoint)}, whose state was written by {_FORMS.get(written, written)}",
        f"one written by {_FORMS[own]}, as this session would",
        "Go on with such a session, or start with a new checkpoint; read_state and save_state take the objects along.",
    )


_FORMS = {
    FRAMES: "Spark 4.0 with RocksDB (transformWithStateInPandas)",
    ROWS: "Spark 4.1 or newer with RocksDB (transformWithState)",
    BLOBS: "Spark with its default state store (applyInPandasWithState)",
}


def _written_form(checkpoint: Path) -> str | None:
    """The operator that wrote the state of a checkpoint; None where there is none, or an older Spark noted nothing."""
    notes = checkpoint / "state" / "0" / "_metadata"
    found = [*(notes / "v2").glob("[0-9]*"), *notes.glob("metadata")]
    if not found:
        return None
    _, _, text = found[0].read_text().partition("\n")
    name: str = json.loads(text)["operatorInfo"]["operatorName"]
    return name


def _columns(head: dict[str, Any]) -> dict[str, str]:
    """The columns of the state, with their types."""
    sides = head.get("sides")
    kinds = {"object": head["object"] if sides is None else _object_type(sides)}
    kinds |= {"time": head["clock"]["type"], "snapshot_version": "bigint"}
    if sides is None:
        return {**kinds, **head["attributes"], **dict.fromkeys([*head["keys"], DAMPED], "string")}
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
