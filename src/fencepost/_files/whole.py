"""Files that are written whole: a reader sees what was there before or all that is new, also after a crash.

What is written first is a draft, `.NAME.HOSTxxxx` beside the file. Its writer holds a lock on it. So whoever writes
next can tell the drafts of processes that were killed, and deletes them. A lock says something only on the host of the
writer, and there are file systems without locks: what may be such a draft has to be an hour old.

A note is a small JSON object that is written whole, with a checksum in it.
"""

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fencepost.errors import FencepostError

PRIVATE = 0o600
"""The mode of files that nobody else may read."""
PRIVATE_FOLDER = 0o700
"""The mode of folders that nobody else may look into."""

_DRAFT = re.compile(r"\.(.+)\.([0-9a-f]{8})[0-9a-f]{8}(?:-journal|-wal|-shm)?")
"""The name of a draft: of which file, and from which host. A draft of SQLite has files beside it."""
_ABANDONED = 3_600.0
"""Seconds after which a draft has no writer any more, wherever that was."""
_LISTED_FOR = 100
"""A folder is not listed again for the drafts in it before so many times what that took, nor after a minute."""
_LONGEST = 60.0
_FOLDERS = 1_000
"""So many folders are remembered."""


def write_whole(
    path: Path, content: bytes | str, durable: bool = True, mode: int | None = None, ours: bool = False
) -> None:
    """Write a file, in place of any other of that name; text in UTF-8. A `mode` holds from the first byte on."""
    with replace_file(path, durable, mode, ours) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def replace_file(path: Path, durable: bool = True, mode: int | None = None, ours: bool = False) -> Iterator[Path]:
    """Where to write a file that replaces another once the block ends well; with its permissions, or those of `mode`.

    A durable file survives a loss of power from then on. The others save two waits: they can be made again.
    """
    with draft_beside(path, mode, ours) as draft:
        yield draft
        if mode is None:
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(path, draft)
        if durable:
            sync(draft)
        draft.replace(path)
    if durable:
        sync(path.parent)


def move_durably(moves: Mapping[Path, Path]) -> None:
    """Give files that somebody else wrote other names; then they survive a loss of power, and so do the folders."""
    for written in moves:
        sync(written)
    for written, name in moves.items():
        written.replace(name)
    for folder in dict.fromkeys(name.parent for name in moves.values()):
        sync(folder)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it that are missing; each survives a loss of power. The mode is of the last."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(mode, parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync(folder.parent)


# -- drafts ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def draft_beside(
    path: Path, mode: int | None = None, ours: bool = False, made_by_writer: bool = False
) -> Iterator[Path]:
    """An empty file with a hidden name beside a file, which nobody else writes; what has it in the end is deleted.

    Drafts of the dead are deleted first. What was done counts, also where the own draft cannot be deleted.

    Args:
        path: the file.
        mode: of the draft; None for that of any new file.
        ours: nobody but fencepost keeps files in the folder, so drafts of all names are looked for.
        made_by_writer: there is no file yet, and no lock on it, for writers that have locks of their own.
    """
    delete_dead_drafts(path.parent, None if ours else path.name)
    if made_by_writer:  # another host's name: such a draft must be old before anybody deletes it
        draft, opened = path.with_name(f".{path.name}.{secrets.token_hex(8)}"), None
    else:
        draft, opened = _make_draft(path, 0o666 if mode is None else mode)
    try:
        yield draft
    finally:
        try:
            draft.unlink(missing_ok=True)
        except OSError:
            _listed.pop(_named(path.parent), None)  # the next writer looks again
        if opened is not None:
            os.close(opened)


def _make_draft(path: Path, mode: int) -> tuple[Path, int]:
    """A draft, and an open file that holds its lock."""
    while True:
        draft = path.with_name(f".{path.name}.{_this_host()}{secrets.token_hex(4)}")
        try:
            opened = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, mode)
        except FileExistsError:
            continue
        # Whoever looks for dead drafts may have been faster than the lock: then it deletes this one.
        if _lock(opened) is not False and draft.exists():
            return draft, opened
        os.close(opened)


