"""What workers share: snapshots loaded once and let go, and the claim of a micro-batch."""

import gc
import os
import threading
import time
import weakref
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.spark.work import claims as claiming
from fencepost.spark.work.caches import Published, snapshot_at, version_of_task
from fencepost.spark.work.claims import Claim, Claims, MicroBatch, current_micro_batch


def published(path: Path, count: int) -> VersionDirectory:
    for _ in range(count):
        rules = fp.Rules()  # anew, so that no version builds on another
        rules.add(1, "price > 4")
        rules.publish(path)
    return VersionDirectory(path)


def test_a_version_is_loaded_once_and_let_go_when_others_are_used(tmp_path: Path) -> None:
    published(tmp_path, 6)
    source = Published(str(tmp_path))
    first = snapshot_at(source, 1)
    assert snapshot_at(source, 1) is first
    assert not first.rules.ids.flags.owndata, "mapped, not copied"
    assert first.rules.ids.flags.writeable, "the type that compiled code is cached for"
    gone = weakref.ref(first)
    del first
    for version in range(2, 7):
        assert snapshot_at(source, version).version == version
    gc.collect()
    assert gone() is None
    with pytest.raises(FencepostError, match=r"Version 7 of .*; expected a published version \(the last are: 2, 3, 4"):
        snapshot_at(source, 7)


def test_outside_of_a_micro_batch_the_planned_version_is_in_force(tmp_path: Path) -> None:
    published(tmp_path, 2)
    assert current_micro_batch() is None
    assert version_of_task(Published(str(tmp_path)), planned=1, follow=True) == Claim(1, 0)
    assert not (tmp_path / "claims").exists()


def claimed_by_threads(claims: Claims, batch: MicroBatch, threads: int = 8) -> list[Claim]:
    found: list[Claim] = []
    start = threading.Barrier(threads)

    def work(number: int) -> None:
        start.wait()
        found.append(claims.claim(batch, lambda: Claim(1 + number % 3, 0)))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


@pytest.mark.parametrize("has_links", [True, False])
def test_all_tasks_of_a_micro_batch_get_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def refuse(*_: Any) -> None:
            raise PermissionError("no links here")

        monkeypatch.setattr(os, "link", refuse)
    versions = published(tmp_path, 3)
    claims = Claims(versions)
    for number in range(5):
        found = claimed_by_threads(claims, MicroBatch("query", number))
        assert len(found) == 8
        assert len(set(found)) == 1
        assert claims.claim(MicroBatch("query", number), lambda: Claim(99, 0)) == found[0], "a replay sees it again"
    assert sorted(file.name for file in (tmp_path / "claims" / "query").iterdir()) == [f"{n:08}" for n in range(5)]


def test_queries_do_not_share_claims_and_lease_what_they_use(tmp_path: Path) -> None:
    versions = published(tmp_path, 4)
    claims = Claims(versions)
    claims.claim(MicroBatch("one", 0), lambda: Claim(1, 0))
    claims.claim(MicroBatch("two", 0), lambda: Claim(3, 0))
    assert versions.leased() == {1, 3}
    claims.claim(MicroBatch("one", 1), lambda: Claim(2, 0))
    assert versions.leased() == {1, 2, 3}, "the last micro-batch may still be repeated"
    claims.claim(MicroBatch("one", 2), lambda: Claim(2, 0))
    assert versions.leased() == {2, 3}
    assert versions.collect(timedelta(0)) == [1]


def test_an_unfinished_claim_is_an_error_and_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "_PATIENCE", timedelta(seconds=0.1))
    claims = Claims(published(tmp_path, 1))
    claims.claim(MicroBatch("query", 0), lambda: Claim(1, 0))
    (tmp_path / "claims" / "query" / "00000001").write_text('{"vers')
    with pytest.raises(FencepostError, match=r"00000001 is damaged.*delete it"):
        claims.claim(MicroBatch("query", 1), lambda: Claim(1, 0))


def test_a_directory_that_may_not_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = Claims(published(tmp_path, 1))

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(FencepostError, match=r"which this executor may not write to \(read-only\).*Grant"):
        claims.claim(MicroBatch("query", 0), lambda: Claim(1, 0))


def test_old_claims_and_those_of_abandoned_queries_are_deleted(tmp_path: Path) -> None:
    claims = Claims(published(tmp_path, 1))
    for number in (0, 5, 1100, 64 * 20):
        claims.claim(MicroBatch("query", number), lambda: Claim(1, 0))
    claims.claim(MicroBatch("abandoned", 7), lambda: Claim(1, 0))
    kept = sorted(int(file.name) for file in (tmp_path / "claims" / "query").iterdir())
    assert kept == [1100, 1280]
    long_ago = time.time() - timedelta(days=40).total_seconds()
    os.utime(tmp_path / "claims" / "abandoned" / "00000007", (long_ago, long_ago))
    claims.sweep()
    assert [query.name for query in (tmp_path / "claims").iterdir()] == ["query"]


def test_a_version_that_was_collected_is_an_error_for_a_replay(tmp_path: Path) -> None:
    versions = published(tmp_path, 2)
    claims = Claims(versions)
    claims.claim(MicroBatch("query", 0), lambda: Claim(1, 0))
    assert versions.collect(timedelta(0), fresh_for=timedelta(seconds=-1)) == [1]
    assert claims.claim(MicroBatch("query", 0), lambda: Claim(2, 0)) == Claim(1, 0)
    with pytest.raises(FencepostError, match=r"Version 1 of .*; expected a published version .*the last are: 2"):
        snapshot_at(Published(str(tmp_path)), 1)


def test_mapped_snapshots_run_the_code_that_compiled_ones_ran(tmp_path: Path) -> None:
    from fencepost.indexes.kernels import answers

    rules = fp.Rules()
    rules.add(1, "price > 4")
    table = {"price": np.array([1.0, 5.0])}
    assert rules.compile().match(table).sets() == [set(), {1}]
    signatures = len(answers.rules_of.signatures)  # type: ignore[attr-defined]
    rules.publish(tmp_path)
    assert snapshot_at(Published(str(tmp_path)), 1).match(table).sets() == [set(), {1}]
    assert len(answers.rules_of.signatures) == signatures  # type: ignore[attr-defined]
