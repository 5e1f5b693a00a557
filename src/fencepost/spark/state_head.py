"""What the state of a bucket says about itself, and whether a query can go on with it."""

from collections.abc import Mapping
from typing import Any, Protocol

from fencepost.errors import FencepostError
from fencepost.spark.stepping import Following
from fencepost.spark.worker import Published

__all__ = ["Stateful", "check_head", "state_head"]

_HASH = "xxhash64"


class Stateful(Following, Protocol):
    """What a task says about its state."""

    @property
    def buckets(self) -> int:
        """How many parts there are."""

    @property
    def time_type(self) -> str:
        """Of the time column, as Spark calls it."""


def state_head(task: Stateful, format: int, version: int, clock: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a head that all operators have.

    Args:
        task: the operator's.
        format: of the state.
        version: of the rules in force.
        clock: as it is saved.
    """
    return {
        "format": format,
        "buckets": task.buckets,
        "hash": _HASH,
        "rules": _fixed_rules(task),
        "version": version,
        "clock": dict(clock),
    }


def check_head(
    head: Mapping[str, Any], task: Stateful, operator: str, format: int, chosen: Mapping[str, Any] | None = None
) -> None:
    """Refuse a state that this query cannot go on with.

    Args:
        head: what the state says.
        task: the operator's.
        operator: its name.
        format: that it writes.
        chosen: other arguments that a checkpoint keeps, and their values.
    """
    if head["format"] != format:
        raise FencepostError(
            f"state in format {head['format']}",
            f"format {format}",
            "Run the query with the version of fencepost that wrote its checkpoint.",
        )
    for name, own in {"buckets": task.buckets, "hash": _HASH, **(chosen or {})}.items():
        if head[name] != own:
            raise FencepostError(
                f"{operator} with {name}={own}",
                f"{name}={head[name]}, with which the checkpoint was made",
                f"Pass {name}={head[name]}, or start with a new checkpoint.",
            )
    if head["rules"] is not None and head["rules"] != _fixed_rules(task):
        raise FencepostError(
            "other rules than those that the checkpoint was made with",
            "the same ones, so that nothing stays inside a rule that is gone",
            "Publish the rules to a directory and pass that: then they may change.",
        )
    if head["clock"]["type"] != task.time_type:
        raise FencepostError(
            f"a time column of type {task.time_type}",
            f"{head['clock']['type']}, with which the checkpoint was made",
            "Cast the column, or start with a new checkpoint.",
        )


def _fixed_rules(task: Following) -> str | None:
    """What tells one set of fixed rules from another; a directory has versions instead."""
    return None if isinstance(task.source, Published) else task.source.digest
