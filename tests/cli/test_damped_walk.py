"""The walk that `fencepost verify` takes over damped pairs, against a Monitor and the examples of docs/damping.md."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import fencepost as fp
from fencepost.cli.damped_walk import Lengths, lengths_of, walk
from fencepost.rules.damping import Damping
from tests.damping.oracle import INF, Policy
from tests.damping.played import facts_of, monitor_of, table_of
from tests.damping.test_laws import ALL, Case, cases

TIMES = pa.timestamp("us")


def walked(policy: Policy, rows: list[tuple[str, int, float | None]]) -> list[tuple[str, int]]:
    """What the walk finds for one object."""
    limit = None if policy.limit == INF else int(policy.limit)
    for_, keep, cooldown = map(int, (policy.for_, policy.keep, policy.cooldown))
    lengths = Lengths(for_, policy.for_rows, keep, policy.keep_rows, cooldown, limit)
    low, high = policy.stay or (policy.lo, policy.hi)
    known = [(time, policy.lo <= x <= policy.hi, low <= x <= high) for _, time, x in rows if x is not None]
    return walk(lengths, known, None if policy.timeout == INF else int(policy.timeout))


@given(cases(first="enter"))
def test_it_finds_what_a_monitor_reports(case: Case) -> None:
    policies = {id: replace(policy, crosses=False, expires=INF) for id, policy in case.policies.items()}
    reported = facts_of(monitor_of(policies, ALL).update(table_of(case.rows)))
    for id, policy in policies.items():
        for object in "abc":
            mine = [row for row in case.rows if row[0] == object]
            expected = sorted(
                (detect, time) for rule, name, detect, time, *_ in reported if (rule, name) == (id, object)
            )
            assert sorted(walked(policy, mine)) == expected


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from([5.0, 15.0, 21.0])), min_size=1), st.integers(1, 9))
def test_every(steps: list[tuple[int, float]], every: int) -> None:
    rules = fp.Rules()
    options: dict[str, Any] = {"every": every, "for_": 2, "stay": "x BETWEEN 8 AND 22"}
    rules.add(7, "x BETWEEN 10 AND 20", detect="inside", **options)
    time, rows = 0, []
    for step, x in steps:
        time += step
        rows.append((time, x))
    monitor = fp.Monitor(rules, object="o", time="t")
    found = monitor.update({"o": [1] * len(rows), "t": [row[0] for row in rows], "x": [row[1] for row in rows]})
    known = [(time, 10 <= x <= 20, 8 <= x <= 22) for time, x in rows]
    inside = [time for kind, time in walk(Lengths(hold=2, every=every), known, None) if kind == "inside"]
    assert inside == found["time"].to_pylist()


def test_lengths_are_in_the_unit_of_times() -> None:
    damping = Damping(for_="3 rows", keep_firing_for="36 hours", cooldown="1 minute", limit=3, every="1 second")
    assert lengths_of(damping, TIMES) == Lengths(0, 3, 129_600_000_000, 1, 60_000_000, 3, 1_000_000)
    assert lengths_of(damping, pa.date32())[:5] == (0, 3, 2, 1, 1)
    assert lengths_of(Damping(for_=5), pa.int64()) == Lengths(hold=5)
