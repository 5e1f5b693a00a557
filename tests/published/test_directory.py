"""Published versions: many publishers, kills in between, readers that see complete versions only."""

import errno
import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from fencepost.book import RuleBook
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from fencepost.published.claims import Claims
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot
from tests.snapshot.test_snapshot import Box, compiled, table_of

RULE: list[list[Box]] = [[({"symbol": "IBM"}, {"price": (0, 9)})]]


def snapshot_of(version: int) -> Snapshot:
    return compiled(RULE * version, version)


def publish_several(path: Path, times: int, numbers: Path) -> None:
    versions = VersionDirectory(path)
    for _ in range(times):
        with numbers.open("a") as file:
            file.write(f"{versions.publish(snapshot_of)}\n")
        versions.collect(timedelta(0))


def publish_never(path: Path, claimed: Path) -> None:
    def slowly(version: int) -> Snapshot:
        claimed.write_text(str(version))
        time.sleep(60)
        return snapshot_of(version)

    VersionDirectory(path).publish(slowly)


def test_versions_count_up_and_load(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path / "published")
    assert versions.latest() is None
    assert [versions.publish(snapshot_of) for _ in range(3)] == [1, 2, 3]
    assert versions.versions() == [1, 2, 3]
    assert (versions.load().version, len(versions.load()), len(versions.load(2))) == (3, 3, 2)
    row = {"price": 3, "volume": 1, "day": 1, "symbol": "IBM", "venue": None}
    assert versions.load(1).match(table_of([row])).sets() == [{7}]


@pytest.mark.slow
def test_publishers_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path, files = tmp_path / "published", [tmp_path / f"{n}.txt" for n in range(3)]
    workers = [context.Process(target=publish_several, args=(path, 4, file)) for file in files]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert sorted(int(number) for file in files for number in file.read_text().split()) == list(range(1, 13))
    assert len(VersionDirectory(path).load()) == 12
    VersionDirectory(path).collect(timedelta(0))
    assert VersionDirectory(path).versions() == [12]
    assert not list(path.glob("*.claim"))


@pytest.mark.slow
def test_a_killed_publisher_leaves_a_gap_and_no_half_version(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path / "published")
    versions.publish(snapshot_of)
    claimed = tmp_path / "claimed"
    worker = multiprocessing.get_context("spawn").Process(target=publish_never, args=(versions.path, claimed))
    worker.start()
    while not claimed.exists():
        time.sleep(0.02)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert versions.latest() == 1
    assert versions.publish(snapshot_of) == 3
    assert versions.versions() == [1, 3]


def test_no_older_version_passes_for_a_damaged_one(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)
    versions.publish(snapshot_of)
    announcement = tmp_path / "00000002.published"
    announcement.write_text(announcement.read_text()[:5])
    for ask in (versions.latest, versions.load, lambda: versions.load(2)):
        with pytest.raises(
            FencepostError, match=r"Version 2 of .* is damaged; .* Publish the rules again, .* or delete"
        ):
            ask()
    assert versions.load(1).version == 1
    assert versions.collect(timedelta(0)) == [], "else an older one would be the newest"
    assert versions.publish(snapshot_of) == 3
    assert versions.load().version == 3
    assert versions.versions() == [1, 3]


@pytest.mark.parametrize("name", ["{:08}.published", "{:08}/header.json"])
def test_rules_are_published_over_a_damaged_version(tmp_path: Path, name: str) -> None:
    rules, path = Rules(), tmp_path / "published"
    rules.add(1, "x > 1")
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.add(1, "x > 1")
        for publisher in (rules, book):
            number = publisher.publish(path)
            file = path / name.format(number)
            file.write_bytes(file.read_bytes()[:7])
            with pytest.raises(FencepostError, match="Publish the rules again"):
                VersionDirectory(path).latest()
            assert publisher.publish(path) == number + 1
            assert len(VersionDirectory(path).load()) == 1


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FencepostError, match=r"without any version; expected a published version .*Publish rules"):
        VersionDirectory(tmp_path).load()


def test_the_first_version_fixes_the_schema(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    everything = {
        "price": "double",
        "volume": "bigint",
        "day": "date",
        "symbol": "key",
        "venue": "key",
        "later": "double",
    }
    versions.publish(snapshot_of, everything)
    assert versions.schema() == everything
    versions.publish(snapshot_of)
    other = VersionDirectory(tmp_path / "other")
    other.publish(snapshot_of)
    wider = Rules()
    wider.add(1, "extra > 4")
    with pytest.raises(FencepostError, match=r"rules that need extra as double; .*Publish with schema= naming the new"):
        other.publish(lambda number: wider.compile(version=number))
    with pytest.raises(FencepostError, match=r"The column price as date; expected double, as .* Leave its type"):
        other.publish(snapshot_of, {"price": "date"})
    with pytest.raises(FencepostError, match=r"The column Price beside price, which .* differ by more than case"):
        other.publish(snapshot_of, {"Price": "double"})
    assert other.versions() == [1]


def test_columns_can_be_added(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)
    first = versions.schema()
    assert first is not None
    assert versions.added_columns() == frozenset()
    versions.publish(snapshot_of, {"gate": "key", "price": "double"})
    versions.publish(snapshot_of, {"gate": "key"})
    versions.publish(snapshot_of, {"delay": "double", "gate": "key"})
    assert versions.schema() == {**first, "gate": "key", "delay": "double"}
    assert versions.added_columns() == {"gate", "delay"}
    assert sorted(file.name for file in tmp_path.glob("schema*")) == [
        "schema.0001.json",
        "schema.0002.json",
        "schema.json",
    ]
    whole = (tmp_path / "schema.0002.json").read_bytes()
    for place in range(len(whole)):
        (tmp_path / "schema.0002.json").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FencepostError, match=r"schema\.0002\.json is damaged"):
            versions.schema()


