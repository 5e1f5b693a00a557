"""Segments: a log in files, of blocks that are numbered, checksummed and appended in groups.

    DIR/00000000000000000001.rows    blocks from position 1 on
    DIR/00000000000000831201.rows    blocks from position 831,201 on

A file begins with 16 bytes that name its format. A block is a head of 48 bytes and its content. The head has the
position of the first thing in the block, how many there are, the length and checksum of the content, and a checksum of
itself. A block is written by one call and never changed.

What a crash can leave is a block that is cut short, and only at the very end: it was never acknowledged, so it is cut
off. Any other byte that has changed is damage, which is refused with the way out.

A log whose end can be written again says up to which position it was synced (`sure`). Of what is behind it a loss of
power may have kept any pages and lost others, so it is cut off from the first block on that is not whole.
"""

import errno
import os
import struct
import threading
import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fencepost._files.whole import make_folder, sync
from fencepost.errors import FencepostError
from fencepost.indexes.kernels.checksum import checksum
from fencepost.service.refusals import DiskFullError

_MARK = b"fencepost blocks"
_MAGIC = b"fpb1"
_HEAD = struct.Struct("<4sIQQQQ")
"""Magic, flags, first position, count, length, checksum of the content."""
_SUM = struct.Struct("<Q")
_HEAD_BYTES = _HEAD.size + _SUM.size
_DIGITS = 20
_SECTOR = 512


class Block(NamedTuple):
    """Some things of a log that were written together."""

    first: int
    things: int
    flags: int
    content: memoryview

    @property
    def last(self) -> int:
        """The position of the last of them."""
        return self.first + self.things - 1


class _Segment:
    """One file, and where its blocks are."""

    def __init__(self, path: Path, first: int) -> None:
        self.path, self.first, self.next = path, first, first
        self.firsts, self.offsets, self.flags = array("Q"), array("Q"), array("I")
        self.size = len(_MARK)

    def add(self, first: int, count: int, flags: int, length: int) -> None:
        # Others read meanwhile: they go by `firsts`, so that comes when the rest is there.
        self.offsets.append(self.size)
        self.flags.append(flags)
        self.size += length
        self.firsts.append(first)
        self.next = first + count


