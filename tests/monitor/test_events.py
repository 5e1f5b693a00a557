"""Events of single rows: tuples with names."""

import copy
import pickle

import pytest

from fencepost.emitting.event import Event, event_class
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import monitor_of, refusal


def test_fields_have_names_and_the_order_of_the_columns_of_update() -> None:
    one, many = monitor_of("x >= 1"), monitor_of("x >= 1")
    rows = [(1, 0.0), (2, 5.0), (3, 6.0), (4, 0.5)]
    told = [event for time, x in rows for event in one.update_one(7, time, x=x)]
    table = many.update({"vehicle": [7] * 4, "ts": [1, 2, 3, 4], "x": [x for _, x in rows]})
    assert [event.asdict() for event in told] == table.to_pylist()
    assert [tuple(event) for event in told] == [tuple(row.values()) for row in table.to_pylist()]
    assert told[0].columns == tuple(table.column_names)
    for event, row in zip(told, table.to_pylist(), strict=True):
        for place, (name, value) in enumerate(row.items()):
            assert getattr(event, name) == event[name] == event[place] == value
    assert event[-2:] == (0.5, 6.0)
    assert isinstance(event, tuple)
    assert hash(event) == hash(tuple(event))


def test_an_event_says_what_it_is_and_refuses_other_names() -> None:
    event = monitor_of("x >= 1").update_one(7, 1, x=2.0)[0]
    assert repr(event).startswith("Event(event_id='")
    assert "rule_id=1" in repr(event)
    assert {"rule_id", "x", "x_before"} <= set(dir(event))
    with pytest.raises(KeyError, match="y"):
        event["y"]
    with pytest.raises(AttributeError, match="no field 'y'; it has event_id"):
        _ = event.y
    assert not hasattr(event, "__wrapped__")


def test_a_column_that_tuples_have_a_method_of_is_found_by_name() -> None:
    event = monitor_of("count >= 1").update_one(7, 1, count=2)[0]
    assert event["count"] == 2.0
    assert event.count(7) == 1


def test_events_are_copied_and_pickled() -> None:
    event = monitor_of("x >= 1").update_one(7, 1, x=2.0)[0]
    for other in (copy.copy(event), copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert other == event
        assert isinstance(other, Event)
        assert other.x == 2.0
        assert type(other) is event_class(event.columns)


def test_events_gain_columns_with_new_rules() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update_one(7, 1, x=0.0)
    assert monitor.update_one(7, 2, x=2.0)[0].columns[-2:] == ("x", "x_before")
    with pytest.warns(UserWarning, match="y"):
        monitor.add(2, "y >= 1", detect="enter")
    event = monitor.update_one(7, 3, y=2.0)[-1]
    assert event.columns[-4:] == ("x", "x_before", "y", "y_before")
    assert (event.x, event.y, event.y_before) == (2.0, 2.0, None)


def test_columns_that_no_rule_uses_do_not_matter() -> None:
    monitor = monitor_of("x >= 1", "K = 'u'", sequence="seq")
    for time in (1, 2):  # the first row of an object goes through a table
        events = monitor.update_one(7, time, x=2.0, unknown=object(), other=None, X2="?", Seq=time)
        assert {event.rule_id for event in events} == {1}
    assert "vehicle" not in events[0].columns
    assert monitor.update_one(7, 3, unknown=3) == []
    assert monitor.counters["null"] == 1


def test_a_row_may_name_its_object_and_time_again() -> None:
    rules = Rules()
    rules.add(1, "symbol = 'IBM' AND price > 40", detect="enter")
    monitor = Monitor(rules, object="symbol", time="ts")
    for ts, price in ((1, 39.0), (2, 41.0)):
        row = {"symbol": "IBM", "ts": ts, "price": price, "venue": "X"}
        events = monitor.update_one(row["symbol"], row["ts"], **row)
    assert [event.time for event in events] == [2]


def test_a_value_in_two_spellings() -> None:
    monitor = monitor_of("x >= 1")
    for time in (1, 2):
        assert monitor.update_one(7, time, X=0.0, x=2.0)[-1].x == 2.0, "the exact name counts"
    monitor = monitor_of("abc >= 1")
    for _ in range(2):
        assert refusal(lambda: monitor.update_one(7, 1, ABC=0.0, Abc=2.0)) == (
            "Values ABC and Abc for abc; expected one value of that name. Rename one of the two."
        )
        monitor.update_one(7, 1, abc=1.0)