def test_publishers_that_add_columns_at_once_lose_none(tmp_path: Path) -> None:
    VersionDirectory(tmp_path).publish(snapshot_of)
    names = [f"column{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: VersionDirectory(tmp_path).publish(snapshot_of, {name: "double"}), names))
    assert VersionDirectory(tmp_path).added_columns() == set(names)


def test_versions_are_collected_unless_leased_or_young_or_newest(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    for _ in range(4):
        versions.publish(snapshot_of)
    assert versions.collect(timedelta(hours=1)) == []
    with versions.lease(2, "query a") as lease:
        versions.lease(2, "query b").release()
        assert versions.leased() == {2}
        assert versions.collect(timedelta(0)) == [1, 3]
        assert versions.versions() == [2, 4]
        assert len(versions.load(2)) == 2
        lease.renew()
    assert versions.leased() == set()
    assert versions.collect(timedelta(0)) == [2]
    assert versions.publish(snapshot_of) == 5, "numbers are never used again"
    with pytest.raises(FencepostError, match=r"A lease of version 1 of .*; expected a published version"):
        versions.lease(1, "late")


def test_a_lease_that_nobody_renews_runs_out(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)
    versions.publish(snapshot_of)
    versions.lease(1, "gone")
    time.sleep(0.05)
    assert versions.leased(fresh_for=timedelta(milliseconds=10)) == set()
    assert versions.collect(timedelta(0), fresh_for=timedelta(milliseconds=10)) == [1]


def test_a_version_that_shares_layers_keeps_them_from_being_collected(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    rules = Rules()
    for id in range(100):
        rules.add(id, f"price > {id}")
    for change in range(4):
        rules.replace(7, f"price > {1000 + change}")
        rules.publish(tmp_path)
    assert len(versions.load(4).layers) == 2
    assert versions.collect(timedelta(0)) == [2, 3]
    assert versions.load(4).match({"price": [1002.5, 1003.5]}).counts.tolist() == [99, 100]
    (tmp_path / "00000001.published").unlink()
    rules.remove(8)
    rules.publish(tmp_path)
    assert versions.load(5).match({"price": [1003.5]}).counts.tolist() == [99]
    assert versions.collect(timedelta(0)) == [4], "what shared a layer that went was written whole"
    assert len(versions.load()) == 99


def test_a_changed_byte_of_the_schema_is_noticed(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)
    schema, fixed = tmp_path / "schema.json", versions.schema()
    whole = schema.read_bytes()
    for place in range(len(whole)):
        for flip in (0x01, 0x80):
            schema.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            with pytest.raises(FencepostError, match=r"is damaged; .* publish the rules to a new directory\."):
                assert versions.schema() != fixed


@pytest.mark.parametrize("content", [b"", b"[", b"[1]", b"7", b"\xff\xfe", b'{"price": 7}', b"[" * 100_000])
def test_a_damaged_schema_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "schema.json").write_bytes(content)
    with pytest.raises(FencepostError, match=r"schema\.json is damaged; .* Restore the file from a backup"):
        VersionDirectory(tmp_path).schema()


def test_a_schema_from_before_the_checksum_is_read(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    (tmp_path / "schema.json").write_text('{"header": "double", "price": "double", "symbol": "key"}')
    assert versions.schema() == {"header": "double", "price": "double", "symbol": "key"}
    rules = Rules()
    rules.add(1, "price > 4 AND header < 3")
    assert rules.publish(tmp_path) == 1


@pytest.mark.parametrize("name", ["schema.json", "00000001.published", "00000001/header.json", "00000001/arrays.bin"])
def test_a_directory_in_place_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(FencepostError, match=r"cannot be used \(Is a directory\)|is damaged"):
        (versions.schema if name == "schema.json" else versions.load)()


@pytest.mark.parametrize("content", ["[]", "7", "[" * 100_000, '{"digest": 7}', '{"header": [], "digest": ""}'])
def test_a_damaged_header_is_refused(tmp_path: Path, content: str) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)
    (tmp_path / "00000001" / "header.json").write_text(content)
    with pytest.raises(FencepostError, match="announcement or header is damaged"):
        versions.latest()
    with pytest.raises(FencepostError, match="Save or publish the snapshot again"):
        Snapshot.load(tmp_path / "00000001")


def age(path: Path) -> None:
    """Make it two hours since everything there was written."""
    for each in (path, *path.rglob("*")):
        os.utime(each, (time.time() - 7200,) * 2)


def files_in(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()}


@pytest.mark.parametrize("shards", [None, 2])
def test_whatever_the_dead_left_is_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int | None
) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of, shards=shards)
    clean = files_in(tmp_path)
    monkeypatch.setattr(VersionDirectory, "_delete", lambda *_: None)  # as if the process were killed
    monkeypatch.setattr(VersionDirectory, "_announce", killed)
    with pytest.raises(KeyboardInterrupt):
        versions.publish(snapshot_of)
    monkeypatch.setattr(Snapshot, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        versions.publish(snapshot_of)
    monkeypatch.undo()
    versions.lease(1, "a reader that died")
    for draft in (".schema.json.0123456789abcdef", "markers/.00000001.version.0123456789abcdef"):
        (tmp_path / draft).write_text("half")
    versions.tick(5)
    versions.tick(6)
    assert versions.collect(timedelta(0)) == []
    assert (tmp_path / "00000002").exists(), "somebody may still work on it"
    age(tmp_path)
    assert versions.collect(timedelta(0)) == []
    assert files_in(tmp_path) - clean == {
        "00000002.claim", "00000003.claim", f"markers/{6:020}.clock", "used/00000001"
    }  # fmt: skip
    assert not (tmp_path / "00000002").exists()
    assert versions.publish(snapshot_of) == 4
    assert versions.versions() == [1, 4]
    assert versions.load(4).version == 4


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_claims_and_markers_do_not_pile_up(tmp_path: Path) -> None:
    versions = VersionDirectory(tmp_path)
    most = 0
    for number in range(1, 43):
        assert versions.publish(snapshot_of) == number
        if number % 3 == 0:
            age(tmp_path)
            versions.collect(timedelta(0))
            assert versions.versions() == [number]
            most = max(most, len(list((tmp_path / "markers").iterdir())))
    assert most == 1
    assert not list(tmp_path.glob("*.claim"))
    assert sorted(file.name for file in (tmp_path / "used").iterdir()) == ["00000039", "00000042"]


def test_claims_of_publishers_at_work_stay(tmp_path: Path) -> None:
    """A version that is not announced yet is as old as its claim, and the claims above the newest version count."""
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of)

    def compile_slowly(number: int) -> Snapshot:
        assert versions.publish(snapshot_of) == 3
        versions.collect(timedelta(0))
        assert (tmp_path / "00000002.claim").exists()
        assert not (tmp_path / "00000003.claim").exists(), "its version is announced"
        assert versions.publish(snapshot_of) == 4
        (tmp_path / "00000002.claim").unlink()  # as if it had taken hours
        return snapshot_of(number)

    assert versions.publish(compile_slowly) == 2
    assert versions.versions() == [2, 3, 4]
    with pytest.raises(KeyboardInterrupt):
        versions.publish(killed)  # type: ignore[arg-type]
    versions.collect(timedelta(0), fresh_for=timedelta(0))
    assert [file.name for file in tmp_path.glob("*.claim")] == ["00000005.claim"]
    assert versions.publish(snapshot_of) == 6


