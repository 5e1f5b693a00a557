"""Work that is kept for the next process of this user: files beside the copies, never needed and checked when read.

    CACHE/fencepost-UID/OWNER-KEY.kept     32 and 32 hexadecimal digits

Beyond ``FENCEPOST_KEPT_BYTES``, 2 GiB by default, the files that were used longest ago are deleted; 0 keeps none. A
file that cannot be written or read is only work that has to be done again: nothing here is refused.
"""

import contextlib
import os
import re
import stat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fencepost._files.local_copies import mapped, own_directory
from fencepost._files.whole import PRIVATE, write_whole
from fencepost._memory import parse_size
from fencepost.errors import FencepostError

SETTING = "FENCEPOST_KEPT_BYTES"
_DEFAULT = 2 << 30
_NAME = re.compile(r"[0-9a-f]{32}-[0-9a-f]{32}\.kept|\.[0-9a-f]{32}-[0-9a-f]{32}\.kept\.[0-9a-f]{16}")
"""Of what is kept, and of drafts, which take room, too."""


def limit() -> int:
    """How many bytes are kept."""
    given = os.environ.get(SETTING, "").strip()
    if not given:
        return _DEFAULT
    return 0 if given == "0" else parse_size(given, SETTING)


def keep(owner: str, key: str, content: bytes) -> None:
    """Keep some work under the name of its owner and a key, in place of what was there."""
    most = limit()
    if len(content) > most:
        return
    with contextlib.suppress(OSError, FencepostError):
        write_whole(own_directory() / f"{owner}-{key}.kept", content, durable=False, mode=PRIVATE, ours=True)
        _delete_oldest(most)


def find_kept(owner: str) -> list[Path]:
    """What is kept of an owner, used last first."""
    try:
        found = [(file, used) for file, used, _ in _all() if file.name.startswith(owner)] if limit() else []
    except (OSError, FencepostError):
        return []
    return [file for file, _ in sorted(found, key=lambda each: -each[1])]


def read_kept(file: Path, use: bool = True) -> npt.NDArray[np.uint8] | None:
    """The bytes of a file, which then counts as used; None where another process has deleted it."""
    try:
        if use:
            os.utime(file)
        return mapped(file)
    except OSError:
        return None


def forget(file: Path) -> None:
    """Delete what is damaged."""
    with contextlib.suppress(OSError):
        file.unlink()


def _all() -> list[tuple[Path, float, int]]:
    """Every file with the time when it was used, and its bytes; only such as this user has made."""
    found = []
    for file in own_directory().iterdir():
        with contextlib.suppress(FileNotFoundError):
            there = file.lstat()
            if _NAME.fullmatch(file.name) and stat.S_ISREG(there.st_mode) and there.st_uid == os.getuid():
                found.append((file, there.st_mtime, there.st_size))
    return found


def _delete_oldest(most: int) -> None:
    kept = 0
    for file, _, size in sorted(_all(), key=lambda each: -each[1]):
        kept += size
        if kept > most:
            forget(file)
