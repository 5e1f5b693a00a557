"""Exactly once under kill -9: writers and streams are killed at random moments."""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.campaign.trial import Trial, require

KILLS = 4
"""Of one try."""
TRIGGERS = 14
ROWS = {"price": [float(n) for n in range(100)]}


def kill_after(seconds: float, work: Callable[[], None]) -> None:
    """Let another process work, and kill it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(1)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _publish_on(path: Path, number: int) -> int:
    """A version whose answer tells its number."""
    rules = fp.Rules()
    rules.add(1, f"price < {(number - 1) % 99 + 1}")
    return rules.publish(path)


def try_publisher(seed: int) -> int:
    """What a publisher has published stays, whenever it is killed, and the next one goes on."""
    rng = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "published"
        _publish_on(path, 1)
        directory = VersionDirectory(path)
        for _ in range(KILLS):

            def publish_for_ever() -> None:
                while True:
                    _publish_on(path, (directory.latest() or 0) + 1)

            before = directory.versions()
            kill_after(rng.uniform(0.01, 0.4), publish_for_ever)
            after = directory.versions()
            require(after[: len(before)] == before, f"of versions {before} only {after} are left")
            for version in after[-3:]:
                held = int(directory.load(version).match(ROWS).counts.sum())
                require(held > 0, f"version {version} holds for nothing")
            number = _publish_on(path, 7)
            require(
                number > after[-1] and directory.latest() == number, f"the next version is {number} after {after[-1]}"
            )
            require(directory.load().match(ROWS).counts.sum() == 7, "the next version is another")
            require(directory.markers.newest()[0] == number, "streams do not hear of the next version")
    return KILLS


def try_importer(seed: int) -> int:
    """A book has all rules of a file or none, whenever its writer is killed."""
    rng = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/book.db"
        for round_ in range(KILLS):
            lines = [f'{{"id": {id}, "condition": "price > {round_}"}}' for id in range(3_000)]
            (folder / "rules.jsonl").write_text("\n".join(lines))

            def import_rules() -> None:
                with fp.RuleBook(url) as book:
                    book.import_file(folder / "rules.jsonl", existing="replace")

            kill_after(rng.uniform(0.1, 1.0), import_rules)
            with fp.RuleBook(url) as book:
                found = Counter(rule.condition for rule in book)
            require(len(found) <= 1 and set(found.values()) <= {3_000}, f"the book has parts of files: {found}")
    return KILLS


def _try_operator(operator: str, seed: int) -> int:
    """A stream with rules that change is killed: each answer once, as recomputed from the record."""
    from rich.progress import Progress

    from tests.spark.soak import SOAKS

    with tempfile.TemporaryDirectory() as folder:
        soak = SOAKS[operator](Path(folder), TRIGGERS, KILLS, seed)
        soak.run(Progress(disable=True))
        got, expected = Counter(soak.events()), Counter(soak.recomputed())
        lost, more = (expected - got).total(), (got - expected).total()
        require(not lost and not more, f"{lost} answers lost, {more} too many; {soak.last_words()}")
    return sum(got.values())


PROMISE = "exactly once"
TRIALS = [
    Trial("kills.publisher", PROMISE, "kill -9 of a publisher at random moments", try_publisher),
    Trial("kills.importer", PROMISE, "kill -9 of a book's writer at random moments", try_importer),
    *(
        Trial(
            f"kills.{name}",
            PROMISE,
            f"kill -9 of a stream of {operator} with live rules",
            partial(_try_operator, operator),
            long=True,
            patience=1_200,
        )
        for name, operator in (
            ("stream", "watch"),
            ("damped", "damped"),
            ("bands", "bands"),
            ("match", "match"),
        )
    ),
]
