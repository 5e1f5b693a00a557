"""The operator of a pipeline on the frames of its sources."""

from collections.abc import Mapping
from typing import Any

from fencepost import spark as operators
from fencepost.pipeline.file.columns import KAFKA_SEQUENCE
from fencepost.pipeline.file.document import PipelineFile, listed
from fencepost.pipeline.file.durations import parse_duration
from fencepost.pipeline.runtime.identity import own_place
from fencepost.spark import match, watch

OBSERVED = "fencepost"
"""The name under which query progress reports what the operator did."""


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
        "timeout": _timeout(operator["timeout"]),
        "late": None if operator["late"] is None else file.resolved(operator["late"]),
        # Also where nothing ticks: the checkpoint of a stream keeps the number of its sources.
        "clock": own_place(file, "markers"),
        "observe": OBSERVED,
    }
    if operator["kind"] == "watch":
        seed = None if operator["seed"] is None else file.resolved(operator["seed"])
        return watch(frames["source"], rules, seed=seed, shards=operator["shards"], **stateful)
    stateful |= {key: operator[key] for key in ("key", "deleted", "report") if operator[key] is not None}
    given = {name: value for name, value in stateful.items() if value is not None}
    return operators.bands(frames["source.left"], frames["source.right"], rules, **given)


def _timeout(written: str | int | None) -> Any:
    return parse_duration(written) if isinstance(written, str) else written
