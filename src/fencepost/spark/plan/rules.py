"""Whatever a caller passes as rules, made ready for executors: files that Spark distributes, or a directory."""

import atexit
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from fencepost._files.storage import place_of
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.ordinals import TIMESTAMP
from fencepost.ordinals.zones import check_zone
from fencepost.published import Head, ShardPlan, VersionDirectory, check_shards, cut_into_shards, plan_shards
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot
from fencepost.spark.plan.abilities import abilities_of
from fencepost.spark.plan.columns import needed_columns, usable_columns
from fencepost.spark.work.caches import SHIPPED_FILES, Published, Shards, Shipped, Source, snapshot_at
from fencepost.spark.work.claims import Claims
from fencepost.spark.work.usable import skipped_rules, warn_skipped

_saved: "WeakKeyDictionary[Snapshot, Shipped]" = WeakKeyDictionary()
_in_shards: "WeakKeyDictionary[Snapshot, dict[int, tuple[Shipped, Shards]]]" = WeakKeyDictionary()
_shipped: "WeakKeyDictionary[Any, set[str]]" = WeakKeyDictionary()


class Plan(NamedTuple):
    """Rules as a query takes them."""

    source: Source
    snapshot: Snapshot
    """The version that the query was planned with."""
    needed: dict[str, str]
    """The columns that any version may need, with their types."""
    shards: Shards | None = None
    """The rules in shards, where they are asked for; executors then load nothing else."""
    added: frozenset[str] = frozenset()
    """Those of the columns that a frame may lack: rules that use them are then left out."""

    def only(self, columns: Mapping[str, str], skipped: Int64s, lacking: Iterable[str]) -> "Plan":
        """The plan with these columns alone, without the rules in these rows, which use columns that are lacking."""
        if len(skipped):
            warn_skipped(self.snapshot, skipped, lacking, str(self.source))
        return self._replace(needed=dict(columns), snapshot=self.snapshot.without(skipped))


def plan_rules(spark: Any, rules: Any, schema: Any = None, shards: int | None = None) -> Plan:
    """The source of the rules, loaded and checked on the driver."""
    if shards is not None:
        check_shards(shards)
    zone = check_zone(spark.conf.get("spark.sql.session.timeZone"))
    if isinstance(rules, Rules):
        rules = rules.compile_in(zone, schema)
    if isinstance(rules, Snapshot):
        _warn_of_zone(rules, zone, "the rules")
        source, made = (_ship(spark, rules), None) if shards is None else _ship_shards(spark, rules, shards)
        return Plan(source, rules, needed_columns(rules), made)
    if isinstance(rules, (str, os.PathLike)):
        plan = _plan_published(os.fspath(rules), shards)
        _warn_of_zone(plan.snapshot, zone, str(plan.source))
        return plan
    raise FencepostError(
        f"{type(rules).__name__} as rules",
        "Rules, a Snapshot, or the directory that rules are published to",
        "Write for example match(events, rules) with rules = fencepost.Rules().",
    )


def _warn_of_zone(snapshot: Snapshot, zone: str, place: str) -> None:
    """Warn where timestamps without a zone mean something else in rules than in the session."""
    times = [name for name, type_ in snapshot.types.items() if type_ == TIMESTAMP]
    if snapshot.zone != zone and times:
        warnings.warn(
            f"timestamps without a zone are read in {snapshot.zone} by {place}, and in {zone} by the session; rules "
            f"compare {', '.join(times)}. Publish the rules with zone={zone!r}, or set spark.sql.session.timeZone to "
            f"{snapshot.zone}.",
            stacklevel=4,
        )


def plan_for(plan: Plan, frame: Any) -> Plan:
    """The plan for one frame, which may lack columns that were added to the directory."""
    if not plan.added:
        return plan
    columns = usable_columns(frame.dtypes, plan.needed, plan.added, plan.snapshot)
    return plan.only(columns, *skipped_rules(plan.snapshot, (frozenset(columns),)))


def _plan_published(directory: str, shards: int | None) -> Plan:
    versions = VersionDirectory(place_of(directory).absolute())
    latest = versions.latest()
    if latest is None:
        versions.load()  # refuses, and says what is there
    assert latest is not None, "an empty directory was refused"
    found = None if shards is None else _published_shards(versions, shards)
    source = Published(str(versions.path))
    snapshot = snapshot_at(source, latest)
    Claims(versions).sweep()
    needed = versions.schema() or needed_columns(snapshot)
    return Plan(source, snapshot, needed, found, versions.added_columns())


def _published_shards(versions: VersionDirectory, shards: int) -> Shards:
    plan = versions.shards_for(shards)
    return Shards(plan, tuple(Published(str(versions.path), shard) for shard in range(shards)))


def _ship(spark: Any, snapshot: Snapshot) -> Shipped:
    """Hand a snapshot to Spark as two files, once per session and content."""
    shipped = _saved.get(snapshot) or _save(snapshot.save)
    _saved[snapshot] = shipped
    return _send(spark, shipped)


def _ship_shards(spark: Any, snapshot: Snapshot, count: int) -> tuple[Shipped, Shards]:
    """Hand a snapshot to Spark in shards; the source is their head."""
    found = _in_shards.setdefault(snapshot, {})
    if count not in found:
        found[count] = _save_shards(snapshot, plan_shards(snapshot, count))
    source, shards = found[count]
    for each in (source, *shards.sources):
        assert isinstance(each, Shipped), "all were saved here"
        _send(spark, each)
    return source, shards


def _save_shards(snapshot: Snapshot, plan: ShardPlan) -> tuple[Shipped, Shards]:
    sources = tuple(_save(shard.save) for shard in cut_into_shards(snapshot, plan))
    head = _save(lambda path: Head.of(snapshot).save(path, [source.digest for source in sources]))
    return head, Shards(plan, sources)


def _send(spark: Any, shipped: Shipped) -> Shipped:
    known = _shipped.setdefault(spark, set())
    if shipped.digest not in known:
        files = [str(_scratch() / shipped.file(name)) for name in SHIPPED_FILES]
        if abilities_of(spark).sends_artifacts:
            spark.addArtifacts(*files, file=True)
        else:
            for file in files:
                spark.sparkContext.addFile(file)
        known.add(shipped.digest)
    return shipped


def _save(write: Callable[[Path], object]) -> Shipped:
    """Save a snapshot, or the head of one, as files that can be shipped."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as draft:
        saved = Path(draft) / "snapshot"
        write(saved)
        shipped = Shipped(json.loads((saved / "header.json").read_text())["digest"])
        for name in SHIPPED_FILES:
            (saved / name).replace(_scratch() / shipped.file(name))
    return shipped


@cache
def _scratch() -> Path:
    """Where saved snapshots stay until this process ends: a classic session reads them when an executor asks."""
    directory = tempfile.TemporaryDirectory(prefix="fencepost-")
    atexit.register(directory.cleanup)
    return Path(directory.name)
