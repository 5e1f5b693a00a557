"""The operator of a pipeline on the frames of its sources."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost import spark as operators
from fencepost.pipeline.file.clock import timeout_of
from fencepost.pipeline.file.columns import KAFKA_SEQUENCE
from fencepost.pipeline.file.document import PipelineFile, listed
from fencepost.pipeline.file.keys import SINKS
from fencepost.pipeline.runtime.identity import own_place
from fencepost.pipeline.runtime.sources import instant_micros
from fencepost.published import VersionDirectory
from fencepost.spark import match, watch

OBSERVED = "fencepost"
"""The name under which query progress reports what the operator did."""
TIMES = "times of events"
"""The name under which it reports when events happened: `times` is a JSON array of `x`, a time, and `y`, its events."""
_TIMES_AT_MOST = 64
"""More different times in a micro-batch are put together, the nearest first."""


def required_columns(file: PipelineFile) -> list[str]:
    """The columns that every row must have: those that say what moved, and when."""
    operator = file.section("operator")
    return [column for role in ("object", "time", "key") for column in listed(operator.get(role))]


def sequence_of(file: PipelineFile) -> list[str] | None:
    """The columns that order rows of equal time: those that are named, or Kafka's own."""
    if given := listed(file.section("operator").get("sequence")):
        return given
    formats = {source["format"] for source in file.sources.values()}
    return list(KAFKA_SEQUENCE) if formats == {"kafka"} else None


def operate(file: PipelineFile, frames: Mapping[str, Any], rules: str) -> Any:
    """The frame of answers."""
    operator = file.section("operator")
    if operator["kind"] == "match":
        return match(frames["source"], rules, explode=operator["explode"], shards=operator["shards"], observe=OBSERVED)
    stateful: dict[str, Any] = {
        "object": operator["object"],
        "time": operator["time"],
        "sequence": sequence_of(file),
        "buckets": operator["buckets"],
        "first": operator["first"],
        "timeout": timeout_of(file),
        "late": None if operator["late"] is None else file.resolved(operator["late"]),
        # Also where nothing ticks: the checkpoint of a stream keeps the number of its sources.
        "clock": own_place(file, "markers"),
        "observe": OBSERVED,
        "labels": tells_labels(file, rules),
        "carry": carried_columns(file, rules),
        "condition": operator["condition"],
    }
    if operator["kind"] == "watch":
        seed = None if operator["seed"] is None else file.resolved(operator["seed"])
        return watch(frames["source"], rules, seed=seed, shards=operator["shards"], **stateful)
    stateful |= {key: operator[key] for key in ("key", "deleted", "report") if operator[key] is not None}
    given = {name: value for name, value in stateful.items() if value is not None}
    return operators.bands(frames["source.left"], frames["source.right"], rules, **given)


def observe_times(answers: Any) -> Any:
    """The events with their times observed, in microseconds since 1970; frames whose times are no instants as is."""
    time = dict(answers.dtypes).get("time") if "event_id" in answers.columns else None
    if time not in {"timestamp", "timestamp_ntz"}:
        return answers
    micros = instant_micros(F.col("time"), time).cast("double")
    times = F.histogram_numeric(micros, F.lit(_TIMES_AT_MOST))
    return answers.observe(TIMES, F.to_json(times).alias("times"))  # as a text: reports cannot have rows in rows


def tells_labels(file: PipelineFile, rules: str) -> bool:
    """Whether events have name and labels of their rules: as the file says, or else where nothing speaks against it.

    These names may be taken, and a table of another system may have no such columns.
    """
    operator = file.section("operator")
    if operator["labels"] is not None:
        return bool(operator["labels"])
    if any(sink["format"] not in SINKS for sink in file.sinks.values()):
        return False
    attributes = [name for name, kind in (VersionDirectory(rules).schema() or {}).items() if kind != "key"]
    taken = {name.lower() for name in (*attributes, *listed(operator.get("key")), *listed(operator["carry"]))}
    return not taken & {"name", "labels"}


def carried_columns(file: PipelineFile, rules: str) -> list[str]:
    """The columns of rows that events show beside those that they have anyway, since rules may use them."""
    shown = {name.lower() for name in VersionDirectory(rules).schema() or {}}
    return [name for name in listed(file.section("operator")["carry"]) if name.lower() not in shown]
