"""No wrong index: scripts on every structure of the catalogue, and readers beside a writer."""

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from fencepost.indexes import (
    ACEI,
    BMQ,
    CEI,
    LCI,
    SCI,
    SSI,
    UI,
    VCR,
    BlockBands,
    Borders,
    BoxIndex,
    DiffRMQ,
    ISList,
    Linear,
    LinearBoxes,
    QuadraticBands,
    RTree,
    SliceList,
    StabbingBands,
)
from fencepost.indexes.contracts.checks import check_index
from tests.campaign.trial import DifferenceError, Trial, require

DOMAIN = (-7, 50)
SUBJECTS: dict[str, Callable[[], Any]] = {
    "UI": lambda: UI(domain=DOMAIN),
    "SCI": lambda: SCI(domain=DOMAIN, length=8),
    "LCI": lambda: LCI(domain=DOMAIN, length=8),
    "CEI": lambda: CEI(domain=DOMAIN, length=8),
    "CEI, closed": lambda: CEI(domain=DOMAIN, length=8, closed=True),
    "ACEI": lambda: ACEI(domain=DOMAIN, length=16, blocks=2),
    "ISList": ISList,
    "ISList, closed": lambda: ISList(closed=True),
    "Linear": Linear,
    "SliceList": lambda: SliceList(values="float64"),
    "VCR": lambda: VCR(domain=(DOMAIN, DOMAIN), length=8),
    "VCR, overlapping": lambda: VCR(domain=(DOMAIN, DOMAIN), length=8, overlap=True),
    "RTree": lambda: RTree(dimensions=2),
    "LinearBoxes": lambda: LinearBoxes(dimensions=2),
    "BoxIndex": lambda: BoxIndex(dimensions=2, values="float64"),
    "BoxIndex, three axes": lambda: BoxIndex(dimensions=3, values="float64"),
    "BMQ": lambda: BMQ(dimensions=1),
    "BMQ, two axes": lambda: BMQ(dimensions=2),
    "DiffRMQ": lambda: DiffRMQ(ISList()),
    "Borders": lambda: Borders(values="float64"),
    "Borders, two axes": lambda: Borders(2, values="float64"),
    "QuadraticBands": QuadraticBands,
    "StabbingBands": StabbingBands,
    "BlockBands": BlockBands,
    "SSI": SSI,
}
SCRIPTS = 10
CHANGES = 60
HELD = 300


def try_contracts(seed: int) -> int:
    """Scripts on one structure; the next seed takes the next one."""
    make = list(SUBJECTS.values())[seed % len(SUBJECTS)]
    try:
        check_index(make, scripts=SCRIPTS, seed=seed * SCRIPTS)
    except AssertionError as error:
        raise DifferenceError(str(error)) from error
    return SCRIPTS * 25


class Readers:
    """Threads that ask while a writer changes an index: each answer is that before or after some change.

    Changes are numbered. A reader notes the number before it asks and after: the answer must be that of a state between
    the two.
    """

    def __init__(self, index: Any, points: Any, answers: Callable[[dict[int, Any]], list[frozenset[int]]]) -> None:
        self.index, self.points, self.answers = index, points, answers
        self.held: dict[int, Any] = {}
        self.states: list[list[frozenset[int]]] = [answers({})]
        self.started = 0
        """Changes that were begun: their states are known before they begin."""
        self.finished = 0
        self.done = False
        self.wrong: list[str] = []
        self.asked = 0

    def change(self, held: dict[int, Any], apply: Callable[[], None]) -> None:
        self.states.append(self.answers(held))
        self.held = held
        self.started += 1
        apply()
        self.finished += 1

    def read(self) -> None:
        while not self.done and not self.wrong:
            first = self.finished
            try:
                found = [frozenset(row.tolist()) for row in self.index.stab(self.points)]
            except Exception as error:
                self.wrong.append(f"a reader got {type(error).__name__}: {error}")
                return
            last = self.started
            if found not in self.states[first : last + 1]:
                self.wrong.append(f"an answer between changes {first} and {last} is of no state: {found}")
            self.asked += 1

    def run(self, write: Callable[[], None]) -> int:
        threads = [threading.Thread(target=self.read) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            write()
        finally:
            self.done = True
            for thread in threads:
                thread.join()
        require(not self.wrong, "; ".join(self.wrong[:1]))
        return self.asked


def _try_readers(seed: int, index: Any, axes: int) -> int:
    rng = random.Random(seed)  # noqa: S311
    points = np.array([[rng.randrange(100) for _ in range(axes)] for _ in range(12)], np.float64)

    def answers(held: dict[int, Any]) -> list[frozenset[int]]:
        return [
            frozenset(
                id
                for id, (low, high) in held.items()
                if all(start <= value < end for start, value, end in zip(low, point, high, strict=True))
            )
            for point in points.tolist()
        ]

    def box() -> tuple[list[float], list[float]]:
        low = [float(rng.randrange(90)) for _ in range(axes)]
        return low, [start + rng.randrange(1, 60) for start in low]

    def bare(corners: Any) -> Any:
        return corners if axes > 1 else [corner[0] for corner in corners]

    def write() -> None:
        for _ in range(CHANGES):
            held = dict(readers.held)
            gone = [id for id in held if rng.random() < 0.3]
            if held and rng.random() < 0.4:
                gone = gone or [next(iter(held))]
                for id in gone:
                    del held[id]
                readers.change(held, lambda gone=gone: index.remove_many(gone))  # type: ignore[misc]
            else:
                new = {id: box() for id in rng.sample(range(HELD), rng.choice([1, 5, 60])) if id not in held}
                lows, highs = [each[0] for each in new.values()], [each[1] for each in new.values()]
                readers.change(
                    held | new,
                    lambda new=new, lows=lows, highs=highs: index.insert_many(list(new), bare(lows), bare(highs)),  # type: ignore[misc]
                )

    readers = Readers(index, points if axes > 1 else points[:, 0], answers)
    return readers.run(write)


def try_interval_readers(seed: int) -> int:
    """SliceList with two readers."""
    return _try_readers(seed, SliceList(values="float64"), 1)


def try_box_readers(seed: int) -> int:
    """BoxIndex with two readers."""
    return _try_readers(seed, BoxIndex(dimensions=2, values="float64"), 2)


PROMISE = "no wrong index"
TRIALS = [
    Trial("indexes.contracts", PROMISE, "scripts of changes and questions on every structure", try_contracts),
    Trial(
        "indexes.slice-list-readers",
        PROMISE,
        "two threads that ask a SliceList beside its writer",
        try_interval_readers,
    ),
    Trial("indexes.box-index-readers", PROMISE, "two threads that ask a BoxIndex beside its writer", try_box_readers),
]
