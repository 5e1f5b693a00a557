"""All rules together have at most 256 distinct expressions: those that are gone or replaced do not count."""

import warnings
from pathlib import Path

import pytest

import fencepost as fp
from fencepost.book import RuleBook
from fencepost.published.directory import VersionDirectory

SCHEMA = {"price": "double", "vwap": "double", "o": "string", "ts": "bigint"}


def _rules(base: int) -> fp.Rules:
    rules = fp.Rules()
    for number in range(150):
        rules.add(number, f"price > vwap * {base}.{number:03d}", detect="enter,exit")
    return rules


def test_all_constants_may_be_edited_in_a_book(tmp_path: Path) -> None:
    book = RuleBook(f"sqlite:///{tmp_path}/b.db")
    for rule in _rules(1):
        book.add(rule.id, rule.condition or "", detect="enter,exit")
    book.publish(tmp_path / "pub", schema=SCHEMA)
    monitor = fp.Monitor(book, object="o", time="ts", schema=SCHEMA)
    for number in range(150):
        book.replace(number, f"price > vwap * 3.{number:03d}", detect="enter,exit")
    assert book.publish(tmp_path / "pub") == 2
    monitor.refresh()
    (event,) = monitor.update([{"o": "a", "ts": 1, "price": 3.0005, "vwap": 1.0}]).to_pylist()
    assert event["rule_id"] == 0


def test_all_constants_may_be_edited_in_rules(tmp_path: Path) -> None:
    rules = _rules(1)
    rules.publish(tmp_path / "pub")
    for rule in _rules(2):
        rules.replace(rule.id, rule.condition or "")
    assert rules.publish(tmp_path / "pub") == 2


def test_all_constants_may_be_edited_in_a_monitor() -> None:
    monitor = fp.Monitor(_rules(1), object="o", time="ts", schema=SCHEMA)
    for base in (2, 3):
        for rule in _rules(base):
            monitor.replace(rule.id, rule.condition or "", detect="enter,exit")
    for number in range(1000, 1106):
        monitor.add(number, f"price > vwap * 4.{number}")
    with pytest.raises(fp.FencepostError, match="one more distinct expression"):
        monitor.add(2000, "price > vwap * 5")
    monitor.replace(0, "price > vwap * 5", detect="enter,exit")


def test_what_is_too_many_is_a_fault_of_the_new_rules(tmp_path: Path) -> None:
    book = RuleBook(f"sqlite:///{tmp_path}/b.db")
    for number in range(200):
        book.add(number, f"price + {number} > vwap")
    book.publish(tmp_path / "pub", schema=SCHEMA)
    for number in range(200, 258):
        book.add(number, f"price + {number} > vwap")
    with pytest.warns(fp.FaultyRulesWarning) as warned:
        assert book.publish(tmp_path / "pub") == 2
    assert [fault.id for fault in warned[0].message.faults] == [256, 257]  # type: ignore[union-attr]
    book.remove(3)
    book.remove(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert book.publish(tmp_path / "pub") == 3
    assert len(VersionDirectory(tmp_path / "pub").load(3)) == 256


def test_outer_conditions_count_too() -> None:
    rules = fp.Rules()
    for number in range(129):
        rules.add(
            number, f"price > vwap + {number + 1}", stay=f"price > vwap + {number + 1} OR price < vwap - {number}"
        )
    with pytest.raises(fp.FencepostError, match=r"rule 128: stay: .+ is one more distinct expression"):
        rules.compile(SCHEMA)
    rules.remove(128)
    assert len(rules.compile(SCHEMA)) == 128
