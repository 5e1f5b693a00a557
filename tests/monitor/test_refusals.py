"""What a monitor refuses, in which words, and that nothing is left of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.monitor.examples import ONE, monitor_of, refusal, summarize

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: monitor_of("x >= 1", first="loud"),
            "first='loud'; expected 'enter' or 'silent'. Use 'silent' to start on traffic that already runs.",
        ),
        (
            lambda: Monitor({}, object="vehicle"),  # type: ignore[arg-type]
            "dict as rules; expected Rules, a Snapshot or a RuleBook. Build them with Rules() and add().",
        ),
        (
            lambda: monitor_of("x >= 1").follow(Rules()),  # type: ignore[arg-type]
            "Rules to follow; expected a Snapshot. Compile the rules, or give them to `change`.",
        ),
        (
            lambda: monitor_of("x >= 1").change([]),  # type: ignore[arg-type]
            "A list as rules; expected Rules. Collect them with Rules.from_dicts.",
        ),
        (
            lambda: monitor_of("x >= 1", time=None, timeout=5),
            "timeout=5 without time; expected a time column. Pass time=, the column to measure silence on.",
        ),
        (
            lambda: monitor_of("x >= 1", timeout=timedelta(0)),
            "timeout=datetime.timedelta(0); expected more than zero. Pass None for no timeout.",
        ),
        (
            lambda: monitor_of("x >= 1", timeout="5 s"),
            "timeout='5 s'; expected a timedelta or a whole number. Pass timedelta(minutes=5).",
        ),
        (
            lambda: monitor_of("x >= 1", timeout=timedelta(seconds=1)).update(ONE),
            "timeout=datetime.timedelta(seconds=1) and ts as bigint; expected a timedelta for timestamps and "
            "dates, a whole number for integers. Pass the timeout in the unit of the time column.",
        ),
        (
            lambda: monitor_of("x >= 1", time=None).add(2, "x >= 2", expires=NOON),
            "Rule 2, which expires, without time; expected a time column. "
            "Pass time= to the Monitor: rules expire by event time.",
        ),
        (
            lambda: [m := monitor_of("x >= 1"), m.add(2, "x >= 2", expires=NOON), m.update(ONE)],
            "Rule 2, which expires, and ts as bigint; expected a time column of timestamps or dates. "
            "Convert the column to timestamps, or leave out the expiry.",
        ),
        (
            lambda: monitor_of("x >= 1", time=None).advance(5),
            "A time to advance to, but no time column; expected a time column. Pass time= to the Monitor.",
        ),
        (
            lambda: monitor_of("x >= 1").advance(5),
            "5 as the time to advance to before any row; expected rows first, which decide the type of time. "
            "Call update first.",
        ),
        (
            lambda: [m := monitor_of("x >= 1"), m.update(ONE), m.advance(None)],
            "None as the time to advance to; expected a bigint. Pass an instant.",
        ),
        (
            lambda: monitor_of("x >= 1").add(1, "x >= 2"),
            "Rule 1 already exists; ids must be unique. Use replace() to edit it.",
        ),
        (
            lambda: monitor_of("x >= 1").replace(2, "x >= 2"),
            "Rule 2 does not exist; expected the id of a rule that does. Use add() for a new rule.",
        ),
        (
            lambda: monitor_of("x >= 1").remove(2),
            "Rule 2 does not exist; expected the id of a rule that does. Use add() for a new rule.",
        ),
        (
            lambda: monitor_of("x >= 1").remove("one"),
            "No rule in force has the name 'one'; expected the name of one. Correct the name.",
        ),
        (
            lambda: monitor_of("x >= 1").remove(1.5),  # type: ignore[arg-type]
            "1.5 cannot be the id of a rule; expected an integer of 64 bits. Number the rules.",
        ),
        (
            lambda: monitor_of("x >= 1").inside(2),
            "Rule 2 is not in force; expected a rule that is. Add it, or enable it with replace().",
        ),
        (
            lambda: monitor_of("x >= 1").rules_at(z=2),
            "A value for z; expected a column that the rules use: x. Leave it out.",
        ),
        (
            lambda: monitor_of("k = 'u'").rules_at(k=2),
            "2 for k; expected a string, since rules compare it with quoted strings. "
            "Convert it to a string in the same form that the rules use.",
        ),
        (
            lambda: monitor_of("x >= 1").update({"ts": [1], "x": [1.0]}),
            "A table without the column vehicle; expected that column beside ts, x. "
            "Add the column, or rename the one that is meant.",
        ),
        (
            lambda: monitor_of("k = 'u'").update({"vehicle": [7], "ts": [1], "k": [1.0]}),
            "Column k of type double; expected strings, since rules compare it with quoted strings. "
            "Cast the column to a string in the same form that the rules use.",
        ),
        (
            lambda: monitor_of("x >= 1").update({**ONE, "vehicle": [[7]]}),
            "Objects of type list<item: int64>; expected strings, binary, integers, or any other type an "
            "attribute can have. Cast the object column, for example to string.",
        ),
        (
            lambda: monitor_of("x >= 1").update({**ONE, "ts": ["noon"]}),
            "ts of type string as time; expected double, bigint, decimal(p,s) with p <= 18, timestamp, "
            "timestamp_ntz, date or boolean. Cast the column, for example to timestamp.",
        ),
        (
            lambda: monitor_of("x >= 1", sequence="s").update({**ONE, "s": ["first"]}),
            "s of type string as a sequence; expected double, bigint, decimal(p,s) with p <= 18, timestamp, "
            "timestamp_ntz, date or boolean. Number the rows by an integer.",
        ),
        (
            lambda: [m := monitor_of("x >= 1"), m.update(ONE), m.update({**ONE, "vehicle": ["seven"]})],
            "Objects in vehicle of type string (Failed to parse string: 'seven' as a scalar of type int64); "
            "expected int64, as in the first batch. Cast the column.",
        ),
        (
            lambda: monitor_of("time >= 1"),
            "An attribute 'time', which needs the event column 'time'; expected a column name that no other event "
            "column has. Rename time in the stream and in the rules.",
        ),
        (
            lambda: monitor_of("x >= 1").why({"x": 1}),
            "A dict as an event; expected a dict or tuple with the columns of an event table, or a table of one "
            "row. Pass for example events.to_pylist()[0].",
        ),
        (
            lambda: monitor_of("x >= 1").why(pa.table({"rule_id": [1, 2]})),
            "A table of 2 rows as an event; expected a dict or tuple with the columns of an event table, or a "
            "table of one row. Pass for example events.to_pylist()[0].",
        ),
        (
            lambda: [
                m := monitor_of("x >= 1"),
                e := m.update(ONE).to_pylist()[0],
                m.replace(1, "x >= 2"),
                m.why(e),
            ],
            "An event of version 1 of rule 1; expected version 2, the one in force. "
            "Ask a Monitor that has the rule as it was.",
        ),
    ],
)
def test_every_refusal_says_what_to_do(call: Any, message: str) -> None:
    assert refusal(call) == message


def test_a_refused_batch_or_change_leaves_no_trace() -> None:
    monitor = monitor_of("x >= 1")
    monitor.update(ONE)
    before = monitor.counters
    for call in (
        lambda: monitor.update({**ONE, "x": ["one"]}),
        lambda: monitor.update({"vehicle": [8], "ts": ["noon"], "x": [1.0]}),
        lambda: monitor.add(2, "x >= "),
        lambda: monitor.add(2, "x = 'one'"),
        lambda: monitor.add(2, "detect > 5"),
        lambda: monitor.replace(1, "x < AVG(y)"),
    ):
        refusal(call)
    assert monitor.counters == before
    assert monitor.inside(1) == [7]
    assert monitor.rules_at(x=3.0) == [1]
    assert summarize(monitor.update({"vehicle": [7], "ts": [2], "x": [0.0]})) == [(7, 1, "exit", 2, None)]


def test_half_a_surrogate_pair_is_refused_and_leaves_nothing_behind() -> None:
    rules = Rules()
    rules.add(1, "s >= 'a'", detect="enter,exit")
    monitor = Monitor(rules, object="o", time="t")
    refused = "half a surrogate pair; expected characters that can be stored"
    assert refused in refusal(lambda: monitor.update_one("x", 1, s="\ud800"))
    assert refused in refusal(lambda: monitor.update_one("\ud800", 1, s="b"))
    monitor.update_one("x", 1, s="b")
    assert refused in refusal(lambda: monitor.update_one("x", 2, s="\ud800"))
    assert monitor.inside(1) == ["x"]
    assert monitor.update({"o": ["x"], "t": [3], "s": ["A"]})["detect"].to_pylist() == ["exit"]
    assert refused in refusal(lambda: rules.add(2, "x > 3", labels={"desk": "\ud800"}))
