"""Rules and snapshots: parsing, compiling, saving, loading and matching a million keyed price ranges."""

import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, interleaved, once
from fencepost.language import parse
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot

__all__ = ["run"]

SYMBOLS = 10_000
BATCH = 100_000


class Market(NamedTuple):
    """A table of price ranges and a batch of ticks, about five matches each."""

    rules: pa.Table
    ticks: pa.Table


def market(n: int, seed: int = 1) -> Market:
    """`n` ranges around the prices of `SYMBOLS` symbols."""
    rng = np.random.default_rng(seed)
    names = np.array([f"SYM{number:05d}" for number in range(SYMBOLS)])
    base = rng.lognormal(4, 1, SYMBOLS)
    symbol, of = rng.integers(0, SYMBOLS, n), rng.integers(0, SYMBOLS, BATCH)
    lower = base[symbol] * rng.normal(1, 0.1, n)
    upper = lower + base[symbol] * rng.uniform(0.001, 0.03, n) * 1_000_000 / n
    rules = {"rule_id": np.arange(n), "symbol": names[symbol], "lower": lower, "upper": upper}
    return Market(pa.table(rules), pa.table({"symbol": names[of], "price": base[of] * rng.normal(1, 0.05, BATCH)}))


def built(given: Market) -> Snapshot:
    """The ranges as a compiled snapshot."""
    rules = Rules.from_table(given.rules, id="rule_id", equal=["symbol"], ranges={"price": ("lower", "upper")})
    return rules.compile()


def run(full: bool) -> list[Report]:
    """All reports; `full` takes a million rules instead of 300,000."""
    n = 1_000_000 if full else 300_000
    given = market(n)
    report = Report(f"Rules and snapshots: {n:,} keyed price ranges, batches of {BATCH:,} rows")
    compiling = once(lambda: built(given))
    report.at_most("from_table + compile", compiling, 5 * n / 1_000_000, " s")
    snapshot = built(given)
    matches = len(snapshot.match(given.ticks).ids) / BATCH
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "snapshot"
        snapshot.save(path)
        size = sum(file.stat().st_size for file in path.iterdir())
        report.at_most("on disk, per rule", size / n, 160, " bytes")
        first = given.ticks.slice(0, 1)
        loading = interleaved({"load": lambda: Snapshot.load(path).match(first)})["load"]
        report.at_most("load, verified, to the first answer", loading * 1e3, 50, " ms")
        loaded = Snapshot.load(path)
        assert np.array_equal(loaded.match(given.ticks).ids, snapshot.match(given.ticks).ids), "another answer"
    matching = interleaved({"match": lambda: snapshot.match(given.ticks)})["match"]
    report.at_least(f"match, {matches:.1f} rules per row", BATCH / matching / 1e6, 5, " M rows/s")
    return [report, parsing(100_000 if full else 20_000)]


def parsing(n: int) -> Report:
    """Conditions that differ only in constants, and conditions of many shapes."""
    report = Report(f"Parsing {n:,} distinct conditions")
    rng = np.random.default_rng(3)
    prices = rng.uniform(1, 1000, (n, 2)).round(2).tolist()
    alike = [f"symbol = 'S{i}' AND price BETWEEN {low} AND {low + width}" for i, (low, width) in enumerate(prices)]
    comparisons = ("<", "<=", ">", ">=")
    columns = [f"c{i}" for i in range(120)]
    shapes = [
        " OR ".join(
            f"({columns[a]} {comparisons[b % 4]} {c} AND {columns[60 + d]} > {e})"
            for a, b, c, d, e in rng.integers(0, 60, (int(rng.integers(1, 4)), 5)).tolist()
        )
        for _ in range(n)
    ]
    for what, texts in (("alike but for constants", alike), ("of many shapes", shapes)):
        seconds = once(lambda texts=texts: [parse(text) for text in texts])  # type: ignore[misc]
        report.at_most(what, seconds * 100_000 / n, 20, " s per 100,000")
    return report
