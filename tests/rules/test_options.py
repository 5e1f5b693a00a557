"""The options of rules are declared once, and everything that takes them shows and checks the same."""

import inspect
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from fencepost import RuleBook, Rules
from fencepost.rules.damping import python_name, spelled
from fencepost.rules.options import FIELDS, Options, RuleOptions, TableOptions, fields_of, options_of, read_options
from fencepost.rules.rule import Rule


def test_a_rule_has_the_options_with_the_same_defaults() -> None:
    assert {spelled(field.name) for field in fields(Rule)} == {*FIELDS}
    rule = Rule(1, "price > 40")
    assert options_of(rule) == Options() == read_options({})
    assert Rule(**{python_name(name): value for name, value in fields_of(rule).items()}) == rule
    assert tuple(RuleOptions.__annotations__) == Options._fields
    own = {name for name in get_type_hints(TableOptions) if name not in Options._fields}
    assert own == {"options", *(f"{spelled(name)}_column" for name in Options._fields)}


@pytest.mark.parametrize("method", [Rules.add, Rules.replace, RuleBook.add, RuleBook.replace, Rules.add_table])
def test_signatures_show_every_option_with_its_default(method: Any) -> None:
    shown = inspect.signature(method).parameters
    of_table = method is Rules.add_table
    for name, default in Options()._asdict().items():
        if of_table and name == "name":  # which rows cannot share
            continue
        assert (shown[name].default, shown[name].kind) == (default, inspect.Parameter.KEYWORD_ONLY)
    assert ("options" in shown) == of_table


def test_an_unknown_option_is_a_wrong_call() -> None:
    rules = Rules()
    with pytest.raises(TypeError, match="unexpected keyword argument 'detct'"):
        rules.add(1, "price > 40", detct="enter")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'color_column'"):
        rules.add_table({"rule_id": [1], "low": [1]}, ranges={"x": ("low", None)}, color_column="c")  # type: ignore[call-arg]
    assert len(rules) == 0
