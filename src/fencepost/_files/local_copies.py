"""Files of arrays in memory: mapped where they are, or, if that is a URL, from a copy on this host.

    CACHE/fencepost-UID/DIGEST      a verified copy of the arrays of one snapshot
    CACHE/fencepost-UID/HEX.draft   one that is being made
    CACHE/fencepost-UID/lock-7      held while a copy whose digest begins with 7 is made, found or deleted

CACHE is ``FENCEPOST_CACHE``, or where temporary files go. Nobody else may write to the directory in it. Whoever has
mapped a copy holds a shared lock on it, which goes with the map; of the others, those that were used longest ago are
deleted.
"""

import contextlib
import mmap
import os
import re
import stat
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from fencepost._files.storage import Place, download
from fencepost.errors import FencepostError

_KEPT = 16
"""Copies that stay although no process has mapped them."""
_COPY = re.compile(r"[0-9a-f]{32}(\.draft)?")
"""The names of copies, which are digests, and of drafts."""


def mapped(file: Path, held: bool = False) -> npt.NDArray[np.uint8]:
    """A file's bytes, shared with everyone who maps it until written to, which nobody does.

    A copy that is `held` is kept for as long as the bytes are.
    """
    with file.open("rb") as opened:
        if held:
            _lock(opened, shared=True)  # the map has the same open file, and so the lock
        if not os.fstat(opened.fileno()).st_size:
            return np.zeros(0, np.uint8)
        return np.frombuffer(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def map_copy(
    file: Place, digest: str, verify: bool, check: Callable[[npt.NDArray[np.uint8], bool], None]
) -> npt.NDArray[np.uint8]:
    """The bytes of a file at a URL, copied once per host; a copy that was damaged is made anew.

    A new copy is checked byte by byte, one that is there only where `verify` says so. `check` refuses wrong bytes; its
    second argument says whether to look at each.
    """
    copy = own_directory() / digest
    with _locked(digest):
        try:
            memory = mapped(copy, held=True)
            check(memory, verify)
            os.utime(copy)
        except (FileNotFoundError, FencepostError):
            with make_draft() as draft:
                download(file, draft)
                memory = mapped(draft, held=True)
                check(memory, True)
                draft.replace(copy)
    _delete_unused()
    return memory


def keep_copy(draft: Path, digest: str) -> None:
    """What was drafted here and uploaded need not be copied back."""
    with _locked(digest):
        draft.replace(own_directory() / digest)
    _delete_unused()


@contextlib.contextmanager
def make_draft() -> Iterator[Path]:
    """An empty file beside the copies; deleted in the end, unless it has become one."""
    draft = own_directory() / f"{uuid.uuid4().hex}.draft"
    with draft.open("xb") as opened:
        _lock(opened, shared=True)
        try:
            yield draft
        finally:
            draft.unlink(missing_ok=True)


def own_directory() -> Path:
    """The directory of this user's copies, and of what else is kept for later, made if it is missing.

    Anybody may make things where temporary files go. Copies are mapped by their names, so a directory that is a link,
    belongs to somebody else or may be written by others is refused.
    """
    around = Path(os.environ.get("FENCEPOST_CACHE") or tempfile.gettempdir())
    cache = around / f"fencepost-{os.getuid()}"
    try:
        around.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            cache.mkdir(mode=0o700)
        found = cache.lstat()
    except OSError as error:
        raise _no_cache(cache, f"cannot be made ({error.strerror})") from None
    if not stat.S_ISDIR(found.st_mode):
        raise _no_cache(cache, "is a link or a file")
    if found.st_uid != os.getuid():
        raise _no_cache(cache, "belongs to somebody else")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise _no_cache(cache, "may be written by others")
    return cache


def _no_cache(cache: Path, problem: str) -> FencepostError:
    return FencepostError(
        f"{cache} {problem}",
        "a directory of this user's for copies of remote rules",
        "Remove it, or name another place in the environment variable FENCEPOST_CACHE.",
    )


@contextlib.contextmanager
def _locked(digest: str, wait: bool = True) -> Iterator[None]:
    """Alone with the copies whose digests begin like this one."""
    with (own_directory() / f"lock-{digest[0]}").open("ab") as opened:
        _lock(opened, wait=wait)
        yield


def _lock(opened: IO[Any], shared: bool = False, wait: bool = True) -> None:
    """Lock an open file; if it cannot be at once and should not wait, an OSError."""
    import fcntl  # not on every system, and only for copies

    fcntl.flock(opened, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


def _delete_unused() -> None:
    """Delete the copies, and drafts of the dead, that were used longest ago and that no process has."""
    used = []
    for copy in own_directory().iterdir():
        with contextlib.suppress(FileNotFoundError):
            found = copy.lstat()
            if _COPY.fullmatch(copy.name) and stat.S_ISREG(found.st_mode):
                used.append((found.st_mtime, copy))
    for _, copy in sorted(used)[:-_KEPT]:
        # Any failure means that somebody has it, or was faster.
        with contextlib.suppress(OSError), _locked(copy.name, wait=False), copy.open("rb") as opened:
            _lock(opened, wait=False)
            copy.unlink()
