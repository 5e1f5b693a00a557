"""What Python workers share between tasks: snapshots, loaded once per process, mapped from files all workers share.

Kernels see the same types whether a snapshot was compiled or mapped, because maps are copy-on-write; a worker that
has compiled or loaded its kernels has them for every later version.
"""

import gc
import os
import tempfile
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyspark import SparkFiles, TaskContext

from fencepost.errors import FencepostError
from fencepost.published import Head, ShardPlan, VersionDirectory
from fencepost.snapshot import Snapshot
from fencepost.spark.work.claims import Claim, Claims, current_micro_batch

SHIPPED_PARTS = ("header.json", "arrays.bin")
_HELD = 4
"""Snapshots that a process keeps: the one in force, its predecessor, and those of another operator."""


_tasks_begun = 0


def begin_task() -> None:
    """Is called where a task begins, and does something in a Python worker of Spark only.

    Spark collects garbage after every task, and so visits all that the process has, most of it modules. From the second
    task on, when all of them are loaded, they are left out of that.
    """
    global _tasks_begun
    if TaskContext.get() is None:
        return
    _tasks_begun += 1
    if _tasks_begun == 2:
        gc.freeze()


@dataclass(frozen=True)
class Shipped:
    """A fixed snapshot that Spark has sent to every executor as files."""

    digest: str

    def file(self, part: str) -> str:
        """The name under which Spark distributes one part."""
        return f"fencepost-{self.digest}.{part}"

    def load(self, version: int) -> Snapshot:  # noqa: ARG002 (there is only one)
        """Map the files that this executor has received."""
        with self._received() as folder:
            return Snapshot.load(folder)

    def head(self, version: int) -> Head:  # noqa: ARG002
        """What the files say, where they are the head of rules in parts."""
        with self._received() as folder:
            return Head.load(folder)

    @contextmanager
    def _received(self) -> Iterator[Path]:
        """A directory with the files that this executor has received."""
        with tempfile.TemporaryDirectory(prefix="fencepost-") as together:
            for part in SHIPPED_PARTS:
                os.symlink(os.path.abspath(SparkFiles.get(self.file(part))), Path(together, part))
            yield Path(together)


@dataclass(frozen=True)
class Published:
    """A directory that every executor can read, and write where a stream follows it."""

    directory: str
    """Its absolute path, or its URL."""
    part: int | None = None
    """Which part of every version; None for the whole."""

    @property
    def versions(self) -> VersionDirectory:
        """The directory's versions."""
        return VersionDirectory(self.directory)

    def load(self, version: int) -> Snapshot:
        """Map one version."""
        return self.versions.load(version) if self.part is None else self.versions.load_shard(version, self.part)

    def head(self, version: int) -> Head:
        """What is to be known of a version with parts, without its rules."""
        return self.versions.head(version)


Source = Shipped | Published


class Shards(NamedTuple):
    """Rules in parts."""

    plan: ShardPlan
    parts: tuple[Source, ...]
    """Each part as a source of its own."""


_held: "OrderedDict[tuple[Source, int], Snapshot]" = OrderedDict()
_lock = threading.Lock()


def snapshot_at(source: Source, version: int) -> Snapshot:
    """One version of a source, verified and mapped once per process; the least recently used ones are let go."""
    return _kept(_held, source, version, source.load)


def held_sources() -> list[tuple[Source, int]]:
    """The sources, or parts of them, that this process has mapped, with their versions."""
    with _lock:
        return list(_held)


_heads: "OrderedDict[tuple[Source, int], Head]" = OrderedDict()


def head_at(source: Source, version: int) -> Head:
    """What one version of rules in parts is, without the rules; kept like snapshots."""
    return _kept(_heads, source, version, source.head)


_T = TypeVar("_T")


def _kept(held: "OrderedDict[tuple[Source, int], _T]", source: Source, version: int, load: Callable[[int], _T]) -> _T:
    """What was loaded before, or is now."""
    with _lock:
        if (source, version) not in held:
            held[source, version] = load(version)
        held.move_to_end((source, version))
        while len(held) > _HELD:
            held.popitem(last=False)
        return held[source, version]


def version_of_task(source: Source, planned: int, follow: bool, shards: Shards | None = None) -> Claim:
    """The version for the running task, the same in every task and every retry of its micro-batch.

    Args:
        source: where the rules are.
        planned: the version that was the newest when the query was planned.
        follow: whether each micro-batch of a stream takes the newest version.
        shards: their parts, where the task has only one of them.
    """
    batch = current_micro_batch() if follow else None
    if batch is None or not isinstance(source, Published):
        return Claim(planned, 0)
    return Claims(source.versions).claim(batch, lambda: newest_usable(source, check=usable_parts(source, shards)))


def usable_parts(source: Source, shards: Shards | None) -> Callable[[int], object] | None:
    """Refuses a version of which some part does not load; None where rules are not in parts."""
    if shards is None or not isinstance(source, Published):
        return None
    return partial(source.versions.verify_shards, plan=shards.plan)


def newest_usable(
    source: Published,
    most: int | None = None,
    held: int | None = None,
    check: Callable[[int], object] | None = None,
) -> Claim:
    """The newest version that loads; each newer one that does not is warned of.

    Args:
        source: the directory.
        most: the newest version to look at.
        held: the version in force, which stays if no newer one loads.
        check: raises where the caller cannot use a version; without it, every version that loads will do.
    """
    rejected = 0
    for version in source.versions.newest_first():
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
