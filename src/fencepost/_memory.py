"""How much memory an answer may take.

`FENCEPOST_ANSWER_MEMORY` sets it, such as "2 GiB". Without it, it is a quarter of the memory that is free: of the
machine, or of the control group that the process is in.
"""

import os
import re
from pathlib import Path

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


def _free_of_group(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Version 2 of control groups; None where there is no limit."""
    try:
        most, now = ((root / name).read_text().strip() for name in ("memory.max", "memory.current"))
        return max(0, int(most) - int(now)) if most.isdecimal() else None
    except (OSError, ValueError):
        return None


def show_size(count: float) -> str:
    """A number of bytes, for people."""
    units = ["bytes", "KB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{count:.0f} {units[0]}" if count >= 100 or units[0] == "bytes" else f"{count:.1f} {units[0]}"
