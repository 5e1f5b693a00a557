"""Monitors of one band, and their events in short, for tests by example."""

from typing import Any

from fencepost.monitor import Monitor
from fencepost.rules import Rules

CLOSE = "left.price - right.price BETWEEN -1 AND 1"
ROW = {"id": [1], "ts": [1], "price": [5.0]}


def monitor_of(condition: str, detect: str = "enter,exit", **settings: Any) -> Monitor:
    rules = Rules()
    rules.add(1, condition, detect=detect)
    return Monitor(rules, **{"object": "id", "time": "ts", **settings})


def summarize(table: Any) -> list[tuple[Any, ...]]:
    return [(e["detect"], e["object"], e["other"], e["time"], e["reason"]) for e in table.to_pylist()]