def test_a_publisher_that_slept_claims_no_old_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = VersionDirectory(tmp_path)
    for _ in range(9):
        versions.publish(snapshot_of)
    age(tmp_path)
    versions.collect(timedelta(0))
    found = iter([1, 9])
    monkeypatch.setattr(Claims, "_newest", lambda _: next(found))
    assert versions.publish(snapshot_of) == 10
    assert not (tmp_path / "00000002.claim").exists()


@pytest.mark.parametrize("step", range(1, 7))
@pytest.mark.parametrize("shards", [None, 2])
def test_a_full_disk_is_named_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, shards: int | None
) -> None:
    versions = VersionDirectory(tmp_path)
    versions.publish(snapshot_of, shards=shards)
    before, calls, sync = files_in(tmp_path), iter(range(1, 100)), os.fsync

    def fill(opened: int) -> None:
        if next(calls) == step:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(opened)

    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(FencepostError, match=r"^The disk of .* is full; expected room .* Make room"):
        versions.publish(snapshot_of)
    monkeypatch.undo()
    if versions.latest() == 1:
        assert files_in(tmp_path) - before <= {"00000002.claim"}
        assert [path.name for path in tmp_path.iterdir() if path.is_dir() and path.name.isdecimal()] == ["00000001"]
    number = versions.publish(snapshot_of)
    assert (versions.latest(), versions.load().version) == (number, number)
    assert {int(file.name[:8]) for file in (tmp_path / "markers").iterdir()} == set(versions.versions())
