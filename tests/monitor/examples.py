"""Monitors of few rules, and their events in short, for tests by example."""

from typing import Any

import pytest

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules

ONE = {"vehicle": [7], "ts": [1], "x": [1.0]}


def monitor_of(*conditions: str, **settings: Any) -> Monitor:
    given = Rules()
    for id, condition in enumerate(conditions, start=1):
        given.add(id, condition, detect="inside,enter,exit,cross")
    return Monitor(given, **{"object": "vehicle", "time": "ts", **settings})


def summarize(events: Any) -> list[tuple[Any, ...]]:
    return [(e["object"], e["rule_id"], e["detect"], e["time"], e["reason"]) for e in events.to_pylist()]


def refusal(call: Any) -> str:
    with pytest.raises(FencepostError) as caught:
        call()
    return str(caught.value)
