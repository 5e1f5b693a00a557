"""What a task of watch must know, and the monitor it makes of that."""

from collections import OrderedDict
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.monitor import Monitor
from fencepost.monitor.layers import Layers
from fencepost.ordinals import AttributeType
from fencepost.rules import Rules
from fencepost.spark.stepping import keep_late, last_snapshot
from fencepost.spark.worker import Shards, Source

__all__ = ["OBJECT", "TIME", "WatchTask", "as_declared", "layers_at", "monitor_at"]

OBJECT, TIME = "fencepost object", "fencepost time"
_HELD = 4


class WatchTask(NamedTuple):
    """What a task must know; small, and without anything that Python would have to pickle by value."""

    source: Source
    planned: int
    follow: bool
    twice: tuple[tuple[str, str], ...]
    """Columns that are the same as one that arrives under another name."""
    attributes: tuple[tuple[str, str], ...]
    """Every attribute of the schema with its type."""
    keys: tuple[str, ...]
    """Every key column of the schema."""
    sequence: tuple[str, ...]
    object_type: str
    """As Spark calls it; likewise the next."""
    time_type: str
    buckets: int
    first: str
    timeout: timedelta | int | None
    late: str | None
    seed: str | None
    event_schema: Any
    """The Arrow schema of events, as Spark has it."""
    shards: Shards | None = None
    """The rules in parts: buckets then have none, and tell moves."""


_layers: "OrderedDict[tuple[Source, int, tuple[tuple[str, str], ...]], Layers]" = OrderedDict()


def layers_at(task: WatchTask, version: int, part: int | None = None) -> Layers:
    """The rules of one version, as a monitor has them; the last few stay with the process.

    Args:
        task: the operator's.
        version: of the rules.
        part: which of them, where they are in parts; without it there are none then.
    """
    if task.shards is None:
        source = task.source
    elif part is not None:
        source = task.shards.parts[part]
    else:
        return Layers(Rules().compile(version=version), None, _types(task), task.keys)
    place = (source, version, task.attributes)
    found = _layers.pop(place, None)
    if found is None:
        found = Layers(last_snapshot(source, version), None, _types(task), task.keys)
    _layers[place] = found
    while len(_layers) > _HELD:
        _layers.popitem(last=False)
    return found


def _types(task: WatchTask) -> dict[str, AttributeType]:
    return {name: AttributeType.parse(kind) for name, kind in task.attributes}


def monitor_at(task: WatchTask, version: int, bucket: int, part: int | None = None) -> Monitor:
    """A monitor with the rules of one version, or those of one part, that knows no object."""

    def keep(late: Any) -> None:
        _keep_late(late, task, bucket)

    layers = layers_at(task, version, part)
    monitor = Monitor.__new__(Monitor)
    late = None if task.late is None else keep
    monitor._begin(layers, OBJECT, TIME, task.sequence, task.first, task.timeout, late)
    monitor._clock.start(AttributeType.parse(task.time_type), layers)
    return monitor


def as_declared(events: Any, task: WatchTask) -> Any:
    """Events in the types that Spark expects."""
    return events.cast(task.event_schema)


def _keep_late(late: Any, task: WatchTask, bucket: int) -> None:
    names = {OBJECT: "object", TIME: "time"}
    table = late.drop_columns([name for name, _ in task.twice])
    table = table.rename_columns([names.get(name, name) for name in table.column_names])
    keep_late(table, Path(str(task.late)), bucket)
