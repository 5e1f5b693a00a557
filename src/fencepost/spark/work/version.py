"""What the steps of all operators with state share: the version in force, clock markers, late rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from fencepost._files.whole import replace_file
from fencepost.errors import FencepostError
from fencepost.snapshot import Snapshot
from fencepost.spark.work.caches import Published, Source, newest_usable, snapshot_at
from fencepost.spark.work.claims import Claim, Claims, current_micro_batch, keep_lease


class Following(Protocol):
    """What a task says about its rules."""

    @property
    def source(self) -> Source:
        """Where they are."""

    @property
    def planned(self) -> int:
        """The version that was the newest when the query was planned."""

    @property
    def follow(self) -> bool:
        """Whether newer ones are taken up."""


def version_in_force(
    task: Following,
    held: int | None,
    newest: int | None,
    operator: str,
    check: Callable[[int], object] | None = None,
) -> Claim:
    """The version from this step on: the same in all buckets, and again when the micro-batch is repeated.

    Args:
        task: the rules.
        held: the version of the bucket's state, if it has any.
        newest: the newest version that a marker told.
        operator: its name, for the lease.
        check: raises where the operator cannot use a version.
    """
    if not task.follow or not isinstance(task.source, Published):
        return Claim(task.planned, 0)
    source, batch = task.source, current_micro_batch()
    if newest is None:
        if held is None:
            raise FencepostError(
                f"rows before any version of {source.directory}",
                "a marker of each published version",
                "Start the query anew; if that does not help, publish the rules again.",
            )
        claim = Claim(held, 0)
    elif batch is None:
        claim = Claim(newest, 0)
    else:
        claim = Claims(source.versions).claim(batch, lambda: newest_usable(source, newest, held, check))
    if batch is not None:
        keep_lease(source.versions, claim.version, f"{operator} {batch.query}")
    return claim


def last_snapshot(source: Source, version: int) -> Snapshot:
    """The rules of the version that state was left with."""
    try:
        return snapshot_at(source, version)
    except FencepostError as error:
        raise FencepostError(
            f"objects whose last rules were version {version}, which cannot be loaded ({error.got})",
            "that version, to tell which rules they leave",
            "Put the version back from a copy, or start with a new checkpoint.",
        ) from None


def keep_late(late: Any, folder: Path, bucket: int) -> None:
    """Write late rows to a file that a repeated micro-batch replaces by the same."""
    import pyarrow.parquet as pq

    batch = current_micro_batch()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{0 if batch is None else batch.number:08}-{bucket:05}.parquet"
    with replace_file(file) as draft:
        pq.write_table(late, draft)
