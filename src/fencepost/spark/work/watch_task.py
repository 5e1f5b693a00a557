"""What a task of watch must know, and the engine it makes of that."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.ordinals import AttributeType
from fencepost.rules import Rules
from fencepost.spark.work.caches import Shards, Source, usable_parts
from fencepost.spark.work.task import OBJECT, TIME, keep_late_rows, name_twice, new_rules, rules_in_force
from fencepost.watching.clock import Clock
from fencepost.watching.engine import Watch, WatchColumns
from fencepost.watching.rules_in_force import RulesInForce


class WatchTask(NamedTuple):
    """See `fencepost.spark.work.task.Task`."""

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
    """The rules in shards: buckets then have none, and send moves."""

    operator: str = "watch"
    format: int = 2
    sides: int = 1

    def kept_settings(self) -> Mapping[str, Any]:
        """None beside the number of buckets."""
        return {}

    def describe_state(self) -> Mapping[str, Any]:
        """The types of objects, attributes and keys."""
        return {"object": self.object_type, "attributes": dict(self.attributes), "keys": list(self.keys)}

    def usable(self) -> Callable[[int], object] | None:
        """Every shard of a version must load."""
        return usable_parts(self.source, self.shards)

    def name_columns(self, side: int, rows: Any) -> Any:  # noqa: ARG002 (there is one)
        """Rows under the names that rules have for their columns."""
        return name_twice(rows, self.twice)

    def rules_at(self, version: int, shard: int | None = None) -> RulesInForce:
        """The rules of one version; where they are in shards, those of one, or none at all."""
        if self.shards is None:
            return rules_in_force(self.source, version, self.attributes, self.keys)
        if shard is not None:
            return rules_in_force(self.shards.parts[shard], version, self.attributes, self.keys)
        return new_rules(Rules().compile(version=version), self.attributes, self.keys)

    def make_engine(self, version: int, bucket: int, shard: int | None = None) -> Watch:
        """An engine with the rules of one version, or those of one shard, and no objects."""
        late = None
        if self.late is not None:
            late = partial(keep_late_rows, twice=self.twice, folder=Path(self.late), bucket=bucket)
        rules, clock = self.rules_at(version, shard), Clock(TIME, self.timeout)
        columns = WatchColumns(OBJECT, TIME, self.sequence)
        watch = Watch(rules, columns, clock, silent=self.first == "silent", late=late, journal=True)
        watch.start_clock(AttributeType.parse(self.time_type))
        return watch
