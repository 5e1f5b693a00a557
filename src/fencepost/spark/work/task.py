"""What tasks of all operators with state share: their arguments, their rules, and their late rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from fencepost._coded import CODED, cast_coded, coded_nulls
from fencepost._files.recent import RecentlyUsed
from fencepost._files.whole import replace_file
from fencepost.emitting.engine import Engine
from fencepost.emitting.further import EventColumns
from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.snapshot import Snapshot
from fencepost.spark.work.caches import Shards, Source
from fencepost.spark.work.claims import current_micro_batch
from fencepost.spark.work.usable import Stream, Times, Usable, usable_at
from fencepost.watching.rules_in_force import RulesInForce

OBJECT, TIME, DELETED = "fencepost object", "fencepost time", "fencepost deleted"
_HELD = 4


class Side(NamedTuple):
    """What a task must know of one stream of rows."""

    twice: tuple[tuple[str, str], ...]
    """Columns that are the same as one that arrives under another name."""
    attributes: tuple[str, ...]
    """The columns that rules may compare with numbers and times, or subtract."""
    keys: tuple[str, ...]
    """The columns that they may compare with strings."""
    sent: frozenset[str]
    """All columns of rules that arrive."""
    object_type: str
    """The type of the object column, as Spark calls it."""

    @property
    def naming(self) -> tuple[str, ...]:
        """Columns of rules that are also the object, the time, the sequence, or what says that a row is gone."""
        return tuple(name for name, same in self.twice if same.startswith("fencepost "))


@dataclass(frozen=True, kw_only=True)
class Task:
    """The arguments of an operator with state: small, and nothing that Python would have to pickle by value."""

    operator: ClassVar[str]
    format: ClassVar[int] = 2
    """Of the state that it writes."""

    source: Source
    planned: int
    """The version that was the newest when the query was planned."""
    follow: bool
    """Whether newer versions are taken up."""
    sides: tuple[Side, ...]
    """The streams that its engine takes rows of."""
    attributes: tuple[tuple[str, str], ...]
    """Every attribute of events with its type."""
    sequence: tuple[str, ...]
    time_type: str
    """The type of the time column, as Spark calls it."""
    buckets: int
    first: str
    timeout: timedelta | int | None
    late: str | None
    event_schema: Any
    """The Arrow schema of events, as Spark has it."""
    columns: EventColumns = EventColumns()  # noqa: RUF009 (nothing in it can change)
    """What events have beside their fixed columns, attributes and keys; no state depends on it."""
    seed: str | None = None
    """A directory of state to start with."""
    shards: Shards | None = None
    """The rules in shards: buckets then have none, and send moves."""

    @property
    def times(self) -> Times:
        """The clock."""
        return Times(self.time_type, self.timeout)

    @property
    def stream(self) -> Stream:
        """The columns that arrive of each side, and the clock."""
        return Stream(tuple(side.sent for side in self.sides), self.times)

    def count_skipped(self, version: int) -> int:
        """How many rules of a version are left out: they use columns that do not arrive, or need another clock."""
        return usable_at(self.source, version, self.stream).skipped

    def kept_settings(self) -> Mapping[str, Any]:
        """Arguments that a checkpoint keeps, beside the number of buckets."""
        return {}

    def describe_state(self) -> Mapping[str, Any]:
        """What a reader of the state must know: the types of its columns."""
        raise NotImplementedError

    def make_engine(self, version: int, bucket: int) -> Engine:
        """An engine with the rules of one version, and no objects."""
        raise NotImplementedError

    def rules_at(self, version: int) -> RulesInForce:
        """The rules of one version."""
        raise NotImplementedError

    def version_check(self) -> Callable[[int], object] | None:
        """Raises where the operator cannot use a version; None where every version that loads will do."""
        raise NotImplementedError

    def fit_events(self, events: Any) -> Any:
        """Events with the columns of the frame, which were fixed when the query was planned."""
        schema, names = self.event_schema, set(events.schema.names)
        if events.schema.metadata:  # in the short form
            columns = [
                cast_coded(events[field.name], field.type)
                if field.name in names
                else coded_nulls(events.num_rows, field.type)
                for field in schema
            ]
            return pa.table(columns, names=schema.names, metadata=CODED)
        if events.schema.equals(schema):
            return events
        if events.schema.names == schema.names:
            return events.cast(schema)
        columns = [
            events[field.name].cast(field.type) if field.name in names else pa.nulls(events.num_rows, field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)

    def name_columns(self, side: int, rows: Any) -> Any:
        """Rows as they arrived, under the names that rules have for their columns."""
        for name, same in self.sides[side].twice:
            rows = rows.append_column(name, rows.column(same))
        return rows

    def write_late(self, rows: Any, bucket: int, side: int = 0, folder: str = "") -> None:
        """Write late rows, under the names that people know, to a file that a repeated micro-batch writes again."""
        import pyarrow.parquet as pq

        names = {OBJECT: "object", TIME: "time", DELETED: "deleted"}
        rows = rows.drop_columns([name for name, _ in self.sides[side].twice])
        batch, target = current_micro_batch(), Path(str(self.late), folder)
        target.mkdir(parents=True, exist_ok=True)
        with replace_file(target / f"{0 if batch is None else batch.number:08}-{bucket:05}.parquet") as draft:
            pq.write_table(rows.rename_columns([names.get(name, name) for name in rows.column_names]), draft)


_rules: "RecentlyUsed[tuple[Any, ...], RulesInForce]" = RecentlyUsed(_HELD)


def rules_in_force(
    source: Source, version: int, stream: Stream, attributes: Sequence[tuple[str, str]] = (), keys: Sequence[str] = ()
) -> RulesInForce:
    """The rules of one version, as engines have them; the last few stay with the process, for all its buckets."""
    place = (source, version, stream, tuple(attributes), tuple(keys))
    return _rules.get(place, lambda: new_rules(_load(source, version, stream).snapshot, attributes, keys))


def new_rules(
    snapshot: Snapshot,
    attributes: Sequence[tuple[str, str]],
    keys: Sequence[str],
    used: Sequence[str] | None = None,
) -> RulesInForce:
    """The rules of a snapshot, with every column that later versions may use; `used` by rules that are elsewhere."""
    return RulesInForce(snapshot, None, {name: AttributeType.parse(kind) for name, kind in attributes}, keys, used)


def _load(source: Source, version: int, stream: Stream) -> Usable:
    try:
        return usable_at(source, version, stream)
    except FencepostError as error:
        raise FencepostError(
            f"objects whose last rules were version {version}, which cannot be loaded ({error.got})",
            "that version, to find the rules that objects leave",
            "Put the version back from a copy, or start with a new checkpoint.",
        ) from None
