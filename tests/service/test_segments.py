"""Logs in files: torn ends are cut, damage is refused, failing writes leave nothing, old files go."""

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.service.refusals import DiskFullError
from fencepost.service.segments import Segments
from tests.effort import examples

CONTENTS = [b"", b"a", b"bc" * 40, b"\0" * 700, b"fpb1" * 9]


def write(directory: Path, contents: list[bytes] = CONTENTS, **given: Any) -> Segments:
    log = Segments(directory, "rows", **given)
    for number, content in enumerate(contents, start=1):
        log.append([content[:1], content[1:]], number)
    log.sync()
    return log


def read(log: Segments, position: int = 1) -> list[tuple[int, int, bytes]]:
    return [(block.first, block.last, bytes(block.content)) for block in log.blocks(position)]


@pytest.mark.parametrize("roll", [1, 200, 10_000])
def test_what_is_written_is_read(tmp_path: Path, roll: int) -> None:
    log = write(tmp_path, roll=roll)
    expected = [(1, 1), (2, 3), (4, 6), (7, 10), (11, 15)]
    for again in (log, Segments(tmp_path, "rows")):
        assert [(first, last) for first, last, _ in read(again)] == expected
        assert [content for _, _, content in read(again)] == CONTENTS
        assert (again.first, again.next) == (1, 16)
        assert [first for first, _, _ in read(again, 5)] == [4, 7, 11]
        assert [block.first for block in again.blocks_backwards()] == [11, 7, 4, 2, 1]
        assert [block.first for block in again.blocks_backwards(7)] == [4, 2, 1]
        again.close()


@examples(60)
@given(cut=st.integers(1, 200))
def test_a_block_that_is_cut_short_is_taken_off(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    directory = tmp_path_factory.mktemp("log")
    write(directory).close()
    [file] = directory.iterdir()
    data = file.read_bytes()
    last = len(CONTENTS[-1]) + 48
    file.write_bytes(data[:-cut])
    if cut > last:  # two blocks at once cannot be cut short: the first of them was on the disk
        cut = last + (cut - last)
    log = Segments(directory, "rows")
    whole = [content for _, _, content in read(log)]
    assert whole == CONTENTS[: len(whole)]
    assert log.append([b"new"], 1) == log.next - 1
    log.close()
    assert read(Segments(directory, "rows"))[-1][2] == b"new"


@pytest.mark.parametrize("roll", [1, 10_000])
def test_every_changed_byte_is_noticed(tmp_path: Path, roll: int) -> None:
    write(tmp_path, [b"abc", b"defg", b"hij"], roll=roll).close()
    for file in sorted(tmp_path.iterdir()):
        data = file.read_bytes()
        for place in range(len(data)):
            file.write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
            with pytest.raises(FencepostError) as refused:
                read(Segments(tmp_path, "rows"))
            assert "Restore" in refused.value.remedy
        file.write_bytes(data)


def test_zeros_of_a_lost_page_are_taken_off(tmp_path: Path) -> None:
    write(tmp_path, [b"abc"]).close()
    [file] = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + bytes(4096))
    log = Segments(tmp_path, "rows")
    assert (log.cut, log.next) == (4096, 2)


