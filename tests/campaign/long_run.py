"""Long run: after many updates and publishes, memory, files and time are what they were at the start."""

import functools
import os
import random
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.campaign.trial import Trial, require

UPDATES = 20_000
FEW_UPDATES, FEW_PUBLISHES = 300, 60
"""In the short run, which looks at files and memory: times of so few steps say nothing."""
_NUMBERS = np.random.default_rng(1).random(20_000)
# The long form has 10,000 publishes, and a growth of 1.1: see CONTRIBUTING.md.
PUBLISHES = int(os.environ.get("FENCEPOST_CAMPAIGN_PUBLISHES", "1_000"))
GROWTH = float(os.environ.get("FENCEPOST_CAMPAIGN_GROWTH", "1.5"))
"""So much more may the last hundredth take than the third one: before that, kernels compile and caches fill."""
PATIENCE = max(1_200.0, PUBLISHES * 0.5)


YARDSTICK = 4
"""A fixed piece of work is timed beside every so many steps: other load makes both slower."""


class Sample(NamedTuple):
    """What one step takes."""

    time: float
    """Of the processor, in pieces of fixed work."""
    memory: int
    files: int


def measure(steps: int, step: Callable[[int], None], count_files: Callable[[], int]) -> list[Sample]:
    """Take a sample of every step; files are counted once in a hundredth."""
    seconds, others, yards = [], [], []
    files, hundredth = 0, max(1, steps // 100)
    for number in range(steps):
        seconds.append(_seconds_of(lambda: step(number)))  # noqa: B023
        if number % YARDSTICK == 0:
            yards.append(_seconds_of(_work))
        if number % hundredth == 0:
            files = count_files()
        others.append((_memory(), files))
    samples = []
    for number, (taken, (memory, counted)) in enumerate(zip(seconds, others, strict=True)):
        beside = number // hundredth * hundredth // YARDSTICK
        near = sorted(yards[beside : beside + max(1, hundredth // YARDSTICK)])
        samples.append(Sample(taken / near[len(near) // 2], memory, counted))
    return samples


def _seconds_of(step: Callable[[], object]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def _work() -> object:
    """Half a millisecond of Python and of arrays, as what is measured has both."""
    return [dict.fromkeys(range(20)) for _ in range(200)], np.sort(_NUMBERS)


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def require_flat(samples: list[Sample], few: bool = False) -> None:
    """The last hundredth takes no more than an early one, by medians; of few samples the last fifth."""
    length = len(samples) // (5 if few else 100)
    early, late = samples[2 * length : 3 * length], samples[-length:]
    for number, name in enumerate(Sample._fields):
        if few and name == "time":
            continue
        first, last = (sorted(sample[number] for sample in part)[length // 2] for part in (early, late))
        print(f"{name}: {first} at the start, {last} at the end, {last / max(first, 1e-6):.3f}x")
        require(last <= GROWTH * max(first, 1e-6), f"{name}: {first} at the start, {last} at the end")


def try_updates(seed: int, updates: int = UPDATES) -> int:
    """A monitor with objects that come and go and rules that change."""
    rng = random.Random(seed)  # noqa: S311
    rules = fp.Rules()
    for id in range(50):
        rules.add(id, f"x BETWEEN {id} AND {id + 5}", detect="enter,exit")
    monitor = fp.Monitor(rules, object="o", time="t", timeout=100)

    def step(number: int) -> None:
        objects = [f"o{number // 50 + n}" for n in range(20)]
        monitor.update({"o": objects, "t": [number] * 20, "x": [rng.random() * 60 for _ in objects]})
        if number % 10 == 0:
            id = rng.randrange(50)
            monitor.replace(id, f"x BETWEEN {id} AND {id + rng.randrange(1, 9)}", detect="enter,exit")
        if number % 50 == 0:
            monitor.advance(number)

    require_flat(measure(updates, step, lambda: 0), updates < UPDATES)
    return updates


def try_publishes(seed: int, publishes: int = PUBLISHES) -> int:
    """A directory that is published to and collected."""
    rng = random.Random(seed)  # noqa: S311
    rules = fp.Rules()
    for id in range(200):
        rules.add(id, f"x > {id}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)

        def step(number: int) -> None:
            rules.replace(rng.randrange(200), f"x > {number}")
            rules.publish(path)
            if number % 5 == 0:
                VersionDirectory(path).collect(timedelta(0), fresh_for=timedelta(0))

        samples = measure(publishes, step, lambda: sum(1 for _ in path.rglob("*")))
        require_flat(samples, publishes < PUBLISHES)
    return publishes


PROMISE = "long run"
TRIALS = [
    Trial("long.updates", PROMISE, "20,000 updates with rules that change", try_updates, long=True, patience=1_200),
    Trial(
        "long.publishes",
        PROMISE,
        f"{PUBLISHES:,} publishes and collections",
        try_publishes,
        long=True,
        patience=PATIENCE,
    ),
    Trial(
        "long.few-updates",
        PROMISE,
        f"{FEW_UPDATES:,} updates: files and memory",
        functools.partial(try_updates, updates=FEW_UPDATES),
    ),
    Trial(
        "long.few-publishes",
        PROMISE,
        f"{FEW_PUBLISHES} publishes: files and memory",
        functools.partial(try_publishes, publishes=FEW_PUBLISHES),
    ),
]
