"""Machine code before it is needed: small jobs that call what rules call, each in a process of its own.

`warm` runs them beside each other, as many as there are cores. What they compile is kept as always, for this very
processor; or, for a baseline of processors, as files that a package or an image brings along.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fencepost.errors import FencepostError

_ROWS = 700
"""More than it takes for a grid of boxes, and for borders."""


class Warmed(NamedTuple):
    """What became of it."""

    kept: int
    """Kernels that were there already: in the cache, or in the package."""
    compiled: int
    seconds: float


def warm(jobs: Sequence[str] | None = None, processor: str | None = None, into: Path | None = None) -> Warmed:
    """Compile what rules need, in as many processes as there are cores.

    Args:
        jobs: some of `JOBS`; all of them if not given.
        processor: a baseline, such as "x86-64-v3", whose code is put into files; else code for this processor is kept.
        into: the package that the files belong to; this one if not given.
    """
    from fencepost.compiled import counts, fitting_baselines_here

    if processor is not None and processor not in fitting_baselines_here():
        raise FencepostError(
            f"the processor {processor}",
            f"one of {', '.join(fitting_baselines_here()) or 'none'}, whose code this machine can run",
            "Make its code on a machine that has these instructions.",
        )
    began = time.monotonic()
    names = [*(JOBS if jobs is None else jobs)]
    with _environment(processor) as (environment, cache):
        total = _run_all(names, environment)
        if processor is not None:
            _bring(cache, processor, into)
    assert set(total) <= set(counts)
    return Warmed(total["kept"] + total["brought"], total["compiled"], time.monotonic() - began)


@contextmanager
def _environment(processor: str | None) -> Iterator[tuple[dict[str, str], Path]]:
    """The environment of jobs, and where they keep code if it is for a baseline."""
    with tempfile.TemporaryDirectory(prefix="fencepost-warm-") as folder:
        own = dict(os.environ)
        if processor is not None:
            own |= {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": folder}
            own["NUMBA_DISABLE_INTEL_SVML"] = "1"  # a library that other machines need not have
        home = str(Path(__file__).parents[1])
        own["PYTHONPATH"] = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
        yield own, Path(folder)


def _run_all(names: Sequence[str], environment: Mapping[str, str]) -> dict[str, int]:
    """Run jobs, several at once; what they found and compiled, together."""
    waiting, running, total = list(reversed(names)), list[tuple[str, subprocess.Popen[str]]](), dict[str, int]()
    most = max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        while waiting or running:
            while waiting and len(running) < most:
                name = waiting.pop()
                command = [sys.executable, "-m", __name__, name]
                running.append(
                    (
                        name,
                        subprocess.Popen(command, env=dict(environment), stdout=subprocess.PIPE, text=True),  # noqa: S603
                    )
                )
            ended = [each for each in running if each[1].poll() is not None]
            if not ended:
                time.sleep(0.05)
            for name, process in ended:
                running.remove((name, process))
                printed = process.communicate()[0]
                if process.returncode != 0:
                    raise FencepostError(
                        f"exit code {process.returncode} of the job {name!r} that compiles", "0", "See its words above."
                    )
                for kind, number in json.loads(printed.splitlines()[-1]).items():
                    total[kind] = total.get(kind, 0) + number
    finally:
        for _, process in running:
            process.kill()
            process.wait()
    return total


def _bring(cache: Path, processor: str, into: Path | None) -> None:
    """Put compiled files where a package looks for them, in place of those that were there."""
    from numba.core.caching import UserProvidedCacheLocator

    from fencepost.compiled import code_folder

    home = Path(__file__).parent
    target = Path(str(code_folder(processor, home if into is None else into)))
    if target.exists():
        shutil.rmtree(target)
    for folder in [home / "indexes", *(each for each in (home / "indexes").rglob("*") if each.is_dir())]:
        found = cache / UserProvidedCacheLocator.get_suitable_cache_subpath(str(folder / "kernels.py"))
        files = [*found.glob("*.nb[ic]")]
        if files:
            place = target / folder.relative_to(home)
            place.mkdir(parents=True)
            for file in files:
                shutil.copyfile(file, place / file.name)


# -- jobs --------------------------------------------------------------------------------------------------


def _points(seed: int, rows: int = _ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "o": rng.integers(0, 90, rows),
        "t": np.arange(rows) + seed * rows,
        "x": rng.random(rows) * 100,
        "y": rng.random(rows) * 100,
        "n": rng.integers(0, 100, rows),
        "s": [f"k{each}" for each in rng.integers(0, 5, rows)],
    }


def _box_rules(count: int = _ROWS, **options: Any) -> Any:
    from fencepost.rules import Rules

    rules = Rules()
    for number, (x, y, n) in enumerate(np.random.default_rng(count).integers(0, 90, (count, 3)).tolist()):
        if number % 5 == 0:
            condition = f"x BETWEEN {x} AND {x + 5} AND y BETWEEN {y} AND {y + 5}"
        elif number % 5 == 1:
            condition = f"x > {x} AND x <= {x + 3} AND s = 'k{number % 4}'"
        elif number % 5 == 2:
            condition = f"n BETWEEN {n} AND {n + 4}"
        elif number % 5 == 3:
            condition = f"x BETWEEN {x} AND {x + 2} OR s IN ('k1', 'k2') AND y < {y / 9}"
        else:
            condition = f"x BETWEEN {x} AND {x + 5} AND y BETWEEN {y} AND {y + 5} AND s = 'k{number % 4}'"
        rules.add(number, condition, **options)
    return rules


def first() -> None:
    """What the first match of a process calls."""
    from fencepost.rules import Rules

    rules = Rules()
    rules.add(1, "x BETWEEN 40 AND 50 AND s = 'k1'")
    rules.compile().match(_points(1, 3))
    rules.add(2, "x > 45.5 OR n < 3")
    rules.compile().match(_points(1, 3))


def match() -> None:
    """Batches of few and of many rows, saved and loaded rules, an edit."""
    from fencepost.snapshot import Snapshot

    rules = _box_rules()
    snapshot = rules.compile()
    for rows in (1, 20, _ROWS, 20_000):
        snapshot.match(_points(rows, rows))
    snapshot.match({name: values[:1] for name, values in _points(1).items()}).sets()
    rules.remove(7)
    rules.replace(8, "x > 4")
    rules.add(_ROWS + 1, "y < 4 OR n = 3")
    rules.compile().match(_points(3))
    again = Snapshot.from_bytes(snapshot.to_bytes())
    again.match(_points(2))


def tables() -> None:
    """Rules as a table, and one more of them."""
    from fencepost.rules import Rules

    rng = np.random.default_rng(1)
    low = rng.random(_ROWS)
    columns = {"id": np.arange(_ROWS), "low": low, "high": low + 1, "symbol": [f"k{each % 9}" for each in range(_ROWS)]}
    rules = Rules.from_table(columns, id="id", ranges={"x": ("low", "high")}, equal={"s": "symbol"})
    rules.compile().match(_points(1))
    rules.remove(3)
    rules.compile().match(_points(2))


def changes() -> None:
    """Indexes that change while they are asked: one interval, rule or box, and some at once."""
    from fencepost.indexes import Borders, BoxIndex, SliceList

    rng, many, few = np.random.default_rng(1), 2_000, 20
    lows, new = rng.random((many, 2)) * 100, np.arange(many, many + few)
    for groups in (None, np.arange(many) % 7):
        intervals = SliceList()
        intervals.insert_many(np.arange(many), lows[:, 0], lows[:, 0] + 5, groups=groups)
        intervals.insert_many(new, lows[:few, 1], lows[:few, 1] + 5, groups=None if groups is None else groups[:few])
        intervals.insert(10 * many, 40.0, 40.5, group=None if groups is None else 3)
        intervals.remove(7)
        intervals.remove_many(new)
        intervals.stab(lows[:, 0], groups=groups)
        borders = Borders()
        borders.insert_many(np.arange(many), lows[:, 0], lows[:, 0] + 5, groups=groups)
        borders.insert_many(new, lows[:few, 1], lows[:few, 1] + 5, groups=None if groups is None else groups[:few])
        borders.insert(10 * many, 40.0, 40.5, group=None if groups is None else 3)
        borders.remove(7)
        borders.crossings(lows[:, 0], lows[:, 1], before_groups=groups, after_groups=groups)
    boxes = BoxIndex(2)
    boxes.insert_many(np.arange(many), lows, lows + 5)
    boxes.insert_many(new, lows[:few], lows[:few] + 3)
    boxes.insert(10 * many, (1.0, 2.0), (3.0, 4.0))
    boxes.remove(7)
    boxes.remove_many(new)
    boxes.stab(lows)


def watch() -> None:
    """Objects: batches, single rows, every kind of detection, rules that change, a state that is saved."""
    from fencepost.monitor import Monitor

    for count, detect in ((_ROWS, "inside,enter,exit"), (60, "enter,exit,cross")):
        rules = _box_rules(count, detect=detect)
        names: dict[str, Any] = {"object": "o", "time": "t"}
        monitor = Monitor(rules, **names, timeout=10_000)
        for seed in range(2):
            monitor.update(_points(seed))
        monitor.update({name: values[:1] for name, values in _points(2).items()})
        point = {name: values[0] for name, values in _points(3).items()}
        for _ in range(2):
            monitor.update_one(int(point.pop("o", 1)), int(point.pop("t", 10_000)), **point)
        monitor.add(10_001, "x > 5 AND y < 3", detect=detect)
        monitor.replace(10_001, "x > 6", detect=detect)
        monitor.update(_points(20))
        monitor.remove(10_001)
        monitor.advance(30_000)
        monitor.inside(1)
        with tempfile.TemporaryDirectory() as folder:
            monitor.save(Path(folder) / "state")
            other = Monitor(rules, **names, timeout=10_000)
            other.restore(Path(folder) / "state")
            other.update(_points(50))


def few() -> None:
    """Few rows of objects that are here, as tables of few rows and as single ones."""
    import pyarrow as pa

    from fencepost.monitor import Monitor

    for damping in ({}, {"for_": 5}):
        rules = _box_rules(60, detect="inside,enter,exit")
        rules.add(1_000, "x > 3 OR s = 'k1' AND y < 9", detect="enter,exit", **damping)
        monitor = Monitor(rules, object="o", time="t")
        for seed, count in enumerate((_ROWS, 1, 20)):
            points = _points(seed, count) | {"o": np.arange(count)}
            monitor.update(pa.table({name: pa.array(values) for name, values in points.items()}))
        monitor.update_one(1, 3_000, x=1.0, y=3.0)


def bands() -> None:
    """Pairs of two streams."""
    from fencepost.monitor import Monitor
    from fencepost.rules import Rules

    for same in ("", " AND left.s = right.s"):
        rules = Rules()
        for number in range(4):
            rules.add(number, f"left.x - right.x BETWEEN {-1 - number} AND {number}{same}", detect="enter,exit,inside")
        monitor = Monitor(rules, object="o", time="t")
        for seed in range(2):
            left, right = ({**_points(2 * seed + side, 60)} for side in (0, 1))
            monitor.update(left=left)
            monitor.update(right=right)
            monitor.update(left=_points(8 + seed, 60), right=_points(9 + seed, 60))
        monitor.add(9, f"left.x - right.x < -90{same}", detect="enter,exit")
        monitor.replace(1, f"left.x - right.x > 80{same}", detect="enter,exit")
        monitor.remove(2)
        monitor.update(left=_points(30, 1))


def damping() -> None:
    """Rules whose events wait, for objects and for pairs."""
    from fencepost.monitor import Monitor
    from fencepost.rules import Rules

    kinds: list[dict[str, Any]] = [
        {"for_": 5, "detect": "enter,exit"},
        {"keep_firing_for": 9, "detect": "enter,exit"},
        {"cooldown": 20, "detect": "enter"},
        {"limit": 2, "detect": "enter,exit"},
        {"every": 10, "detect": "inside"},
        {"detect": "enter,exit,silent"},
    ]
    rules, pairs = Rules(), Rules()
    for number, options in enumerate(kinds):
        rules.add(number, f"x > {10 * number} AND y < 80", **options)
        if "silent" not in options["detect"]:
            pairs.add(number, f"left.x - right.x > {number}", **options)
    rules.add(10, "x > 50", stay="x > 45", detect="enter,exit")
    monitor = Monitor(rules, object="o", time="t", timeout=40)
    for seed in range(2):
        monitor.update(_points(seed))
    monitor.update_one(1, 3000, x=1.0, y=3.0)
    monitor.advance(4000)
    both = Monitor(pairs, object="o", time="t")
    for seed in range(2):
        both.update(left=_points(seed, 30), right=_points(seed + 1, 30))
    both.advance(4000)


JOBS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in (watch, bands, match, damping, changes, few, tables, first)  # what takes longest goes first
}
"""What is called, by name."""


def main(name: str) -> None:
    """Run one job; its last line says where code was from."""
    from fencepost.compiled import counts

    JOBS[name]()
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
