"""The seven laws of damping, each by itself, over many objects and rules that hypothesis draws.

Batch, stream and killed stream of the seventh are in tests/spark, where Spark is.
"""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fencepost as fp
from fencepost.cli.app import app
from tests.damping.instants import Row, shape, walk
from tests.damping.oracle import INF, Pair, Policy, play
from tests.damping.played import condition_of, facts_of, instant, monitor_of, options_of, table_of
from tests.effort import examples

ALL = "enter,exit,inside"


class Case(NamedTuple):
    """Rules, and rows of objects in the order of their times; those of one object are apart."""

    policies: dict[int, Policy]
    rows: list[Row]

    @property
    def end(self) -> int:
        return shape(self.policies, self.rows)


@st.composite
def policies_of(draw: st.DrawFn, timeout: float, first: str) -> Policy:
    crosses = draw(st.booleans())
    rows = 1 if crosses else draw(st.integers(1, 3))
    return Policy(
        lo=draw(st.sampled_from([10, 14])),
        hi=draw(st.sampled_from([20, 16])),
        stay=draw(st.sampled_from([None, (8, 22)])),
        for_=0 if crosses or rows > 1 else draw(st.integers(0, 4)),
        for_rows=rows,
        keep=draw(st.integers(0, 4)),
        cooldown=draw(st.sampled_from([0, 0, 3, 5])),
        limit=draw(st.sampled_from([INF, INF, 1, 2])),
        expires=draw(st.sampled_from([INF, INF, 9, 15])),
        timeout=timeout,
        first=first,
        crosses=crosses,
    )


@st.composite
def cases(draw: st.DrawFn, *, first: str | None = None) -> Case:
    timeout = draw(st.sampled_from([INF, INF, 6]))
    first = draw(st.sampled_from(["enter", "silent"])) if first is None else first
    policies = draw(st.lists(policies_of(timeout, first), min_size=1, max_size=4))
    steps = st.tuples(st.sampled_from("abc"), st.integers(1, 7), st.sampled_from([None, 5, 9, 10, 15, 15, 20, 21, 25]))
    clocks = dict.fromkeys("abc", 0)
    rows: list[Row] = [("a", 0, draw(st.sampled_from([5, 15])))]  # times have a type from here on
    for object, step, x in draw(st.lists(steps, min_size=1, max_size=24)):
        clocks[object] += step
        rows.append((object, clocks[object], x))
    return Case(dict(enumerate(policies)), sorted(rows, key=lambda row: row[1]))


def run(case: Case, *, batches: list[list[Row]] | None = None, detect: str = ALL) -> list[dict[str, Any]]:
    """The events that a Monitor reports of rows, in one batch or in these, and of time after them."""
    monitor = monitor_of(case.policies, detect)
    found = [monitor.update(table_of(batch)) for batch in ([case.rows] if batches is None else batches)]
    found.append(monitor.advance(instant(case.end)))
    return [event for table in found for event in table.to_pylist()]


