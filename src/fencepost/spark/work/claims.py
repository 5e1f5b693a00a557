"""Which version of a directory a micro-batch uses: claimed by its first task, the same for retries and replays.

    claims/QUERY/00000042   micro-batch 42 of that query uses the version that is written here

A query that restarts from its checkpoint keeps its id, and Spark repeats at most the micro-batch that was not
committed, so a claim is needed until the next one; a thousand are kept for people who look back.
"""

import contextlib
import time
from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

from pyspark import TaskContext

from fencepost._files.storage import Place, create, delete, delete_tree, make_directory, modified, names, read_bytes
from fencepost._files.whole import DamagedNoteError, opened_note, sealed_note
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory

_KEPT = 1000
_RESTORE = (
    "Restore it, or delete it: the micro-batch then takes the newest version. Where its writer was killed, it had "
    "matched no row yet."
)
_SWEPT_EVERY = 64
_ABANDONED = timedelta(days=30)
_PATIENCE = timedelta(seconds=10)
_RENEWED_EVERY = timedelta(minutes=5)


class MicroBatch(NamedTuple):
    """A step of a streaming query; a replay after a restart has the same two."""

    query: str
    number: int


class Claim(NamedTuple):
    """The version that a micro-batch uses."""

    version: int
    rejected: int
    """How many newer versions were found unusable when it was claimed."""


def current_micro_batch() -> MicroBatch | None:
    """The micro-batch that this task belongs to; None in a batch job and on the driver."""
    task = TaskContext.get()
    number = task and task.getLocalProperty("streaming.sql.batchId")
    query = task and task.getLocalProperty("sql.streaming.queryId")
    return MicroBatch(query, int(number)) if number and query else None


_leased: dict[tuple[str, str], tuple[int, float]] = {}
"""By directory and holder: the version that this process leased last, and when."""


def keep_lease(versions: VersionDirectory, version: int, holder: str) -> None:
    """Keep a version from being collected for `holder`, as long as it is asked for every now and then."""
    place, now = (str(versions.path), holder), time.monotonic()
    leased, renewed = _leased.get(place, (None, 0.0))
    if leased != version or now - renewed > _RENEWED_EVERY.total_seconds():
        versions.lease(version, holder)
        _leased[place] = (version, now)


class Claims:
    """The claims beside the versions of one directory, which all executors can read and write."""

    def __init__(self, versions: VersionDirectory) -> None:
        self._versions = versions
        self._path = versions.path / "claims"

    def claim(self, batch: MicroBatch, newest_usable: Callable[[], Claim]) -> Claim:
        """The version that the first task of a micro-batch claimed, or that this task claims now.

        The lease that keeps the version from being collected is renewed either way.
        """
        try:
            claim = self._read(self._file(batch)) or self._claim(batch, newest_usable())
            # A version that is gone is refused by whoever loads it, with the remedy.
            with contextlib.suppress(FencepostError):
                keep_lease(self._versions, claim.version, batch.query)
        except PermissionError as error:
            raise FencepostError(
                f"{self._versions.path}, which this executor may not write to ({error})",
                "a directory in which a stream can note the version that each micro-batch uses",
                "Grant the executors' user the right to write there.",
            ) from None
        return claim

    def _claim(self, batch: MicroBatch, wanted: Claim) -> Claim:
        """Claim a version, unless another task was faster: then that one's."""
        file = self._file(batch)
        make_directory(file.parent)
        try:
            create(file, sealed_note(wanted._asdict()))
        except FileExistsError:
            claim = self._read(file)
            assert claim is not None, "a claim that exists can be read"
            return claim
        self._tidy(batch, wanted.version)
        return wanted

    def sweep(self) -> None:
        """Delete the claims of queries that have not run for a month; they do not come back."""
        oldest = time.time() - _ABANDONED.total_seconds()
        for query in names(self._path, "*"):
            claims = names(self._path / query, "[0-9]*")
            with contextlib.suppress(OSError, FencepostError):
                if claims and (modified(self._path / query / claims[-1]) or oldest) < oldest:
                    delete_tree(self._path / query)

    def _file(self, batch: MicroBatch) -> Place:
        return self._path / batch.query / f"{batch.number:08}"

    def _tidy(self, batch: MicroBatch, version: int) -> None:
        """Give up the lease of a version that no micro-batch can need again, and now and then delete old claims."""
        earlier, before = (self._claimed(batch, steps) for steps in (2, 1))
        if earlier is not None and earlier not in (before, version):
            with contextlib.suppress(FencepostError):
                self._versions.lease(earlier, batch.query).release()
        if batch.number % _SWEPT_EVERY == 0:
            for name in names(self._path / batch.query, "[0-9]*"):
                if int(name) < batch.number - _KEPT:
                    delete(self._path / batch.query / name)

    def _claimed(self, batch: MicroBatch, steps_back: int) -> int | None:
        if batch.number < steps_back:
            return None
        claim = self._read(self._file(batch._replace(number=batch.number - steps_back)))
        return claim and claim.version

    def _read(self, file: Place) -> Claim | None:
        """A claim, or None if there is none; waits for one that is being written."""
        deadline = time.monotonic() + _PATIENCE.total_seconds()
        while True:
            try:
                found = opened_note(read_bytes(file), file, {"version": int, "rejected": int}, _RESTORE)
                return Claim(found["version"], found["rejected"])
            except FileNotFoundError:
                return None
            except DamagedNoteError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)
