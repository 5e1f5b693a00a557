"""A rule is called by its id or by its name, wherever one is asked for."""

from pathlib import Path

import pytest

from fencepost.book import RuleBook
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import FaultyRulesWarning, RuleFault, Rules
from fencepost.rules.checked import UnknownColumnWarning


def some_rules() -> Rules:
    rules = Rules()
    rules.add_table(
        {"rule_id": [1, 2], "lower": [4, 9], "upper": [5, 19], "title": ["floor", None]},
        ranges={"price": ("lower", "upper")},
        name_column="title",
    )
    rules.add(7, "price > 40", name="roof", detect="enter,exit")
    return rules


def test_rules_are_found_replaced_and_removed_by_name() -> None:
    rules = some_rules()
    assert rules["roof"] == rules[7]
    assert rules["floor"].id == 1
    assert "floor" in rules
    assert "attic" not in rules
    rules.replace("floor", "price < 3")
    assert (rules["floor"].version, rules[1].condition) == (2, "price < 3")
    rules.replace("roof", "price > 50", name="ridge")
    assert rules["ridge"].id == 7
    rules.remove("ridge")
    assert 7 not in rules
    for call in (lambda: rules["roof"], lambda: rules.remove("roof"), lambda: rules.replace("roof", "price > 1")):
        with pytest.raises(FencepostError, match="No rule has the name 'roof'"):
            call()


def test_a_monitor_takes_names() -> None:
    monitor = Monitor(some_rules(), object="symbol")
    monitor.update({"symbol": ["IBM"], "price": [41.5]})
    assert monitor.inside("roof") == ["IBM"]
    assert monitor.replace("roof", "price > 42", detect="enter,exit")["reason"].to_pylist() == ["edited"]
    assert monitor.rules["roof"].version == 2
    monitor.add(9, "price > 1", name="cellar", detect="enter,exit")
    assert monitor.inside("cellar") == ["IBM"]
    assert monitor.remove("cellar")["rule_id"].to_pylist() == [9]
    monitor.remove("roof")
    with pytest.raises(FencepostError, match="No rule in force has the name 'roof'"):
        monitor.inside("roof")


def test_a_book_calls_a_rule_by_its_name_while_it_has_no_id(tmp_path: Path) -> None:
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        assert book.add("floor", "price < 40").id == 1
        for call in (book.add, book.replace):
            with pytest.raises(FencepostError, match=r"^Rule 'roof': `price > 5` and `price < 3` exclude each other"):
                call("roof", "price > 5 AND price < 3")
            with pytest.raises(FencepostError, match=r"^Rule 'roof': detect='no'; expected any of"):
                call("roof", "price > 5", detect="no")
        book.publish(tmp_path / "published")
        with pytest.warns(
            UnknownColumnWarning, match="^rule 'roof' is stored, but not published as it is: `prcie > 1`"
        ):
            book.add("roof", "prcie > 1")
        with pytest.warns(UnknownColumnWarning, match="^rule 3 is stored, but"):
            book.add(3, "prcie > 1")


def test_what_is_published_and_left_out_is_called_by_name(tmp_path: Path) -> None:
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.add("floor", "price < 40")
        book.add(7, "price < 41")
        assert str(book.preview(tmp_path / "published")).startswith("added: 2 rules: 1 (floor), 7\n")
        book.publish(tmp_path / "published")
        book.remove("floor")
        with pytest.warns(UnknownColumnWarning):
            book.add("roof", "prcie > 1")
        told = str(book.preview(tmp_path / "published"))
        assert "removed: 1 rule: 1 (floor)\n" in told
        assert "rule 8 (roof): `prcie > 1` uses the column prcie" in told
        faults: list[RuleFault] = []
        book.publish(tmp_path / "published", faults=faults)
        assert [(fault.id, fault.name, fault.called) for fault in faults] == [(8, "roof", "8 (roof)")]
        with pytest.warns(FaultyRulesWarning, match=r"rule 8 \(roof\): `prcie > 1`"):
            book.publish(tmp_path / "published")
    rules = Rules()
    rules.add(1, "price < 40", name="floor")
    rules.add(2, "price < 40 AND volume > 1", name="roof")
    with pytest.warns(FaultyRulesWarning, match=r"rule 2 \(roof\)"):
        rules.publish(tmp_path / "other", schema={"price": "double"})


def test_why_names_the_rule() -> None:
    monitor = Monitor(some_rules(), object="symbol")
    monitor.add(9, "price > 40", name="cellar", detect="enter")
    events = monitor.update({"symbol": ["IBM"], "price": [41.5]}).to_pylist()
    assert [str(monitor.why(event)).partition("\n")[0] for event in events] == [
        "IBM: enter of rule 7 (roof, version 1) at 1",
        "IBM: enter of rule 9 (cellar, version 1) at 1",
    ]
    bands = Rules()
    bands.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter", name="near")
    pairs = Monitor(bands, object="id", time="ts")
    pairs.update(left=[{"id": 1, "ts": 1, "price": 5.0}])
    [event] = pairs.update(right=[{"id": 2, "ts": 2, "price": 5.5}]).to_pylist()
    assert str(pairs.why(event)).startswith("1 and 2: enter of rule 1 (near, version 1)")