def identities(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What must be the same however events came about, in one order."""
    return sorted((event["event_id"], *facts_of([event])[0]) for event in events)


def by_pair(events: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Detect and time of enters, exits and crosses of each pair, in the order in which they were reported."""
    found: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for rule, object, detect, time, *_ in facts_of(events):
        if detect != "inside":
            found.setdefault((rule, object), []).append((detect, time))
    return found


def of_oracle(case: Case) -> list[tuple[Any, ...]]:
    """The facts that the oracle of one object and one rule has, played for all of them."""
    facts = []
    for id, policy in case.policies.items():
        for object in sorted({row[0] for row in case.rows}):
            items = [("row", time, x) for name, time, x in case.rows if name == object]
            pair: Pair = play(policy, [*items, ("tick", case.end)])
            for (detect, time, reason), since in zip(pair.out, pair.since_of, strict=True):
                facts.append((id, object, detect, int(time), reason, int(since)))
    return sorted(facts, key=str)


@examples(150)
@given(cases())
def test_the_walk_over_all_instants_agrees_with_the_oracle_and_the_monitor(case: Case) -> None:
    walked = sorted(walk(case.policies, case.rows, case.end - 1), key=str)
    assert walked == of_oracle(case)
    assert sorted(facts_of(run(case, detect="enter,exit")), key=str) == walked


@given(cases(first="enter"))
def test_law_1_enters_and_exits_of_a_pair_alternate_and_an_enter_is_first(case: Case) -> None:
    for told in by_pair(run(case)).values():
        kinds = [detect for detect, _ in told if detect != "cross"]
        assert kinds == (["enter", "exit"] * len(kinds))[: len(kinds)]


@given(cases(), st.data())
def test_law_2_the_times_of_a_pair_do_not_fall_even_if_a_tick_was_untrue(case: Case, data: st.DataObject) -> None:
    monitor, found = monitor_of(case.policies), []
    for row in case.rows:
        found += monitor.update(table_of([row])).to_pylist()
        if data.draw(st.booleans()):
            found += monitor.advance(instant(row[1] + data.draw(st.integers(0, 9)))).to_pylist()
    for told in by_pair(found).values():
        assert [time for _, time in told] == sorted(time for _, time in told)


@given(cases(), st.data())
def test_law_3_true_ticks_change_no_event(case: Case, data: st.DataObject) -> None:
    monitor, found = monitor_of(case.policies, ALL), []
    for row, following in pairwise([*case.rows, ("", case.end, None)]):
        found += monitor.update(table_of([row])).to_pylist()
        if data.draw(st.booleans()):
            found += monitor.advance(instant(data.draw(st.integers(row[1], following[1])))).to_pylist()
    found += monitor.advance(instant(case.end)).to_pylist()
    assert identities(found) == identities(run(case))


@given(cases())
def test_law_4_no_enter_before_the_cooldown_is_over(case: Case) -> None:
    for (rule, _), told in by_pair(run(case)).items():
        for (_, before), (detect, time) in pairwise(told):
            assert detect != "enter" or time - before >= case.policies[rule].cooldown


@given(cases())
def test_law_5_options_that_are_zero_are_the_undamped_operator(case: Case) -> None:
    nothing: dict[str, Any] = {"for_": 0, "for_rows": 1, "keep": 0, "keep_rows": 1, "cooldown": 0, "limit": INF}
    plain = Case({id: replace(policy, **nothing, stay=None) for id, policy in case.policies.items()}, case.rows)
    rules = fp.Rules()
    zero = timedelta(0)
    for id, policy in plain.policies.items():
        options = {"for_": zero, "keep_firing_for": zero, "cooldown": zero, "stay": condition_of(policy)}
        rules.add(id, condition_of(policy), **{**options, **options_of(policy, ALL)})
    one = next(iter(plain.policies.values()))
    monitor = fp.Monitor(
        rules,
        object="o",
        time="t",
        timeout=None if one.timeout == INF else timedelta(seconds=one.timeout),
        first="silent" if one.first == "silent" else "enter",
        schema={"x": "double"},
    )
    found = monitor.update(table_of(case.rows)).to_pylist()
    found += monitor.advance(instant(case.end)).to_pylist()
    for event in found:
        assert event.pop("since") is None
    assert found == run(plain), "event for event, id for id, in the same order"


@given(cases(), st.data())
def test_law_6_how_rows_are_cut_into_batches_changes_no_event(case: Case, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(case.rows)))))
    batches = [case.rows[one:other] for one, other in pairwise([0, *cuts, len(case.rows)]) if other > one]
    assert identities(run(case, batches=batches)) == identities(run(case))


@examples(15)
@given(cases(first="enter"), st.data())
def test_law_7_a_backtest_and_a_monitor_that_is_saved_and_loaded_give_the_same_ids(
    tmp_path_factory: Any, case: Case, data: st.DataObject
) -> None:
    folder: Path = tmp_path_factory.mktemp("law")
    rules = fp.Rules()
    for id, policy in case.policies.items():
        rules.add(id, condition_of(policy), **options_of(policy, ALL))
    rules.publish(folder / "rules", {"x": "double"})
    rows = [row for row in case.rows if row[2] is not None]
    pq.write_table(table_of(rows), folder / "rows.parquet")
    timeout = next(iter(case.policies.values())).timeout
    given_timeout = [] if timeout == INF else ["--timeout", f"{timeout} seconds"]
    named = ["--object", "o", "--time", "t", "--events", str(folder / "events.jsonl"), *given_timeout]
    done = CliRunner().invoke(app, ["backtest", str(folder / "rows.parquet"), "--rules", str(folder / "rules"), *named])
    assert done.exit_code == 0, done.output
    told = [json.loads(line)["event_id"] for line in (folder / "events.jsonl").read_text().splitlines()]

    monitor, ids = monitor_of(case.policies, ALL), []
    for row in rows:
        ids += monitor.update(table_of([row]))["event_id"].to_pylist()
        if data.draw(st.booleans()):
            monitor.save(folder / "state", rules=True)
            monitor = fp.Monitor.load(folder / "state")
    whole = monitor_of(case.policies, ALL).update(table_of(rows))["event_id"].to_pylist()
    assert sorted(ids) == sorted(whole)
    assert sorted(told) == sorted(whole)