def delete_dead_drafts(folder: Path, name: str | None = None, *, anew: bool = False) -> None:
    """Delete the drafts of a file, or of all files in a folder of ours, whose writers were killed.

    A large folder is listed once in a while only, since many small files are written beside many others; `anew` lists
    it now.
    """
    key, now = _named(folder), time.monotonic()
    due, drafts = _listed.get(key, (now, {}))
    if now >= due or anew:
        drafts = {}
        try:
            found = os.listdir(folder)
        except OSError:
            return
        for each in found:
            if (match := _DRAFT.fullmatch(each)) is not None:
                drafts.setdefault(match[1], []).append((each, match[2]))
        if len(_listed) >= _FOLDERS:
            _listed.clear()
        end = time.monotonic()
        _listed[key] = end + min(_LISTED_FOR * (end - now), _LONGEST), drafts
    for of in [*drafts] if name is None else [name]:
        for draft, host in drafts.pop(of, []):
            # What cannot be opened or deleted is left for others.
            with contextlib.suppress(OSError):
                _delete_dead(folder / draft, host == _this_host())


_listed: dict[str, tuple[float, dict[str, list[tuple[str, str]]]]] = {}
"""By folder: when it is to be listed again, and the drafts in it by the file that they are of, each with its host."""


def _delete_dead(draft: Path, of_this_host: bool) -> None:
    opened = os.open(draft, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found, locked = os.fstat(opened), _lock(opened)
        is_dead = (locked and of_this_host) or time.time() - found.st_mtime > _ABANDONED
        if locked is False or not is_dead or not stat.S_ISREG(found.st_mode):
            return
        if os.path.samestat(found, draft.lstat()):
            draft.unlink()
    finally:
        os.close(opened)


def _lock(opened: int) -> bool | None:
    """Lock an open file: whether nobody else has it; None where there are no locks."""
    try:
        import fcntl  # not on every system

        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _named(folder: Path) -> str:
    return os.path.abspath(folder)


@functools.cache
def _this_host() -> str:
    """Eight digits of this host since it was started: names of hosts are not unique, and locks end with the system."""
    try:
        name = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        name = platform.node()
    return hashlib.blake2b(name.encode(), digest_size=4).hexdigest()


# -- notes -------------------------------------------------------------------------------------------------------------


class DamagedNoteError(FencepostError):
    """A note that is not as it was written."""


def write_note(path: Path, content: Mapping[str, Any]) -> None:
    """Write a note, in place of any other of that name."""
    write_whole(path, sealed_note(content))


def read_note(path: Path, needed: Mapping[str, type], remedy: str) -> dict[str, Any] | None:
    """The note of a file; None where there is none.

    Args:
        path: the file.
        needed: what it has at least, with types.
        remedy: what to do where it is damaged.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    return opened_note(content, path, needed, remedy)


def sealed_note(content: Mapping[str, Any]) -> str:
    """An object as JSON in one line, with a checksum of all that is before it."""
    content = json.loads(json.dumps(content))  # as it will be read: keys are texts
    return json.dumps({**content, "checksum": _digest_of(content)}, ensure_ascii=False)


def opened_note(text: bytes, place: object, needed: Mapping[str, type], remedy: str) -> dict[str, Any]:
    """The object that `sealed_note` wrote. What was written before there were checksums is read as it is."""
    damaged = DamagedNoteError(f"{place} is damaged", "the file as it was written", remedy)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(content, dict):
        raise damaged
    if "checksum" in content and content.pop("checksum") != _digest_of(content):
        raise damaged
    if not all(type(content.get(name)) is kind for name, kind in needed.items()):
        raise damaged
    return content


def _digest_of(content: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
