"""Which version of a directory a micro-batch uses: claimed by its first task, the same for retries and replays.

    claims/QUERY/00000042   micro-batch 42 of that query uses the version that is written here

A query that restarts from its checkpoint keeps its id, and Spark repeats at most the micro-batch that was not
committed, so a claim is needed until the next one; a thousand are kept for people who look back.
"""

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from pyspark import TaskContext

from fencepost.errors import FencepostError
from fencepost.snapshot import VersionDirectory

__all__ = ["Claim", "Claims", "MicroBatch", "current_micro_batch"]

_KEPT = 1000
_SWEPT_EVERY = 64
_ABANDONED = timedelta(days=30)
_PATIENCE = timedelta(seconds=10)


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


class Claims:
    """The claims beside the versions of one directory.

    Args:
        versions: a directory that all executors can read and write.
    """

    def __init__(self, versions: VersionDirectory) -> None:
        self._versions = versions
        self._path = versions.path / "claims"

    def claim(self, batch: MicroBatch, newest_usable: Callable[[], Claim]) -> Claim:
        """The version of a micro-batch: what its first task claimed, or what this one now claims.

        The lease that keeps the version from being collected is renewed either way.

        Args:
            batch: the running micro-batch.
            newest_usable: finds the version to claim.
        """
        try:
            claim = self._read(self._file(batch)) or self._claim(batch, newest_usable())
            # A version that is gone is refused by whoever loads it, with the remedy.
            with contextlib.suppress(FencepostError):
                self._versions.lease(claim.version, batch.query)
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
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            _create(file, json.dumps(wanted._asdict()))
        except FileExistsError:
            claim = self._read(file)
            assert claim is not None, "a claim that exists can be read"
            return claim
        self._tidy(batch, wanted.version)
        return wanted

    def sweep(self) -> None:
        """Delete the claims of queries that have not run for a month; they do not come back."""
        oldest = time.time() - _ABANDONED.total_seconds()
        for query in self._path.glob("*"):
            with contextlib.suppress(OSError):
                if query.stat().st_mtime < oldest:
                    shutil.rmtree(query)

    def _file(self, batch: MicroBatch) -> Path:
        return self._path / batch.query / f"{batch.number:08}"

    def _tidy(self, batch: MicroBatch, version: int) -> None:
        """Give up the lease of a version that no micro-batch can need again, and now and then delete old claims."""
        earlier, before = (self._claimed(batch, steps) for steps in (2, 1))
        if earlier is not None and earlier not in (before, version):
            with contextlib.suppress(FencepostError):
                self._versions.lease(earlier, batch.query).release()
        if batch.number % _SWEPT_EVERY == 0:
            for file in self._numbered(batch.query):
                if int(file.name) < batch.number - _KEPT:
                    file.unlink(missing_ok=True)

    def _claimed(self, batch: MicroBatch, steps_back: int) -> int | None:
        if batch.number < steps_back:
            return None
        claim = self._read(self._file(batch._replace(number=batch.number - steps_back)))
        return claim and claim.version

    def _numbered(self, query: str) -> Iterator[Path]:
        return (file for file in (self._path / query).iterdir() if file.name.isdigit())

    def _read(self, file: Path) -> Claim | None:
        """A claim, or None if there is none; waits for one that is being written."""
        deadline = time.monotonic() + _PATIENCE.total_seconds()
        while True:
            try:
                return Claim(**json.loads(file.read_text()))
            except FileNotFoundError:
                return None
            except (ValueError, TypeError):
                if time.monotonic() > deadline:
                    raise FencepostError(
                        f"a claim that was never finished, {file}",
                        "the version that the micro-batch uses",
                        "Delete the file: its writer was killed before any row of the micro-batch was matched.",
                    ) from None
            time.sleep(0.05)


def _create(file: Path, text: str) -> None:
    """Create a file that must not exist, whole at once where the file system has links."""
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    draft.write_text(text)
    try:
        os.link(draft, file)
    except FileExistsError:
        raise
    except OSError:
        with file.open("x") as opened:
            opened.write(text)
    finally:
        draft.unlink()
