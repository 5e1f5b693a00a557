"""What Python workers share between tasks: snapshots, loaded once per process, mapped from files all workers share.

Kernels see the same types whether a snapshot was compiled or mapped, because maps are copy-on-write; a worker that
has compiled or loaded its kernels has them for every later version.
"""

import os
import tempfile
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkFiles

from fencepost.errors import FencepostError
from fencepost.snapshot import Snapshot, VersionDirectory
from fencepost.spark.versions import Claim, Claims, current_micro_batch

__all__ = [
    "SHIPPED_PARTS",
    "InForce",
    "Published",
    "Shipped",
    "Source",
    "newest_usable",
    "rules_in_force",
    "snapshot_at",
]

SHIPPED_PARTS = ("header.json", "arrays.bin")
_HELD = 4
"""Snapshots that a process keeps: the one in force, its predecessor, and those of another operator."""


@dataclass(frozen=True)
class Shipped:
    """A fixed snapshot that Spark has sent to every executor as files."""

    digest: str

    def file(self, part: str) -> str:
        """The name under which Spark distributes one part."""
        return f"fencepost-{self.digest}.{part}"

    def load(self, version: int) -> Snapshot:  # noqa: ARG002 (there is only one)
        """Map the files that this executor has received."""
        with tempfile.TemporaryDirectory(prefix="fencepost-") as together:
            for part in SHIPPED_PARTS:
                os.symlink(os.path.abspath(SparkFiles.get(self.file(part))), Path(together, part))
            return Snapshot.load(together)


@dataclass(frozen=True)
class Published:
    """A directory that every executor can read, and write where a stream follows it."""

    directory: str

    @property
    def versions(self) -> VersionDirectory:
        """The directory's versions."""
        return VersionDirectory(self.directory)

    def load(self, version: int) -> Snapshot:
        """Map one version."""
        return self.versions.load(version)


Source = Shipped | Published


class InForce(NamedTuple):
    """The rules that a task applies."""

    snapshot: Snapshot
    rejected: int
    """How many newer versions could not be used."""


_held: "OrderedDict[tuple[Source, int], Snapshot]" = OrderedDict()
_lock = threading.Lock()


def snapshot_at(source: Source, version: int) -> Snapshot:
    """One version of a source, verified and mapped once per process; the least recently used ones are let go."""
    with _lock:
        found = _held.pop((source, version), None) or source.load(version)
        _held[source, version] = found
        while len(_held) > _HELD:
            _held.popitem(last=False)
        return found


def rules_in_force(source: Source, planned: int, follow: bool) -> InForce:
    """The rules for the running task, the same in every task and every retry of its micro-batch.

    Args:
        source: where the rules are.
        planned: the version that was the newest when the query was planned.
        follow: whether each micro-batch of a stream takes the newest version.
    """
    batch = current_micro_batch() if follow else None
    if batch is None or not isinstance(source, Published):
        return InForce(snapshot_at(source, planned), 0)
    claim = Claims(source.versions).claim(batch, lambda: newest_usable(source))
    return InForce(snapshot_at(source, claim.version), claim.rejected)


def newest_usable(
    source: Published,
    most: int | None = None,
    held: int | None = None,
    refuse: Callable[[Snapshot], None] | None = None,
) -> Claim:
    """The newest version that loads; each newer one that does not is warned of.

    Args:
        source: the directory.
        most: the newest version to look at.
        held: the version in force, which stays if no newer one loads.
        refuse: raises where the caller cannot use a version that loads.
    """
    rejected = 0
    for version in reversed(source.versions.versions()):
        if most is not None and version > most:
            continue
        if held is not None and version <= held:
            break
        try:
            snapshot = snapshot_at(source, version)
            if refuse is not None:
                refuse(snapshot)
        except (FencepostError, OSError) as error:
            rejected += 1
            warnings.warn(f"version {version} of {source.directory} is not used: {error}", stacklevel=2)
        else:
            return Claim(version, rejected)
    if held is not None:
        return Claim(held, rejected)
    raise FencepostError(
        f"{source.directory} with no usable version ({rejected} were rejected)",
        "a published version",
        "Publish the rules again.",
    )
