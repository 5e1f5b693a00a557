"""Rules and snapshots go to other processes, and are copied."""

import copy
import pickle
import pickletools
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fencepost.book import RuleBook
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot
from tests.monitor.examples import refusal

DATA = {"price": np.arange(0.0, 60.0, 0.5), "symbol": ["IBM", "HP"] * 60}


def mixed() -> Rules:
    rules = Rules()
    rules.add(1, "price BETWEEN 10 AND 20", detect="enter,exit", labels={"a": "b"}, name="one")
    rules.add(2, "symbol = 'IBM' AND price > 30 OR price < 2")
    rules.add(3, "price > 1", enabled=False)
    rules.add(4, "left.price - right.price > 3")
    rules.add(5, "price > 5")
    rules.remove(5)
    table = {"rule_id": [10, 11, 12], "symbol": ["IBM", None, "HP"], "low": [1, 2, 3], "high": [20, None, 40]}
    rules.add_table(table, equal="symbol", ranges={"price": ("low", "high")})
    rules.remove(11)
    return rules


def test_rules_are_the_same_after_a_pickle() -> None:
    rules = mixed()
    again = pickle.loads(pickle.dumps(rules))
    assert list(again) == list(rules)
    assert again.compile().match(DATA).sets() == rules.compile().match(DATA).sets()
    again.add(5, "price > 6")
    assert again[5].version == 2, "an id that comes back goes on with its versions"
    assert again.paused() == rules.paused()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_of_rules_goes_its_own_way(copied: Any) -> None:
    rules = mixed()
    before, matched = list(rules), rules.compile().match(DATA).sets()
    other = copied(rules)
    assert list(other) == before
    other.remove(1)
    other.remove(12)
    other.replace(2, "price > 3")
    other.add(20, "price > 4", name="one")
    assert list(rules) == before
    assert rules.compile().match(DATA).sets() == matched
    rules.replace(1, "price > 50", name="two")
    rules.remove(10)
    assert (20 in other, 1 in other, 10 in other, other[20].name) == (True, False, True, "one")
    expected = Rules.from_dicts({"id": rule.id, "condition": rule.condition, "enabled": rule.enabled} for rule in other)
    assert other.compile().match(DATA).sets() == expected.compile().match(DATA).sets()


def test_a_snapshot_is_the_same_after_a_pickle_and_is_its_own_copy() -> None:
    rules = mixed()
    rules.compile()
    rules.add(21, "price > 50")  # a layer of its own
    snapshot = rules.compile()
    again = pickle.loads(pickle.dumps(snapshot))
    assert again.match(DATA).sets() == snapshot.match(DATA).sets()
    assert (len(again), again.paused, again.types, again.keys) == (
        len(snapshot),
        snapshot.paused,
        snapshot.types,
        snapshot.keys,
    )
    assert str(again.explain()) == str(snapshot.explain())
    assert again.bands is not None
    assert copy.deepcopy(snapshot) is copy.copy(snapshot) is snapshot
    assert again.to_bytes() == snapshot.to_bytes()
    assert all(array.ids.flags.writeable for array in [again.rules])


def test_changed_bytes_of_a_snapshot_are_refused() -> None:
    data = mixed().compile().to_bytes()
    for place in range(0, len(data), 61):
        changed = bytearray(data)
        changed[place] ^= 4
        refusal(partial(Snapshot.from_bytes, bytes(changed)))
    for size in (0, 4, 8, 100, len(data) - 1):
        refusal(partial(Snapshot.from_bytes, data[:size]))
    refusal(lambda: Snapshot.from_bytes(data + b"\0"))


def test_what_is_pickled_is_our_own_form() -> None:
    for value in (mixed(), mixed().compile()):
        names = [argument for code, argument, _ in pickletools.genops(pickle.dumps(value)) if isinstance(argument, str)]
        assert not [name for name in names if "numpy" in name or "pyarrow" in name], names


def count_matches(given: tuple[Rules | Snapshot, dict[str, Any]]) -> int:
    rules, data = given
    snapshot = rules.compile() if isinstance(rules, Rules) else rules
    return len(snapshot.match(data).ids)


@pytest.mark.slow
def test_rules_and_snapshots_go_to_other_processes() -> None:
    rules = mixed()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = list(pool.map(count_matches, [(rules, DATA), (rules.compile(), DATA)]))
    assert found == [len(rules.compile().match(DATA).ids)] * 2


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_cannot_be_copied_says_what_can(way: Any, tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "price > 40")
    assert "Write it with save(path, rules=True)" in refusal(lambda: way(Monitor(rules, object="symbol")))
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        assert "Open the book again where it is needed: RuleBook(url)." in refusal(lambda: way(book))
