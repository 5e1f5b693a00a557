"""A small application, checked by `mypy --strict`: what an editor knows about fencepost."""

import asyncio
from pathlib import Path

import fencepost as fp


def build() -> fp.Monitor:
    rules = fp.Rules()
    rules.add(7, "price < 40", detect="enter,exit", name="ibm floor", labels={"desk": "4"})
    rules.replace(7, "price < 41", detect=["enter"], expires=None)
    return fp.Monitor(rules, object="symbol", time="ts", first="silent")


def react(monitor: fp.Monitor, symbol: str, at: int, price: float) -> list[tuple[int, str, str]]:
    told = []
    for event in monitor.update_one(symbol, at, price=price):
        rule: fp.Rule = monitor.rules[event.rule_id]
        name: str | None = rule.name
        kind: str = event.detect
        told.append((event.rule_id, name or "", kind))
    return told


async def serve(monitor: fp.Monitor, path: Path) -> int:
    events = await monitor.aupdate_one("IBM", 3, price=39.0)
    table = await monitor.aupdate([{"symbol": "IBM", "ts": 4, "price": 42.0}])
    monitor.save(path, rules=True)
    again: fp.Monitor = fp.Monitor.load(path)
    return len(events) + int(table.num_rows) + len(again.rules)


def main(path: Path) -> None:
    monitor = build()
    react(monitor, "IBM", 1, 39.0)
    asyncio.run(serve(monitor, path))
    with fp.RuleBook("sqlite:///rules.db") as book:
        rule: fp.Rule = book.add(1, "price > 4")
        fp.Monitor(book, object="symbol").refresh()
        print(rule.version, fp.__version__)
