"""How much memory an answer may take.

`FENCEPOST_ANSWER_MEMORY` sets it, such as "2 GiB". Without it, it is a quarter of the memory that is free: of the
machine, or of the control groups that the process is in.
"""

import os
import re
from pathlib import Path, PurePosixPath

from fencepost.errors import FencepostError

SETTING = "FENCEPOST_ANSWER_MEMORY"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_UNKNOWN = 2**30
"""Bytes where nothing says how much is free."""


class AnswerTooLargeError(FencepostError):
    """An answer that has no room. Nothing has changed; fewer rows at once may fit."""


def answer_limit() -> int:
    """Bytes that an answer may take."""
    given = os.environ.get(SETTING)
    return free_memory() // 4 if given is None else parse_size(given)


def parse_size(text: str, setting: str = SETTING) -> int:
    """Bytes that a text such as "512 MiB" names; `setting` is what it was given for."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in _UNITS or not float(found[1]):
        raise FencepostError(f"{setting}={text!r}", "a size such as 2 GiB or 500 MB", "Correct it, or leave it out.")
    return max(1, int(float(found[1]) * _UNITS[found[2].upper()]))


def free_memory() -> int:
    """Bytes that this process could still take, as far as the system says."""
    free = [bytes for bytes in (_free_of_machine(), _free_of_group()) if bytes is not None]
    return min(free, default=_UNKNOWN)


def _free_of_machine() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+([0-9]+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1]) * 1024


def _free_of_group(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """What the control group of this process, and every group around it, leaves; None where none has a limit.

    Systemd puts a unit into a group below the root, of version 2 or 1; a container sees its own group as the root.
    """
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        lines = []
    free = []
    for _, controllers, path in (line for line in lines or [["0", "", "/"]] if len(line) == 3):
        if not controllers:
            tops, names = (root, root / "unified"), _VERSION_2
        elif "memory" in controllers.split(","):
            tops, names = (root / "memory", root / controllers), _VERSION_1
        else:
            continue
        inner = PurePosixPath(path.lstrip("/"))
        places = [top / each for top in tops for each in (inner, *inner.parents)]
        free += [left for place in places if (left := _left_in(place, *names)) is not None]
    return min(free, default=None)


_VERSION_2: tuple[str, tuple[str, ...], str] = ("memory.current", ("memory.max", "memory.high"), "inactive_file")
_VERSION_1: tuple[str, tuple[str, ...], str] = (
    "memory.usage_in_bytes",
    ("memory.limit_in_bytes",),
    "total_inactive_file",
)


def _left_in(group: Path, usage: str, limits: tuple[str, ...], cache: str) -> int | None:
    """Bytes that one group leaves; files that the system only keeps in case they are read again are no use of it."""
    found = [int(text) for text in (_read(group / name) for name in limits) if text.isdecimal()]
    used = _read(group / usage)
    if not found or not used.isdecimal():
        return None
    kept = re.search(rf"^{cache} ([0-9]+)$", _read(group / "memory.stat"), re.MULTILINE)
    return max(0, min(found) - int(used) + (int(kept[1]) if kept else 0))


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""


def show_size(count: float) -> str:
    """A number of bytes, for people."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{count:.0f} {units[0]}" if count >= 100 or units[0] == "bytes" else f"{count:.1f} {units[0]}"