@contextmanager
def failing(call: str, error: int, after: int) -> Iterator[None]:
    """Let a call of the system fail once it was made so often."""
    real, made = getattr(os, call), 0

    def fail(*given: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made > after:
            if call == "write":
                real(given[0], bytes(given[1])[: len(given[1]) // 2])  # half of it fits
            raise OSError(error, os.strerror(error))
        return real(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fail)
        yield


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("roll", [1, 10_000])
def test_a_full_disk_loses_nothing(tmp_path: Path, after: int, roll: int) -> None:
    log = write(tmp_path, [b"abc", b"def"], roll=roll)
    before = read(log)
    with failing("write", errno.ENOSPC, after):
        for _ in range(after + 1):
            try:
                log.append([b"more" * 100], 1)
            except DiskFullError:
                break
            before = read(log)
    assert read(log) == before
    log.append([b"again"], 1)
    assert [content for _, _, content in read(Segments(tmp_path, "rows"))][-1] == b"again"


def test_old_files_go_but_never_what_is_needed(tmp_path: Path) -> None:
    log = write(tmp_path, [b"x" * 100] * 5, roll=1)
    assert log.collect(needed=1, age=0, most=0) == 0
    assert log.collect(needed=4, age=1e9, most=1 << 30) == 0
    assert log.collect(needed=7, age=0, most=1 << 30) == 3
    assert log.first == 7
    assert log.collect(needed=10**9, age=1e9, most=0) == 1
    assert [first for first, _, _ in read(Segments(tmp_path, "rows"))] == [11]


def test_a_file_is_on_the_disk_before_the_next_one_begins(tmp_path: Path) -> None:
    """Events are not synced one by one: without this, nothing would sync the end of an older file."""
    synced: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        real = os.fdatasync

        def note(file: int) -> None:
            synced.append(os.readlink(f"/proc/self/fd/{file}"))
            real(file)

        patch.setattr(os, "fdatasync", note)
        log = Segments(tmp_path, "events", roll=100)
        for _ in range(4):
            log.append([b"x" * 200], 1)
    files = sorted(str(path) for path in tmp_path.iterdir())
    assert synced == files[:-1]


def test_readers_see_whole_blocks_while_one_is_appended(tmp_path: Path) -> None:
    log = write(tmp_path)
    segment = log._segments[-1]
    offsets, size = list(segment.offsets), segment.size
    expected = read(log)
    segment.size += 1000  # what `add` has done when another thread comes between
    with segment.path.open("ab") as file:
        file.write(b"y" * 1000)
    assert read(log) == expected
    segment.offsets.append(size)
    assert read(log) == expected
    assert list(segment.offsets) == [*offsets, size]


def test_threads_that_find_an_older_file_together_read_all_of_it(tmp_path: Path) -> None:
    contents = [b"x" * 100] * 3000
    write(tmp_path, contents, roll=200_000).close()
    expected = [(block.first, block.last) for block in Segments(tmp_path, "rows").blocks()]
    assert len(expected) == 3000
    switched = sys.getswitchinterval()
    sys.setswitchinterval(0.0002)
    try:
        for _ in range(5):
            log, found = Segments(tmp_path, "rows"), dict[int, Any]()
            barrier = threading.Barrier(4)

            def look(number: int, log: Segments = log, found: dict[int, Any] = found, at: Any = barrier) -> None:
                at.wait()
                blocks = log.blocks_backwards() if number % 2 else log.blocks()
                found[number] = sorted((block.first, block.last) for block in blocks)

            threads = [threading.Thread(target=look, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [found.get(number) == expected for number in range(4)] == [True] * 4
    finally:
        sys.setswitchinterval(switched)


def test_damage_is_refused_each_time(tmp_path: Path) -> None:
    write(tmp_path, [b"x" * 50] * 9, roll=300).close()
    first = min(tmp_path.iterdir())
    data = bytearray(first.read_bytes())
    data[-20] ^= 1
    first.write_bytes(data)
    log = Segments(tmp_path, "rows")
    due = log._segments[0].next
    for _ in range(2):
        with pytest.raises(FencepostError, match="changed behind position"):
            list(log.blocks_backwards(due))
        with pytest.raises(FencepostError, match="changed behind position"):
            list(log.blocks())
        assert next(log.blocks(due)).first == due
    assert log.collect(needed=due - 1, age=0, most=0) == 0


def test_a_file_that_is_deleted_while_somebody_reads_is_passed_over(tmp_path: Path) -> None:
    log = write(tmp_path, [b"x" * 100] * 5, roll=1)
    blocks = log.blocks()
    assert next(blocks).first == 1
    log.collect(needed=4, age=0, most=0)
    assert [block.first for block in blocks] == [4, 7, 11]


def test_a_log_that_can_be_written_again_is_cut_behind_what_was_synced(tmp_path: Path) -> None:
    write(tmp_path, [b"x" * 600] * 5).close()
    [file] = tmp_path.iterdir()
    data = bytearray(file.read_bytes())
    data[700:1000] = b"?" * 300  # in the second block, of the positions 2 and 3
    for sure in (None, 2, 3):
        file.write_bytes(data)
        with pytest.raises(FencepostError, match="changed behind position 1"):
            Segments(tmp_path, "rows", sure=sure)
    log = Segments(tmp_path, "rows", sure=1)
    assert (log.next, log.cut > 0) == (2, True)
