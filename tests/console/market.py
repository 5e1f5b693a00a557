"""A small market for the pages: rules, prices that move the same way every time, and an engine that watches them."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fencepost.book import RuleBook
from fencepost.console.engine import EngineSource
from fencepost.monitor import Monitor

SYMBOLS = ("IBM", "SAP", "MSFT", "ORCL", "NVDA", "INTC", "TSLA", "CSCO")
_BASES = (46.0, 100.0, 310.0, 61.0, 88.0, 24.0, 205.0, 49.0)


@contextmanager
def open_market(directory: Path) -> Iterator["Market"]:
    """A market whose book and versions are in a directory."""
    with RuleBook(f"sqlite:///{directory / 'rules.db'}", author="ann") as book:
        yield Market(book, directory)


class Market:
    """Rules, prices and an engine."""

    def __init__(self, book: RuleBook, directory: Path) -> None:
        self.book = book
        self._add_rules()
        self.monitor = Monitor(book, object="symbol", time="ts")
        self.source = EngineSource(book, self.monitor, directory / "published", title="Market watch")
        self.published = directory / "published"
        self._steps = 0

    def _add_rules(self) -> None:
        both = "enter,exit"
        add = self.book.add
        add("ibm floor", "symbol = 'IBM' AND price BETWEEN 40 AND 46", detect=both, labels={"desk": "4"})
        add("sap breakout", "symbol = 'SAP' AND (price < 96 OR price > 104)", detect=both,
            for_="3 seconds", labels={"desk": "2", "team": "risk"})  # fmt: skip
        add("nvda corridor", "symbol = 'NVDA' AND price BETWEEN 80 AND 90", detect=both, margin={"price": 0.5},
            labels={"desk": "4"})  # fmt: skip
        add("penny watch", "price < 23.5", detect="enter", cooldown="1 minute", labels={"desk": "2"})
        add("big prints", "volume >= 900", detect="inside", labels={"team": "flow"})
        add("tesla gap", "symbol = 'TSLA' AND price BETWEEN 208 AND 212", detect="enter,exit,cross")
        self.book.replace("ibm floor", "symbol = 'IBM' AND price BETWEEN 42 AND 46", detect=both,
                          labels={"desk": "4"}, author="bob")  # fmt: skip
        self.book.pause("big prints", author="bob")

    def rows(self, at: datetime) -> dict[str, list[Any]]:
        """The next row of every symbol."""
        step = self._steps
        self._steps += 1
        prices = [
            round(base * (1 + 0.06 * math.sin(step / (11 + 3 * n) + n) + 0.008 * math.sin(step * 1.7 + n)), 2)
            for n, base in enumerate(_BASES)
        ]
        volumes = [int(500 + 450 * math.sin(step * 0.9 + n)) for n in range(len(SYMBOLS))]
        return {"symbol": list(SYMBOLS), "ts": [at] * len(SYMBOLS), "price": prices, "volume": volumes}

    def play(self, steps: int, seconds: float = 1.0) -> None:
        """Let time pass that ends now."""
        begin = datetime.now(UTC) - timedelta(seconds=seconds * steps)
        for step in range(steps):
            self.source.take(self.rows(begin + timedelta(seconds=seconds * (step + 1))))
