"""Edits of damped rules whose conditions are wider than one range."""

import fencepost as fp


def test_an_enter_that_no_row_causes_says_that_it_waited() -> None:
    """The edit lets the object stay inside; a row at the same instant begins the condition, not the difference."""
    rules = fp.Rules()
    rules.add(1, "n < 5", detect="enter,exit", for_="2 rows")
    monitor = fp.Monitor(rules, object="o", time="t", schema={"n": "bigint", "s": "string"})
    assert not monitor.update_one("a", 0, n=0, s="a")
    assert not monitor.replace(1, "s = 'b'", detect="enter,exit", stay="s = 'b' OR n < 5").num_rows
    [event] = monitor.update_one("a", 0, n=1, s="b")
    assert (event.detect, event.time, event.reason) == ("enter", 0, "held")
    assert (event.n_before, event.n, event["s_before"], event["s"]) == (1, 1, "b", "b"), "what waited has no row"


def test_stay_may_compare_a_new_column_with_one_whose_type_the_condition_tells() -> None:
    rules = fp.Rules()
    rules.add(1, "s = 'a'", detect="enter,exit", stay="s = 'a' OR s = k")
    monitor = fp.Monitor(rules, object="o", time="t")
    rows = {"o": ["x"] * 3, "t": [0, 1, 2], "s": ["a", "b", "c"], "k": ["q", "b", "q"]}
    assert monitor.update(rows)["detect"].to_pylist() == ["enter", "exit"]
    assert rules.column_kinds() == {"s": "key", "k": "key"}
