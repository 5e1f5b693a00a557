"""Rules one by one: added, edited, removed, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fencepost import FencepostError
from fencepost.language import ConditionError
from fencepost.rules import Rule, RuleFaultsError, Rules
from tests.rules.compared import PRICE, message


def test_add_and_look_up() -> None:
    rules = Rules()
    rules.add(1, "price > 40")
    rules.add(np.int64(-5), "x = 'A'", detect=" exit,enter", initial=True, labels={"a": "b"}, enabled=False)
    assert rules[1] == Rule(1, "price > 40")
    assert rules[-5] == Rule(-5, "x = 'A'", "enter,exit", True, {"a": "b"}, None, False, 1)
    assert list(rules) == [rules[1], rules[-5]]
    assert len(rules) == 2
    assert 1 in rules
    assert -5 in rules
    assert np.int64(1) in rules
    assert 2 not in rules
    assert "1" not in rules
    assert repr(rules) == "Rules(2 rules on price, x)"


@pytest.mark.parametrize(
    "expires",
    [
        datetime(2030, 1, 1, 12),
        datetime(2030, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2030-01-01 12:00"),
        "2030-01-01T12:00:00Z",
    ],
)
def test_expiry_is_kept_in_utc(expires: Any) -> None:
    rules = Rules()
    rules.add(1, "x > 1", expires=expires)
    assert rules[1].expires == datetime(2030, 1, 1, 12, tzinfo=UTC)
    assert type(rules[1].expires) is datetime
    assert rules.columns().rules.expires.tolist() == [1893499200000000]


def test_versions_grow_with_every_edit_also_across_removal() -> None:
    rules = Rules.from_table({"rule_id": [1, 2], "lower": [1, 2], "upper": [3, 4]}, ranges=PRICE)
    rules.replace(1, "price > 2")
    rules.replace(1, "price > 3")
    assert (rules[1].version, rules[2].version) == (3, 1)
    rules.remove(1)
    rules.remove(2)
    assert len(rules) == 0
    rules.add(1, "price > 4")
    rules.add_table({"rule_id": [2, 3], "lower": [2, 3], "upper": [3, 4]}, ranges=PRICE)
    assert {rule.id: rule.version for rule in rules} == {1: 4, 2: 2, 3: 1}
    assert dict(zip(*map(np.ndarray.tolist, rules.columns().rules[:2]), strict=True)) == {1: 4, 2: 2, 3: 1}


def test_replace_takes_nothing_over() -> None:
    rules = Rules()
    rules.add(1, "x > 1", detect="cross", labels={"a": "b"}, enabled=False)
    rules.replace(1, "x > 2")
    assert rules[1] == Rule(1, "x > 2", version=2)


def test_a_refused_edit_changes_nothing() -> None:
    rules = Rules.from_table({"rule_id": [1], "lower": [1], "upper": [3]}, ranges=PRICE)
    refused: list[dict[str, Any]] = [{"condition": "x >"}, {"condition": "x > 1", "detect": "never"}]
    for wrong in refused:
        with pytest.raises(FencepostError):
            rules.replace(1, **wrong)
        with pytest.raises(FencepostError):
            rules.add(2, **wrong)
    assert list(rules) == [Rule(1, "price >= 1 AND price < 3")]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"id": 1}, "Rule 1 already exists; ids must be unique. Use replace() to edit it."),
    (
        {"id": 2**63},
        "9223372036854775808 cannot be the id of a rule; expected an integer of 64 bits. Number the rules.",
    ),
    (
        {"id": "7"},
        "'7' cannot be the id of a rule; expected an integer of 64 bits. Number the rules. A text can be their name: "
        "name=; a RuleBook gives ids to names by itself.",
    ),
    ({"id": True}, "True cannot be the id of a rule; expected an integer of 64 bits. Number the rules."),
    (
        {"condition": "x > 5 AND x < 3"},
        "Rule 2: `x > 5` and `x < 3` exclude each other; expected a condition that can hold. "
        "Remove one of the two parts, correct its constants, or join them with OR.\n"
        "  x > 5 AND x < 3\n  ^^^^^     ^^^^^",
    ),
    ({"condition": None}, "Rule 2: None is no condition; expected a string. Write for example 'price > 40'."),
    (
        {"condition": "symbol = '\ud800'"},
        "Rule 2: the text has half a surrogate pair; expected whole characters. Decode the text as UTF-8.",
    ),
    (
        {"detect": "enter,leave"},
        "Rule 2: detect='enter,leave'; expected any of inside, enter, exit, cross, silent, separated by commas. "
        "Write for example 'enter,exit'.",
    ),
    (
        {"detect": None},
        "Rule 2: detect=None; expected a string or a list of strings. Write for example 'enter,exit'.",
    ),
    ({"initial": 1}, "Rule 2: initial=1; expected True or False. Pass initial as a boolean."),
    ({"enabled": "no"}, "Rule 2: enabled='no'; expected True or False. Pass enabled as a boolean."),
    (
        {"labels": {"a": 1}},
        "Rule 2: labels={'a': 1}; expected names and values that are strings. Write {'team': 'desk 4'}.",
    ),
    (
        {"expires": "soon"},
        "Rule 2: expires='soon'; expected a datetime, or its ISO text. Write datetime(2030, 1, 1, tzinfo=UTC).",
    ),
    (
        {"expires": 5},
        "Rule 2: expires=5; expected a datetime, or its ISO text. Write datetime(2030, 1, 1, tzinfo=UTC).",
    ),
    (
        {"expires": "9999-12-31T23:59:59-01:00"},
        "Rule 2: expires=9999-12-31T23:59:59-01:00; expected a time of the years 1 to 9999 in UTC. "
        "Leave it out for a rule that stays.",
    ),
]


@pytest.mark.parametrize(("arguments", "expected"), REFUSED)
def test_what_add_refuses(arguments: dict[str, Any], expected: str) -> None:
    rules = Rules()
    rules.add(1, "x > 1")
    defaults: dict[str, Any] = {"id": 2, "condition": "x > 1"}
    with pytest.raises(FencepostError) as error:
        rules.add(**defaults | arguments)
    assert message(error) == expected
    assert isinstance(error.value, ConditionError) == ("condition" in arguments)
    assert len(rules) == 1


@pytest.mark.parametrize("call", [lambda r: r.remove(3), lambda r: r[3], lambda r: r.replace(3, "x > 1")])
def test_an_unknown_id_is_refused(call: Any) -> None:
    with pytest.raises(FencepostError) as error:
        call(Rules())
    assert message(error) == "Rule 3 does not exist; expected the id of a rule that does. Use add() for a new rule."


def test_from_dicts() -> None:
    rows = [{"id": 1, "condition": "x > 1", "version": 3}, {"id": 2, "condition": "x < 1", "labels": None}]
    assert list(Rules.from_dicts(rows)) == [Rule(1, "x > 1", version=3), Rule(2, "x < 1")]


def test_faults_of_dicts_are_collected() -> None:
    rows: list[Any] = [
        {"id": 1, "condition": "x > 1"},
        {"id": 1, "condition": "x > 1"},
        {"id": 2, "condition": "x >> 1"},
        {"id": 3},
        {"id": 4, "condition": "x > 1", "colour": "red"},
        5,
        {"id": 6, "condition": "x > 1", "version": 0},
    ]
    with pytest.raises(RuleFaultsError) as error:
        Rules.from_dicts(rows)
    lines = message(error).splitlines()
    fields = "expected the fields id, condition, detect, initial, labels, expires, enabled, name, "
    fields += "for, keep_firing_for, stay, margin, cooldown, limit, every, version"
    assert lines[0] == "6 faults in 7 rows; expected none. Correct the rows and pass all of them again."
    assert lines[1].startswith("  row 1: rule 1 already exists; ids must be unique.")
    assert lines[2].startswith("  row 2: rule 2: ")
    assert lines[3] == f"  row 3: the field 'condition' is missing; {fields}. Id and condition are needed."
    assert lines[4] == f"  row 4: the field 'colour' is unknown; {fields}. Id and condition are needed."
    assert lines[5] == "  row 5: 5 is no rule; expected an object with id and condition. Write one object per rule."
    assert lines[6] == "  row 6: version=0; expected 1, 2, ... up to 2**62. Leave it out for a new rule."
    assert len(lines) == 7
