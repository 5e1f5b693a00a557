"""Whatever a caller passes as rules, made ready for executors: files that Spark distributes, or a directory."""

import atexit
import json
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from fencepost.errors import FencepostError
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot, VersionDirectory
from fencepost.spark.binding import needed_columns
from fencepost.spark.versions import Claims
from fencepost.spark.worker import SHIPPED_PARTS, Published, Shipped, Source, snapshot_at

__all__ = ["Plan", "plan_rules"]

_saved: "WeakKeyDictionary[Snapshot, Shipped]" = WeakKeyDictionary()
_shipped: "WeakKeyDictionary[Any, set[str]]" = WeakKeyDictionary()


class Plan(NamedTuple):
    """Rules as a query takes them."""

    source: Source
    snapshot: Snapshot
    """The version that the query was planned with."""
    needed: dict[str, str]
    """The columns that any version may need, with their types."""


def plan_rules(spark: Any, rules: Any, schema: Any = None) -> Plan:
    """The source of the rules, loaded and checked on the driver.

    Args:
        spark: the session whose executors will need them.
        rules: Rules, a Snapshot, or a directory.
        schema: what Rules are bound to.
    """
    if isinstance(rules, Rules):
        rules = rules.compile(schema)
    if isinstance(rules, Snapshot):
        return Plan(_ship(spark, rules), rules, needed_columns(rules))
    if isinstance(rules, (str, os.PathLike)):
        return _published(os.fspath(rules))
    raise FencepostError(
        f"{type(rules).__name__} as rules",
        "Rules, a Snapshot, or the directory that rules are published to",
        "Write for example match(events, rules) with rules = fencepost.Rules().",
    )


def _published(directory: str) -> Plan:
    directory = directory.removeprefix("file://")
    if "://" in directory:
        raise FencepostError(
            f"the rules of {directory}",
            "a path that the driver and every executor can read",
            "Mount the store, or publish to a shared file system.",
        )
    versions = VersionDirectory(Path(directory).absolute())
    latest = versions.latest()
    if latest is None:
        versions.load()  # refuses, and says what is there
    assert latest is not None, "an empty directory was refused"
    source = Published(str(versions.path))
    snapshot = snapshot_at(source, latest)
    Claims(versions).sweep()
    return Plan(source, snapshot, versions.schema() or needed_columns(snapshot))


def _ship(spark: Any, snapshot: Snapshot) -> Shipped:
    """Hand a snapshot to Spark as two files, once per session and content."""
    shipped = _saved.get(snapshot) or _save(snapshot)
    _saved[snapshot] = shipped
    known = _shipped.setdefault(spark, set())
    if shipped.digest not in known:
        spark.addArtifacts(*(str(_scratch() / shipped.file(part)) for part in SHIPPED_PARTS), file=True)
        known.add(shipped.digest)
    return shipped


def _save(snapshot: Snapshot) -> Shipped:
    with tempfile.TemporaryDirectory(dir=_scratch()) as draft:
        saved = Path(draft) / "snapshot"
        snapshot.save(saved)
        shipped = Shipped(json.loads((saved / "header.json").read_text())["digest"])
        for part in SHIPPED_PARTS:
            (saved / part).replace(_scratch() / shipped.file(part))
    return shipped


@cache
def _scratch() -> Path:
    """Where saved snapshots stay until this process ends: a classic session reads them when an executor asks."""
    directory = tempfile.TemporaryDirectory(prefix="fencepost-")
    atexit.register(directory.cleanup)
    return Path(directory.name)
