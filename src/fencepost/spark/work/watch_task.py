"""What a task of watch must know, and the engine it makes of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fencepost.ordinals import AttributeType
from fencepost.rules import Rules
from fencepost.spark.work.caches import head_at, shard_check
from fencepost.spark.work.task import OBJECT, TIME, Task, new_rules, rules_in_force
from fencepost.watching.clock import Clock
from fencepost.watching.engine import Watch, WatchColumns
from fencepost.watching.rules_in_force import RulesInForce


@dataclass(frozen=True, kw_only=True)
class WatchTask(Task):
    """See `Task`; there is one side."""

    operator = "watch"

    def describe_state(self) -> Mapping[str, Any]:
        """The types of objects, attributes and keys."""
        (side,) = self.sides
        return {"object": side.object_type, "attributes": dict(self.attributes), "keys": list(side.keys)}

    def version_check(self) -> Callable[[int], object] | None:
        """Every shard of a version must load."""
        return shard_check(self.source, self.shards)

    def rules_at(self, version: int, shard: int | None = None) -> RulesInForce:
        """The rules of one version; where they are in shards, those of one, or none at all."""
        (side,) = self.sides
        if self.shards is None:
            return rules_in_force(self.source, version, self.stream, self.attributes, side.keys)
        if shard is not None:
            return rules_in_force(self.shards.sources[shard], version, self.stream, self.attributes, side.keys)
        used = head_at(self.source, version).columns
        return new_rules(Rules().compile(version=version), self.attributes, side.keys, used)

    def make_engine(self, version: int, bucket: int, shard: int | None = None) -> Watch:
        """An engine with the rules of one version, or those of one shard, and no objects."""
        late = None if self.late is None else partial(self.write_late, bucket=bucket)
        rules, clock = self.rules_at(version, shard), Clock(TIME, self.timeout)
        columns = WatchColumns(OBJECT, TIME, self.sequence, self.sides[0].naming, self.columns.carry)
        watch = Watch(rules, columns, clock, silent=self.first == "silent", late=late, journal=True)
        watch.start_clock(AttributeType.parse(self.time_type))
        return watch
