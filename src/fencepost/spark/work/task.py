"""What every operator with state says about itself to the code that runs a bucket of it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fencepost._files.recent import RecentlyUsed
from fencepost.emitting.engine import Engine
from fencepost.ordinals import AttributeType
from fencepost.spark.work.caches import Shards, Source
from fencepost.spark.work.version import Following, keep_late, last_snapshot
from fencepost.watching.rules_in_force import RulesInForce

OBJECT, TIME, DELETED = "fencepost object", "fencepost time", "fencepost deleted"
_HELD = 4


class Task(Following, Protocol):
    """An operator with state: a small value, without anything that Python would have to pickle by value."""

    @property
    def operator(self) -> str:
        """Its name."""

    @property
    def format(self) -> int:
        """Of the state that it writes."""

    @property
    def sides(self) -> int:
        """How many streams its engine takes rows of."""

    @property
    def buckets(self) -> int:
        """How many parts the objects are in."""

    @property
    def time_type(self) -> str:
        """Of the time column, as Spark calls it."""

    @property
    def event_schema(self) -> Any:
        """The Arrow schema of events, as Spark has it."""

    @property
    def shards(self) -> Shards | None:
        """The rules in shards, if they are."""

    @property
    def seed(self) -> str | None:
        """A directory of state to start with."""

    def kept_settings(self) -> Mapping[str, Any]:
        """Arguments that a checkpoint keeps, beside the number of buckets."""

    def describe_state(self) -> Mapping[str, Any]:
        """What a reader of the state must know: the types of its columns."""

    def make_engine(self, version: int, bucket: int) -> Engine:
        """An engine with the rules of one version, and no objects."""

    def rules_at(self, version: int) -> RulesInForce:
        """The rules of one version."""

    def name_columns(self, side: int, rows: Any) -> Any:
        """Rows as they arrived, under the names that rules have for their columns."""

    def usable(self) -> Callable[[int], object] | None:
        """Raises where the operator cannot use a version; None where every version that loads will do."""


_rules: "RecentlyUsed[tuple[Any, ...], RulesInForce]" = RecentlyUsed(_HELD)


def rules_in_force(
    source: Source, version: int, attributes: Sequence[tuple[str, str]] = (), keys: Sequence[str] = ()
) -> RulesInForce:
    """The rules of one version, as engines have them; the last few stay with the process, for all its buckets."""
    place = (source, version, tuple(attributes), tuple(keys))
    return _rules.get(place, lambda: new_rules(last_snapshot(source, version), attributes, keys))


def new_rules(snapshot: Any, attributes: Sequence[tuple[str, str]], keys: Sequence[str]) -> RulesInForce:
    """The rules of a snapshot, with every column that later versions may use."""
    return RulesInForce(snapshot, None, {name: AttributeType.parse(kind) for name, kind in attributes}, keys)


def keep_late_rows(rows: Any, twice: Sequence[tuple[str, str]], folder: Path, bucket: int) -> None:
    """Write late rows under the names that their columns have for people."""
    names = {OBJECT: "object", TIME: "time", DELETED: "deleted"}
    rows = rows.drop_columns([name for name, _ in twice])
    keep_late(rows.rename_columns([names.get(name, name) for name in rows.column_names]), folder, bucket)


def name_twice(rows: Any, twice: Sequence[tuple[str, str]]) -> Any:
    """Rows with the columns that are the same as one that arrived under another name."""
    for name, same in twice:
        rows = rows.append_column(name, rows.column(same))
    return rows
