"""The pages of the console with a large book against the same pages with ten rules: bytes that are sent, and time."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from benchmarks.harness import Report
from fencepost.book import RuleBook
from fencepost.console import make_console
from fencepost.console.engine import EngineSource
from fencepost.console.source import EventFilter
from fencepost.monitor import Monitor

__all__ = ["run"]

PAGES = {
    "overview": "/",
    "rules": "/rules",
    "rules from the middle": "/rules?after={middle}",
    "rules of a label that none has": "/rules?label=desk%3D77",
    "rules that are paused, where none is": "/rules?state=paused",
    "rules of a label": "/rules?label=desk%3D3",
    "rules by text": "/rules?q=price+%3E%3D",
    "rules by a text that none has": "/rules?q=BETWEEN",
    "rules by the beginning of a name": "/rules?q=rule+5",
    "rules that hold at a price": "/rules?holds=price+%3D+10.1%2C+symbol+%3D+S0000",
    "a rule": "/rules/5",
    "a new rule": "/rules/new",
    "import": "/rules/import",
    "objects": "/objects",
    "an object": "/object?name=S0000",
    "events": "/events",
    "events of a rule, by its name": "/events?rule=rule+5",
    "why an event": "/events/{event}",
    "versions": "/versions",
    "a version": "/versions/1",
    "what a version changed": "/versions/diff?from=1&to=2",
    "what publishing would change": "/versions/preview",
}
_ROUNDS = 25
_KILOBYTES = 100.0
_GOAL = 1.5


@contextmanager
def opened(home: Path, rules: int) -> Iterator[Any]:
    """The pages of an engine with so many rules, and the same objects and events."""
    rng = np.random.default_rng(1)
    ids = np.arange(rules)
    lows = 10 + np.arange(rules) * 0.0625  # each rule is inside at its own price
    table = {
        "rule_id": ids,
        "name": [f"rule {id}" for id in ids],
        "symbol": [f"S{id % 10 if id < 10 else rng.integers(10, 5_000):04}" for id in ids],
        "low": lows,
        "high": lows + 0.05,
        "labels": [{"desk": str(id % 10)} for id in ids],
    }
    with RuleBook(f"sqlite:///{home}/rules.db", author="ann") as book:
        columns: dict[str, Any] = {"name_column": "name", "labels_column": "labels"}
        book.add_table(table, equal=["symbol"], ranges={"price": ("low", "high")}, detect="enter,exit", **columns)
        book.publish(home / "published", {"symbol": "string", "price": "double"})
        book.replace(9, "symbol = 'S0009' AND price > 1000", detect="enter,exit", name="rule 9")
        book.publish(home / "published")
        book.replace(9, "symbol = 'S0009' AND price > 1001", detect="enter,exit", name="rule 9")
        source = EngineSource(book, Monitor(book, object="symbol", time="ts"), home / "published")
        while book.search(text="no rule has this").looked_at is not None:  # which begins to read the texts
            time.sleep(0.1)
        begin = datetime.now(UTC) - timedelta(seconds=400)
        for step in range(400):
            rows = {
                "symbol": [f"S{n:04}" for n in range(10)],
                "ts": [begin + timedelta(seconds=step)] * 10,
                "price": [10 + n * 0.0625 + 0.02 + 0.1 * (step % 2) for n in range(10)],
            }
            source.take(rows)
        yield make_console(source), source.events.last(1, EventFilter())[0].fields["event_id"]


class Client:
    """Asks an application in this process, as a browser does."""

    def __init__(self, app: Any) -> None:
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")

    async def ask(self, path: str) -> tuple[int, float]:
        """Bytes that are sent, and milliseconds of this process until the answer is whole."""
        started = time.process_time()
        async with self._client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
            sent = b"".join([part async for part in answer.aiter_raw()])
        taken = time.process_time() - started
        assert answer.status_code == 200, (path, answer.status_code)
        return len(sent), taken * 1e3


async def measure(few: Any, many: Any, size: int, report: Report) -> None:
    """Ask both for every page in turns; the least time of each counts."""
    clients = {which: Client(app) for which, (app, _) in (("few", few), ("many", many))}
    known = {
        "few": {"middle": 4, "event": few[1]},
        "many": {"middle": size // 2, "event": many[1]},
    }
    for name, path in PAGES.items():
        times: dict[str, list[float]] = {"few": [], "many": []}
        sent: dict[str, int] = {}
        for _ in range(_ROUNDS):
            for which, client in clients.items():
                sent[which], taken = await client.ask(path.format(**known[which]))
                times[which].append(taken)
        least = {which: min(taken) for which, taken in times.items()}
        report.at_most(f"{name}: sent", sent["many"] / 1e3, _KILOBYTES, " kB")
        report.at_most(f"{name}: bytes, against ten rules", sent["many"] / sent["few"], _GOAL)
        report.at_most(f"{name}: CPU time, against ten rules", least["many"] / least["few"], _GOAL)
        report.note(f"{name}: CPU time", f"{least['many']:,.1f} ms")


def run(full: bool) -> list[Report]:
    """One report; `full` takes a million rules instead of 100,000."""
    size = 1_000_000 if full else 100_000
    report = Report(f"Console: pages with {size:,} rules beside the same with 10")
    with (
        tempfile.TemporaryDirectory() as first,
        tempfile.TemporaryDirectory() as second,
        opened(Path(first), 10) as few,
        opened(Path(second), size) as many,
    ):
        asyncio.run(measure(few, many, size, report))
    return [report]
