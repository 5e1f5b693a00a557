"""Faulty rules at publishing: the others are published as if those were paused."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.published import VersionDirectory
from fencepost.rules import FaultyRulesWarning, RuleFault, RuleFaultsError, Rules
from tests.effort import seeds

SCHEMA = {"price": "double", "volume": "bigint", "symbol": "string"}
GOOD = ("price > {}", "volume < {} OR price = {}", "symbol = 's{}' AND price < 50", "left.price - right.price > {}")
BAD = ("prize > {}", "price = 's{}'", "symbol > {}", "volume > 0.5 AND volume < 0.6", "left.gate - right.price > {}")
ROWS: Any = {"price": [1.0, 30.0, 60.0, 1.0], "volume": [1, 50, 2, 99], "symbol": ["s1", "s2", "s3", None]}


@pytest.mark.parametrize("seed", seeds(40))
def test_versions_are_those_of_the_good_rules_alone(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)  # noqa: S311
    rules, good = Rules(), Rules()
    bad: set[int] = set()
    directory = VersionDirectory(tmp_path)

    def condition(is_bad: bool) -> str:
        return rng.choice(BAD if is_bad else GOOD).replace("{}", str(rng.randrange(1, 90)))

    for step in range(6):
        for _ in range(40 if step == 0 else rng.choice([1, 3, 30])):
            id = rng.randrange(60)
            is_bad = rng.random() < (0.2 if step else 0.05)
            text, enabled = condition(is_bad), rng.random() < 0.9
            sound = condition(False) if is_bad else text
            if id in rules and rng.random() < 0.3:
                rules.remove(id)
                good.remove(id)
                bad.discard(id)
                continue
            change = "replace" if id in rules else "add"
            getattr(rules, change)(id, text, enabled=enabled)
            getattr(good, change)(id, sound, enabled=enabled and not is_bad)
            (bad.add if is_bad and enabled else bad.discard)(id)
        if rng.random() < 0.2:
            ids = range(100 + 10 * step, 103 + 10 * step)
            table = {"rule_id": list(ids), "lower": [1.0, 2.0, 3.0]}
            wrong = rng.random() < 0.5
            for target, column in ((rules, "nobody" if wrong else "price"), (good, "price")):
                target.add_table(table, ranges={column: ("lower", None)}, enabled=target is rules or not wrong)
            bad |= set(ids) if wrong else set()
        faults: list[RuleFault] = []
        version = rules.publish(tmp_path, SCHEMA, faults=faults)
        made, expected = directory.load(version), good.compile(SCHEMA)
        assert {fault.id for fault in faults} == bad
        assert made.paused == expected.paused
        assert made.match(ROWS).sets() == expected.match(ROWS).sets()
        in_force = [dict(zip(each.rules.ids, each.rules.versions, strict=True)) for each in (made, expected)]
        there = [
            {id: of[id] for id in each.rules.ids[each.in_force]}
            for of, each in zip(in_force, (made, expected), strict=True)
        ]
        assert there[0] == there[1]
        assert (made.bands is None) == (expected.bands is None)
        if made.bands is not None and expected.bands is not None:
            assert sorted(made.bands.lower) == sorted(expected.bands.lower)


def test_the_warning_names_the_rules_and_strict_refuses(tmp_path: Path) -> None:
    rules = Rules()
    for id in range(30):
        rules.add(id, "price > 4" if id < 5 else "prcie > 4")
    with pytest.raises(RuleFaultsError, match=r"25 faults in 30 rules"):
        rules.publish(tmp_path, {"price": "double"}, strict=True)
    assert VersionDirectory(tmp_path).latest() is None
    with pytest.warns(FaultyRulesWarning, match=r"25 faulty rules not published; treated as paused") as warned:
        assert rules.publish(tmp_path, {"price": "double"}) == 2
    assert "rule 5: `prcie > 4` uses the column prcie" in str(warned[0].message)
    assert "Did you mean price?" in str(warned[0].message)
    assert "... and 5 more" in str(warned[0].message)
    rules.publish(tmp_path, {"prcie": "double"})
    assert len(VersionDirectory(tmp_path).load()) == 30, "the column has come"


def test_rules_that_disagree_about_a_column(tmp_path: Path) -> None:
    rules, faults = Rules(), list[RuleFault]()
    rules.add(1, "gate = 'B'")
    rules.add(2, "gate > 4")
    rules.add(3, "gate < 9 AND price > 1")
    rules.publish(tmp_path, faults=faults)
    assert [fault.id for fault in faults] == [2, 3], "the first one decides"
    assert "compared with a number here and a key there (rules 2 and 1)" in faults[0].reason
    assert VersionDirectory(tmp_path).schema() == {"gate": "key"}


def test_a_schema_of_a_frame_adds_its_columns(tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "price > 4")
    rules.publish(tmp_path)
    wider = pa.schema([("price", pa.float64()), ("gate", pa.string()), ("parts", pa.list_(pa.int64()))])
    rules.publish(tmp_path, wider)
    assert VersionDirectory(tmp_path).schema() == {"price": "double", "gate": "key"}
    rules.add(2, "parts > 4")
    with pytest.warns(FaultyRulesWarning, match="rule 2: the column parts, "):
        rules.publish(tmp_path, wider)
