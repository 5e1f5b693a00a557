"""A rule is called by its id or by its name, wherever one is asked for."""

import pytest

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules


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
