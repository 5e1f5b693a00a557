"""What publishing would change: told by what has changed since, it equals a comparison of all rules."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fencepost.book import RuleBook
from fencepost.published import VersionDirectory
from fencepost.published.difference import compare_versions
from fencepost.rules.faults import RuleFault
from fencepost.snapshot import Snapshot
from tests.effort import seeds

KINDS = ("added", "edited", "removed", "paused", "unchanged")


def beyond(snapshot: Snapshot) -> dict[int, str]:
    """As for a clock: rules that cannot be used, whatever the book says."""
    ids = snapshot.rules.ids[snapshot.in_force]
    return {id: "no clock" for id in ids.tolist() if id % 11 == 5 and snapshot.version % 3}


@pytest.mark.parametrize("seed", seeds(25))
def test_it_equals_a_comparison_of_all_rules(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    url, directory = f"sqlite:///{tmp_path}/rules.db", VersionDirectory(tmp_path / "published")
    published = tmp_path / "published"
    book, unusable = RuleBook(url, author="ann"), beyond if seed % 2 else None

    def edit() -> None:
        number, kind = int(rng.integers(40)), rng.choice(["put", "put", "put", "faulty", "remove", "pause", "resume"])
        there = number in book
        text = f"{'prcie' if kind == 'faulty' else 'price'} > {int(rng.integers(5))}"
        if kind in ("put", "faulty"):
            (book.replace if there else book.add)(number, text)
        elif there:
            getattr(book, kind)(number)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book.add(0, "price > 0")
        book.add(1, "price > 1")
        for step in range(25):
            for _ in range(int(rng.integers(0, 6))):
                edit()
            if rng.random() < 0.2:
                book.close()
                book = RuleBook(url, author="ann")  # which remembers nothing
            told: Any = book.preview(published, {"price": "double"}, unusable=unusable)
            assert book.preview(published, {"price": "double"}, unusable=unusable) == told
            before = directory.latest()
            faults: list[RuleFault] = []
            number = book.publish(published, {"price": "double"}, faults=faults, unusable=unusable)
            found = {fault.id: fault.reason for fault in faults}
            old = None if before is None else directory.load(before)
            whole = compare_versions(old, directory.load(number), found, {})
            assert [getattr(told, kind) for kind in KINDS] == [getattr(whole, kind) for kind in KINDS], step
            assert told.faulty == whole.faulty
    book.close()