class Segments:
    """A log in a directory, which one process writes.

    Args:
        directory: of the files; made where it is missing.
        ending: of their names.
        roll: how many bytes a file has before the next one is begun.
        what: what is in it, for messages.
        sure: the last position that was synced, where whoever writes the log can write again what is behind it.
    """

    def __init__(
        self, directory: Path, ending: str, *, roll: int = 64 << 20, what: str = "rows", sure: int | None = None
    ) -> None:
        self.directory, self._ending, self._roll, self._what = directory, ending, roll, what
        self._sure = sure
        self._file: int | None = None
        self._lock = threading.Lock()
        """Held by who finds the blocks of an older file, opens one to read it, or deletes one."""
        self.cut = 0
        """How many bytes of blocks that were not whole were taken off when the log was opened."""
        make_folder(directory)
        names = sorted(path for path in directory.iterdir() if path.suffix == f".{ending}")
        self._segments = [_Segment(path, self._number(path)) for path in names]
        if self._segments:
            self._open_last()
        for before, after in zip(self._segments, self._segments[1:], strict=False):
            before.next = after.first

    def _number(self, path: Path) -> int:
        if not path.stem.isdigit():
            raise self._damaged(path, "is no file of this log")
        return int(path.stem)

    # -- where it is ---------------------------------------------------------------------------------------

    @property
    def first(self) -> int:
        """The first position that is kept."""
        return self._segments[0].first if self._segments else 1

    @property
    def next(self) -> int:
        """The position that the next thing gets."""
        return self._segments[-1].next if self._segments else 1

    @property
    def size(self) -> int:
        """How much is kept."""
        with self._lock:  # or a file may go between its name and its size
            return sum(each.size if len(each.firsts) else each.path.stat().st_size for each in self._segments)

    # -- writing -------------------------------------------------------------------------------------------

    def append(self, parts: Sequence[bytes], count: int, flags: int = 0) -> int:
        """Write a block and return its first position; it is durable after `sync`. What fails leaves nothing."""
        if not self._segments or self._segments[-1].size >= self._roll:
            self._begin(self.next)
        segment, content = self._segments[-1], b"".join(parts)
        first = segment.next
        head = _HEAD.pack(_MAGIC, flags, first, count, len(content), _checksum(content))
        whole = b"".join((head, _SUM.pack(_checksum(head)), content))
        try:
            _write_all(self._open(segment), whole)
        except OSError as error:
            self._take_back(segment)
            raise _refusal(error, segment.path) from None
        segment.add(first, count, flags, len(whole))
        return first

    def sync(self) -> None:
        """Wait until all is on the disk; where that fails, nothing is known of the last block."""
        if self._file is not None:
            try:
                os.fdatasync(self._file)
            except OSError as error:
                raise _refusal(error, self._segments[-1].path) from None

    def drop_last(self) -> None:
        """Take back the block that was appended last."""
        segment = self._segments[-1]
        segment.next, segment.size = segment.firsts.pop(), segment.offsets.pop()
        segment.flags.pop()
        self._take_back(segment)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin(self, position: int) -> None:
        """A new file, durable before anything is written to it, when all of the last one is on the disk."""
        self.sync()
        self.close()
        path = self.directory / f"{position:0{_DIGITS}}.{self._ending}"
        try:
            opened = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_CLOEXEC, 0o640)
            try:
                _write_all(opened, _MARK)
                os.fsync(opened)
            finally:
                os.close(opened)
            sync(self.directory)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise _refusal(error, path) from None
        if self._segments:
            self._segments[-1].next = position
        self._segments.append(_Segment(path, position))

    def _open(self, segment: _Segment) -> int:
        if self._file is None:
            self._file = os.open(segment.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        return self._file

    def _take_back(self, segment: _Segment) -> None:
        """Cut off what was written behind the last block."""
        os.truncate(segment.path, segment.size)

    # -- opening -------------------------------------------------------------------------------------------

    def _open_last(self) -> None:
        """Find the blocks of the last file, and cut off what a crash has left of others."""
        segment = self._segments[-1]
        data = segment.path.read_bytes()
        if len(data) < len(_MARK):  # a crash came between the name of the file and its first bytes
            segment.path.write_bytes(_MARK)
            sync(segment.path)
            data = _MARK
        whole = self._index(segment, data, self._sure)
        if whole == len(data):
            return
        if self._sure is None or segment.next <= self._sure:
            self._refuse_damage(segment, data, whole)
        self.cut = len(data) - whole
        os.truncate(segment.path, whole)
        sync(segment.path)

    def _index(self, segment: _Segment, data: bytes, sure: int | None = None) -> int:
        """Note where blocks are, up to the first that is not whole; the contents of earlier files are read later."""
        if data[: len(_MARK)] != _MARK:
            raise self._damaged(segment.path, "does not begin as a file of this log does")
        while (head := _read_head(data, segment.size)) is not None:
            flags, first, count, length, sum_ = head
            end = segment.size + _HEAD_BYTES + length
            if first != segment.next:
                if sure is not None and segment.next > sure:
                    break
                raise self._damaged(segment.path, f"has a block of position {first} where {segment.next} is due")
            if end > len(data) or _checksum(data[end - length : end]) != sum_:
                break
            segment.add(first, count, flags, end - segment.size)
        return segment.size

    def _refuse_damage(self, segment: _Segment, data: bytes, whole: int) -> None:
        """Refuse bytes that no crash leaves behind the last whole block."""
        rest = data[whole:]
        head = _read_head(data, whole)
        if head is not None and len(rest) < _HEAD_BYTES + head[3]:
            return  # cut short
        if head is None and len(rest) < _HEAD_BYTES:
            return
        # A loss of power may leave zeros where the last pages should be, and nothing behind them.
        if not any(rest[-_SECTOR:]) and not _has_block(rest):
            return
        raise self._damaged(segment.path, f"has changed behind position {segment.next - 1}")

    # -- reading -------------------------------------------------------------------------------------------

    def flagged(self, position: int) -> Iterator[Block]:
        """The blocks from a position on that have flags."""
        yield from self.blocks(position, flagged=True)

    def blocks(self, position: int = 1, *, flagged: bool = False) -> Iterator[Block]:
        """The blocks from the one that has a position on, up to the last of now."""
        for segment in list(self._segments):
            if segment.next <= position or (file := self._open_to_read(segment)) is None:
                continue
            with file:
                start = max(0, bisect_right(segment.firsts, position) - 1)
                for place in range(start, len(segment.firsts)):
                    if not flagged or segment.flags[place]:
                        yield self._read(segment, file.fileno(), place)

    def blocks_backwards(self, before: int | None = None) -> Iterator[Block]:
        """The blocks from the last one back, of those that begin before a position."""
        for segment in reversed(list(self._segments)):
            if (before is not None and segment.first >= before) or (file := self._open_to_read(segment)) is None:
                continue
            with file:
                stop = len(segment.firsts) if before is None else bisect_right(segment.firsts, before - 1)
                for place in range(stop - 1, -1, -1):
                    yield self._read(segment, file.fileno(), place)

    def _open_to_read(self, segment: _Segment) -> FileIO | None:
        """A file whose blocks are known; None where it is too old and has just been deleted."""
        with self._lock:
            if segment not in self._segments:
                return None
            self._find_blocks(segment)
            return segment.path.open("rb", buffering=0)

    def _find_blocks(self, segment: _Segment) -> None:
        """Find the blocks of an older file when they are first asked for: all of them, or it is refused each time."""
        if len(segment.firsts) or segment is self._segments[-1]:
            return
        data, found = segment.path.read_bytes(), _Segment(segment.path, segment.first)
        if self._index(found, data) != len(data) or found.next != segment.next:
            raise self._damaged(segment.path, f"has changed behind position {found.next - 1}")
        segment.offsets, segment.flags, segment.size, segment.firsts = (
            found.offsets, found.flags, found.size, found.firsts,
        )  # fmt: skip

    def _read(self, segment: _Segment, file: int, place: int) -> Block:
        offset = segment.offsets[place]
        end = segment.offsets[place + 1] if place + 1 < len(segment.offsets) else segment.size
        data = os.pread(file, end - offset, offset)
        head = _read_head(data, 0)
        # While a block is appended, the size of the file can be ahead of the places of its blocks.
        content = memoryview(data)[_HEAD_BYTES : _HEAD_BYTES + (0 if head is None else head[3])]
        if head is None or head[1] != segment.firsts[place] or _checksum(content) != head[4]:
            raise self._damaged(segment.path, f"has changed at position {segment.firsts[place]}")
        return Block(head[1], head[2], head[0], content)

    # -- collecting ----------------------------------------------------------------------------------------

    def collect(self, needed: int, age: float, most: int) -> int:
        """Delete files that are wholly before a needed position, and too old or too many; how many they were."""
        oldest, deleted = time.time() - age, 0
        while len(self._segments) > 1 and self._segments[0].next <= needed:
            segment = self._segments[0]
            if segment.path.stat().st_mtime > oldest and self.size <= most:
                break
            with self._lock:
                segment.path.unlink()
                self._segments.pop(0)
            deleted += 1
        return deleted

    def _damaged(self, path: Path, fault: str) -> FencepostError:
        return FencepostError(
            f"{path}, which {fault}",
            f"the {self._what} as they were written",
            "Restore the file from a backup. Without one, move it and later files of this directory away to go on "
            f"without their {self._what}, together with the saves of later positions.",
        )


def _read_head(data: bytes | memoryview, offset: int) -> tuple[int, int, int, int, int] | None:
    """Flags, first position, count, length and checksum of the block at an offset; None where there is none."""
    head = bytes(data[offset : offset + _HEAD_BYTES])
    if len(head) < _HEAD_BYTES or head[: len(_MAGIC)] != _MAGIC:
        return None
    if _SUM.unpack(head[_HEAD.size :])[0] != _checksum(head[: _HEAD.size]):
        return None
    _, flags, first, count, length, sum_ = _HEAD.unpack(head[: _HEAD.size])
    return flags, first, count, length, sum_


def _has_block(data: bytes) -> bool:
    """Whether there is the head of a block anywhere but at the begin."""
    place = data.find(_MAGIC, 1)
    while place >= 0:
        if _read_head(data, place) is not None:
            return True
        place = data.find(_MAGIC, place + 1)
    return False


def _checksum(content: bytes | memoryview) -> int:
    return checksum(np.frombuffer(content, np.uint8))


def _write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _refusal(error: OSError, path: Path) -> FencepostError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return DiskFullError(path)
    return FencepostError(
        f"{path} cannot be written ({error.strerror})", "a disk that works", "Look at the disk; then start again."
    )
