"""What Python workers share between tasks: snapshots, loaded once per process, mapped from files all workers share.

Kernels see the same types whether a snapshot was compiled or mapped, because maps are copy-on-write; a worker that
has compiled or loaded its kernels has them for every later version.
"""

import gc
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark import SparkFiles, TaskContext

from fencepost import _pool
from fencepost._files.recent import RecentlyUsed
from fencepost.errors import FencepostError
from fencepost.published import Head, ShardPlan, VersionDirectory
from fencepost.snapshot import Snapshot
from fencepost.spark.work.claims import Claim, Claims, current_micro_batch

SHIPPED_FILES = ("header.json", "arrays.bin")
_HELD = 4
"""Snapshots that a process keeps: the one in force, its predecessor, and those of another operator."""


_WARM = 1 << 25
"""Bytes of earlier answers that a worker keeps: a host has many workers, and their answers are about Arrow batches."""


_tasks_begun = 0


def begin_task() -> None:
    """Prepare a Python worker of Spark for a task; does nothing in other processes.

    Spark collects garbage after every task, and so visits all that the process has, most of it modules. From the second
    task on, when all of them are loaded, they are left out of that. Little memory of answers waits to be used again.
    """
    global _tasks_begun
    if TaskContext.get() is None:
        return
    _tasks_begun += 1
    if _tasks_begun == 1:
        _pool.keep_at_most(_WARM)
    if _tasks_begun == 2:
        gc.freeze()


@dataclass(frozen=True)
class Shipped:
    """A fixed snapshot that Spark has sent to every executor as files."""

    digest: str

    def __str__(self) -> str:
        return "the rules"

    def file(self, name: str) -> str:
        """The name under which Spark distributes one of the `SHIPPED_FILES`."""
        return f"fencepost-{self.digest}.{name}"

    def load(self, version: int) -> Snapshot:  # noqa: ARG002 (there is only one)
        """Map the files that this executor has received."""
        with self._received() as folder:
            return Snapshot.load(folder)

    def head(self, version: int) -> Head:  # noqa: ARG002
        """The head of rules in shards, where the files are one."""
        with self._received() as folder:
            return Head.load(folder)

    @contextmanager
    def _received(self) -> Iterator[Path]:
        """A directory with the files that this executor has received."""
        with tempfile.TemporaryDirectory(prefix="fencepost-") as together:
            for name in SHIPPED_FILES:
                os.symlink(os.path.abspath(SparkFiles.get(self.file(name))), Path(together, name))
            yield Path(together)


@dataclass(frozen=True)
class Published:
    """A directory that every executor can read, and write where a stream follows it."""

    directory: str
    """Its absolute path, or its URL."""
    shard: int | None = None
    """Which shard of every version; None for the whole."""

    def __str__(self) -> str:
        return self.directory

    @property
    def versions(self) -> VersionDirectory:
        """The directory's versions."""
        return VersionDirectory(self.directory)

    def load(self, version: int) -> Snapshot:
        """Map one version."""
        return self.versions.load(version) if self.shard is None else self.versions.load_shard(version, self.shard)

    def head(self, version: int) -> Head:
        """The head of a version in shards: all that is to be known without its rules."""
        return self.versions.head(version)


Source = Shipped | Published


class Shards(NamedTuple):
    """Rules in shards."""

    plan: ShardPlan
    sources: tuple[Source, ...]
    """Each shard as a source of its own."""


_snapshots: "RecentlyUsed[tuple[Source, int], Snapshot]" = RecentlyUsed(_HELD)
_heads: "RecentlyUsed[tuple[Source, int], Head]" = RecentlyUsed(_HELD)


def snapshot_at(source: Source, version: int) -> Snapshot:
    """One version of a source, verified and mapped once per process; the least recently used ones are let go."""
    return _snapshots.get((source, version), lambda: source.load(version))


def held_sources() -> list[tuple[Source, int]]:
    """The sources, or shards of them, that this process has mapped, with their versions."""
    return _snapshots.keys()


def head_at(source: Source, version: int) -> Head:
    """The head of one version of rules in shards; kept like snapshots."""
    return _heads.get((source, version), lambda: source.head(version))


def version_of_task(source: Source, planned: int, follow: bool, shards: Shards | None = None) -> Claim:
    """The version for the running task, the same in every task and every retry of its micro-batch.

    It is the `planned` one, unless each micro-batch of a stream is to `follow` the newest.
    """
    batch = current_micro_batch() if follow else None
    if batch is None or not isinstance(source, Published):
        return Claim(planned, 0)
    return Claims(source.versions).claim(batch, lambda: newest_usable(source, check=shard_check(source, shards)))


def shard_check(source: Source, shards: Shards | None) -> Callable[[int], object] | None:
    """A function that refuses a version of which some shard does not load; None where rules are not in shards."""
    if shards is None or not isinstance(source, Published):
        return None
    return partial(source.versions.verify_shards, plan=shards.plan)


def newest_usable(
    source: Published,
    most: int | None = None,
    held: int | None = None,
    check: Callable[[int], object] | None = None,
) -> Claim:
    """The newest version, up to `most`, that loads; each newer one that does not is warned of.

    The version `held` stays in force if no newer one loads. `check` raises where the caller cannot use a version.
    """
    rejected = 0
    for version in source.versions.newest_first(damaged=True):
        if most is not None and version > most:
            continue
        if held is not None and version <= held:
            break
        try:
            if check is None:
                snapshot_at(source, version)
            else:
                check(version)
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
