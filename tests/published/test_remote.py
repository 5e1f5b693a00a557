"""Directories at URLs, on a server that speaks S3: what a path can do, exclusive creation, copies on this host."""

import builtins
import multiprocessing
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencepost as fp
from fencepost._files import local_copies as copies
from fencepost._files import storage as places
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.snapshot import Snapshot
from tests.published.test_directory import snapshot_of
from tests.publishing import publish_and_load
from tests.s3 import UNCONDITIONAL
from tests.snapshot.test_snapshot import table_of

ROW = {"price": 3, "volume": 1, "day": 1, "symbol": "IBM", "venue": None}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's copies, none of them there yet."""
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / f"fencepost-{os.getuid()}"


def copied(cache: Path) -> set[str]:
    return {file.name for file in cache.glob("[0-9a-f]*")}


def rules_of(count: int) -> fp.Rules:
    rules = fp.Rules()
    for id in range(count):
        rules.add(id, f"symbol = 'S{id % 7}' AND price > {id}")
    return rules


def test_a_directory_at_a_url_is_one(bucket: str, cache: Path) -> None:
    versions = VersionDirectory(f"{bucket}/one/")
    assert str(versions.path) == f"{bucket}/one"
    assert versions.latest() is None
    assert versions.schema() is None
    with pytest.raises(FencepostError, match=r"s3://fencepost/one without any version; expected a published"):
        versions.load()
    assert [versions.publish(snapshot_of) for _ in range(3)] == [1, 2, 3]
    assert versions.versions() == [1, 2, 3]
    assert (versions.load().version, len(versions.load(2))) == (3, 2)
    shutil.rmtree(cache)
    assert versions.load(1).match(table_of([ROW])).sets() == [{7}]
    with pytest.raises(FencepostError, match=r"The column price as date; expected double, .*to a new directory"):
        versions.publish(snapshot_of, {"price": "date"})
    assert versions.markers.newest() == (3, None)
    versions.tick(7)
    versions.tick(9)
    versions.tick(8)
    assert versions.markers.newest() == (3, 9)
    with versions.lease(2, "query") as lease:
        lease.renew()
        assert versions.leased() == {2}
        assert versions.collect(timedelta(hours=1)) == []
        assert versions.collect(timedelta(0)) == [1]
    assert versions.collect(timedelta(0)) == [2]
    assert versions.versions() == [3]
    assert places.names(versions.path, "00000002*") == []
    assert versions.publish(snapshot_of, {"extra": "date"}) == 5, "no number is used again, nor one that was refused"
    assert versions.added_columns() == {"extra"}


@pytest.mark.slow
def test_publishers_at_once_have_a_number_each_and_readers_one_copy(bucket: str, tmp_path: Path) -> None:
    url, context = f"{bucket}/many", multiprocessing.get_context("spawn")
    together, told = context.Barrier(3), context.Queue()
    given = (url, together, told, str(tmp_path / "other"))
    workers = [context.Process(target=publish_and_load, args=given) for _ in range(3)]
    for worker in workers:
        worker.start()
    assert sorted(told.get(timeout=60) for _ in workers) == [(1, 1), (2, 1), (3, 1)]
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert VersionDirectory(url).versions() == [1, 2, 3]
    assert copied(tmp_path / "other" / f"fencepost-{os.getuid()}") == {VersionDirectory(url).digest(2)}


def test_a_version_that_was_not_finished_is_skipped(bucket: str) -> None:
    versions = VersionDirectory(f"{bucket}/half")
    versions.publish(snapshot_of)

    def dies(_: int) -> Snapshot:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        versions.publish(dies)
    places.put(versions.path / "00000002" / "arrays.bin", "half")
    assert versions.latest() == 1
    places.put(versions.path / "00000002.published", "half")
    with pytest.raises(FencepostError, match="announcement or header is damaged"):
        versions.latest()
    assert versions.publish(snapshot_of) == 3
    assert versions.versions() == [1, 3]


