"""Times contestants in interleaved rounds, and says on which machine."""

import gc
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_tell: ContextVar[Callable[[str], None]] = ContextVar("tell", default=lambda _: None)


@contextmanager
def telling(listener: Callable[[str], None]) -> Iterator[None]:
    """Let someone know who is measured: a figure of the papers' own size may take half an hour."""
    before = _tell.set(listener)
    try:
        yield
    finally:
        _tell.reset(before)


def interleaved(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 5,
    measure: Callable[[Callable[[], object]], float] | None = None,
) -> dict[str, float]:
    """Median seconds of each contestant; every round runs all of them, so that noise hits all alike.

    Args:
        contestants: what to run, by name; each runs once unmeasured before.
        rounds: how often.
        measure: runs one and tells its seconds; `once` if none is given.
    """
    measure = measure or once
    times: dict[str, list[float]] = {name: [] for name in contestants}
    tell = _tell.get()
    for name, contestant in contestants.items():
        tell(f"{name}, unmeasured")
        contestant()
    gc.disable()
    for number in range(1, rounds + 1):
        for name, contestant in contestants.items():
            tell(f"{name}, {number} of {rounds}")
            times[name].append(measure(contestant))
    gc.enable()
    return {name: statistics.median(taken) for name, taken in times.items()}


def once(contestant: Callable[[], object]) -> float:
    """Seconds of one run."""
    begin = time.perf_counter()
    contestant()
    return time.perf_counter() - begin


def computing(contestant: Callable[[], object]) -> float:
    """Seconds that one run on this thread keeps a core busy: what others do on the machine does not count."""
    begin = time.thread_time()
    contestant()
    return time.thread_time() - begin


def cpu_of(contestant: Callable[[], object]) -> float:
    """CPU seconds that one run takes in this process and all that it has started, such as a JVM; needs /proc."""
    begin = _tree_seconds()
    contestant()
    return _tree_seconds() - begin


def cpu_tick() -> float:
    """The least that `cpu_of` can tell apart, in seconds."""
    return 1 / os.sysconf("SC_CLK_TCK")


def _tree_seconds() -> float:
    """CPU seconds that this process and all its descendants have used so far."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        ticks[int(process)] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(int(process))
    total, open_ends = 0, [os.getpid()]
    while open_ends:
        process_id = open_ends.pop()
        total += ticks.get(process_id, 0)
        open_ends += children.get(process_id, [])
    return total * cpu_tick()


def machine() -> dict[str, str | int]:
    """The processor, its cores, and the versions of what runs on it."""
    packages = {name: importlib.metadata.version(name) for name in ("fencepost", "numpy", "numba")}
    return {"cpu": _processor(), "cores": os.cpu_count() or 1, "python": platform.python_version(), **packages}


def _processor() -> str:
    """The name of the processor, as far as the system tells it."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
