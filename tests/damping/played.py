"""Items of the oracle, played to a Monitor: ordinals of time are milliseconds, so that rules can expire."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import fencepost as fp
from tests.damping.oracle import INF, Policy

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
DETECT = "enter,exit"


def instant(time: float) -> datetime:
    """A time of the oracle as an instant."""
    return EPOCH + timedelta(seconds=time)


def seconds(at: datetime) -> int:
    """The other way round."""
    return round((at - EPOCH).total_seconds())


def condition_of(policy: Policy) -> str:
    """The condition of a rule."""
    return f"x BETWEEN {policy.lo} AND {policy.hi}"


def options_of(policy: Policy, detect: str = DETECT) -> dict[str, Any]:
    """The options of a rule."""
    options: dict[str, Any] = {"detect": f"{detect},cross" if policy.crosses else detect}
    for name, time, rows in (
        ("for_", policy.for_, policy.for_rows),
        ("keep_firing_for", policy.keep, policy.keep_rows),
    ):
        if time or rows > 1:
            options[name] = timedelta(seconds=time) if time else f"{rows} rows"
    if policy.cooldown:
        options["cooldown"] = timedelta(seconds=policy.cooldown)
    if policy.stay is not None:
        options["stay"] = f"x BETWEEN {policy.stay[0]} AND {policy.stay[1]}"
    if policy.limit != INF:
        options["limit"] = int(policy.limit)
    if policy.expires != INF:
        options["expires"] = instant(policy.expires)
    if policy.initial:
        options["initial"] = True
    return options


def monitor_of(policies: dict[int, Policy], detect: str = DETECT) -> fp.Monitor:
    """A Monitor with a rule per policy; timeout and first are those of the first."""
    rules = fp.Rules()
    for id, policy in policies.items():
        rules.add(id, condition_of(policy), **options_of(policy, detect))
    one = next(iter(policies.values()))
    timeout = None if one.timeout == INF else timedelta(seconds=one.timeout)
    first: Any = one.first
    return fp.Monitor(rules, object="o", time="t", timeout=timeout, first=first, schema={"x": "double"})


def table_of(rows: Sequence[tuple[Any, float, float | None]]) -> pa.Table:
    """Rows of objects as a table."""
    return pa.table(
        {
            "o": pa.array([row[0] for row in rows], pa.string()),
            "t": pa.array([instant(row[1]) for row in rows], pa.timestamp("us", "UTC")),
            "x": pa.array([row[2] for row in rows], pa.float64()),
        }
    )


def facts_of(events: Any) -> list[tuple[Any, ...]]:
    """What the oracle says of events, a table or dicts, too: rule, object, detect, time, reason and since."""
    return [
        (
            event["rule_id"],
            event["object"],
            event["detect"],
            seconds(event["time"]),
            event["reason"],
            seconds(event["time"] if event.get("since") is None else event["since"]),
        )
        for event in (events if isinstance(events, list) else events.to_pylist())
    ]