def test_layers_and_parts_are_shared_and_copied_once(bucket: str, cache: Path) -> None:
    url, rules = f"{bucket}/layers", rules_of(200)
    rules.publish(url, shards=2)
    rules.replace(7, "symbol = 'S0' AND price > 1000")
    rules.publish(url)
    versions, table = VersionDirectory(url), {"symbol": ["S0", "S3"], "price": [500.0, 1500.0]}
    shutil.rmtree(cache)
    whole = versions.load()
    assert len(whole.layers) == 2
    assert copied(cache) == {versions.digest(1), versions.digest(2)}
    found = whole.match(table).sets()
    assert found == [{*range(0, 200, 7)} - {7}, {*range(3, 200, 7)}]
    parts = [versions.load_shard(2, part).match(table).sets() for part in range(2)]
    assert [first | second for first, second in zip(*parts, strict=True)] == found
    assert versions.head(2).rules == 200
    assert versions.shards_for(2).shards == 2
    before = copied(cache)
    versions.load()
    versions.load_shard(2, 1)
    assert copied(cache) == before
    rules.replace(7, "symbol = 'S0' AND price > 1001")
    rules.publish(url)
    assert versions.collect(timedelta(0)) == [2], "the first has a layer of the third"
    assert places.names(versions.path / "parts" / "00", "*") == ["00000001", "00000003"]


@pytest.mark.slow
def test_a_book_is_published_incrementally(bucket: str, tmp_path: Path) -> None:
    url = f"{bucket}/book"
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        for rule in rules_of(40):
            book.add(rule.id, str(rule.condition))
        book.publish(url)
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as again:
        again.remove(3)
        assert again.publish(url) == 2
    assert len(VersionDirectory(url).load()) == 39
    command = [sys.executable, "-m", "fencepost", "publish", url, "--json"]
    environment = {**os.environ, "FENCEPOST_BOOK": f"sqlite:///{tmp_path}/rules.db"}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    assert f'"directory": "{url}"' in told.stdout
    assert VersionDirectory(url).latest() == 3


def test_damaged_bytes_are_refused_and_damaged_copies_made_anew(bucket: str, cache: Path) -> None:
    versions = VersionDirectory(f"{bucket}/damaged")
    versions.publish(snapshot_of)
    copy = cache / versions.digest(1)
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-1] + b"x")
    assert len(versions.load()) == 1
    assert copy.read_bytes() == whole
    arrays: Any = versions.path / "00000001" / "arrays.bin"
    arrays.write_bytes(whole[:-1] + b"x")
    assert len(versions.load()) == 1, "the copy is what was verified"
    copy.unlink()
    with pytest.raises(FencepostError, match=r"arrays.bin with another checksum in s3://fencepost/damaged/00000001"):
        versions.load()
    arrays.unlink()
    with pytest.raises(FencepostError, match=r"No arrays.bin in s3://fencepost/damaged/00000001; expected [\d,]+ b"):
        versions.load()
    assert copied(cache) == set(), "nor is a draft left"


def test_copies_that_nobody_has_mapped_are_let_go(bucket: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_KEPT", 1)
    versions = VersionDirectory(f"{bucket}/let-go")
    held = None
    for _ in range(4):
        versions.publish(snapshot_of)
        held = held or versions.load(1)
    assert copied(cache) == {versions.digest(1), versions.digest(4)}
    assert held is not None
    assert held.match(table_of([ROW])).sets() == [{7}]
    del held
    versions.load(3)
    assert copied(cache) == {versions.digest(3)}


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "memory://rules",
            r"on a file system that cannot create a file only if it is missing; expected one",
        ),
        ("s3://no-such-bucket/rules", r"no-such-bucket/rules/00000001.claim .*; expected a bucket that exists"),
        ("nonsense://bucket/rules", r"nonsense://bucket/rules .*; expected a URL that fsspec knows.*Correct the URL"),
        ("gs://bucket/rules", r"gs://bucket/rules without the package of that store .*gcsfs"),
    ],
)
def test_what_cannot_be_published_to_is_refused(bucket: str, url: str, told: str) -> None:  # noqa: ARG001
    with pytest.raises(FencepostError, match=told):
        rules_of(1).publish(url)


def test_a_store_without_conditions_is_refused(bucket: str) -> None:
    with pytest.raises(FencepostError, match=r"a store that created a file a second time; .*conditional writes"):
        rules_of(1).publish(f"{bucket}/{UNCONDITIONAL}/rules")


@pytest.mark.slow
def test_a_missing_package_is_named_and_paths_need_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys, fencepost as fp; r = fp.Rules(); r.add(1, 'x > 1'); r.publish(sys.argv[1]); \
        assert not {'fsspec', 'upath'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script, f"file://{tmp_path}/rules"], check=True)  # noqa: S603
    assert VersionDirectory(tmp_path / "rules").versions() == [1]
    plain = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "upath":
            raise ModuleNotFoundError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FencepostError, match=r"without the package universal_pathlib; .*pip install 'fencepost\[remot"):
        VersionDirectory("s3://bucket/rules")
