"""Rules, snapshots and the monitor: parsing, compiling, loading, matching and watching keyed price ranges."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, interleaved, once
from benchmarks.jumps import jumping
from fencepost.language import parse
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from fencepost.snapshot import Snapshot

__all__ = ["run"]

SYMBOLS = 10_000
BATCH = 100_000
CHANGES = 10_000
SWING = 0.0043
REPEATS = 200
FEW_ROWS = {1: 30, 100: 60, 1000: 250}
"""Microseconds that `match` of so many rows may take at a million rules."""
FEW_UPDATED = {1: 40, 100: 200}
"""The same of `Monitor.update`, with as many objects as rules."""


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
    compiling = interleaved({"compile": lambda: built(given)}, rounds=3)["compile"]
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
    report.headline(
        f"`match`: {n:,} rules with a key, {matches:.0f} match a row", "", f"{BATCH / matching / 1e6:.1f} M rows/s"
    )
    watching(given)  # a first run compiles
    reports = [report, parsing(100_000 if full else 20_000), watching(given), readable_events(given)]
    return [*reports, few_rows(given, snapshot), single_rows(), jumping()]


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


def watching(given: Market) -> Report:
    """The monitor on prices that move in small steps, one row at a time, and while rules change."""
    n = given.rules.num_rows
    report = Report(f"Monitor: {n:,} keyed price ranges, {SYMBOLS:,} objects, batches of {BATCH:,} rows")
    ranges = {"price": ("lower", "upper")}
    rules = Rules.from_table(given.rules, id="rule_id", equal=["symbol"], ranges=ranges, detect="enter,exit")
    monitor = Monitor(rules, object="symbol", time="ts")
    batches = [move_ticks(given.ticks, number) for number in range(7)]  # about one event per row
    monitor.update(batches[0])
    events, seconds = [], []
    for batch in batches[1:]:
        seconds.append(once(lambda batch=batch: events.append(monitor.update(batch).num_rows)))  # type: ignore[misc]
    rate = BATCH / float(np.median(seconds)) / 1e6
    each = np.mean(events) / BATCH
    report.at_least(f"update, {each:.2f} events per row", rate, 1, " M rows/s")
    report.headline(f"`Monitor`: {n:,} rules with a key, {each:.1f} events a row", "", f"{rate:.1f} M rows/s")
    single = move_ticks(given.ticks, 7).slice(0, 2000).to_pylist()
    one = once(lambda: [monitor.update_one(row["symbol"], row["ts"], price=row["price"]) for row in single])
    report.at_most("update_one", one / len(single) * 1e6, 12, " µs")
    changed = {
        "rule_id": np.arange(n - CHANGES // 2, n + CHANGES // 2),
        "symbol": [f"SYM{i % SYMBOLS:05d}" for i in range(CHANGES)],
        "lower": np.arange(CHANGES, dtype=np.float64),
        "upper": np.arange(CHANGES) + 1.0,
    }
    edited = Rules.from_table(changed, equal=["symbol"], ranges=ranges, detect="enter,exit")
    later = [move_ticks(given.ticks, number) for number in (8, 9)]
    changing = once(lambda: monitor.change(edited))
    changing += once(lambda: monitor.update(later[0])) - float(np.median(seconds))
    report.at_most(f"{CHANGES:,} rules edited or added at once, visible to the next update", changing * 1e3, 200, " ms")
    added = [(2 * n + i, f"symbol = 'SYM{i % SYMBOLS:05d}' AND price BETWEEN {i} AND {i + 1}") for i in range(CHANGES)]
    singly = once(lambda: [monitor.add(id, condition) for id, condition in added])
    singly += once(lambda: monitor.update(later[1])) - float(np.median(seconds))
    report.note(f"  {CHANGES:,} rules added as text, one by one", f"{singly * 1e3:,.0f} ms")
    rules.compile()
    for number in range(CHANGES // 10):
        rules.replace(number, f"symbol = 'SYM{number:05d}' AND price > {number}", detect="enter,exit")
    anew = once(lambda: rules.compile())
    report.note(f"  compile after {CHANGES // 10:,} edits of Rules", f"{anew * 1e3:,.0f} ms")
    return report


def readable_events(given: Market) -> Report:
    """Events with the name and the labels of their rule and two columns of the row, beside plain ones."""
    n = given.rules.num_rows
    report = Report(f"Monitor: events with labels, name, keys and two columns, {n:,} keyed price ranges")
    texts = pa.array([f"rule {id}" for id in range(n)])
    labels = pa.array([f'{{"desk": "{id % 40}", "owner": "o{id % 1000}"}}' for id in range(n)])
    table = given.rules.append_column("name", texts).append_column("labels", labels)
    ranges = {"price": ("lower", "upper")}
    options = {"name": "name", "labels": "labels"}
    rules = Rules.from_table(table, equal=["symbol"], ranges=ranges, detect="enter,exit", options=options)
    snapshot = rules.compile()
    plain = Monitor(snapshot, object="symbol", time="ts")
    readable = Monitor(snapshot, object="symbol", time="ts", labels=True, carry=["flight", "gate"])
    flights = pa.array([f"F{row % 5000}" for row in range(BATCH)])
    gates = pa.array([f"G{row % 50}" for row in range(BATCH)])
    seconds: dict[str, list[float]] = {"plain": [], "readable": []}
    for number in range(8):
        batch = move_ticks(given.ticks, number).append_column("flight", flights).append_column("gate", gates)
        counts = []
        for name, monitor in (("plain", plain), ("readable", readable)):
            taken = once(lambda: counts.append(monitor.update(batch).num_rows))  # noqa: B023
            if number:  # the first batch knows no object yet
                seconds[name].append(taken)
        assert counts[0] == counts[1], "another number of events"
    ratio = float(np.median(seconds["readable"])) / float(np.median(seconds["plain"]))
    report.at_most("update, against plain events", ratio, 1.1)
    return report


def few_rows(given: Market, snapshot: Snapshot) -> Report:
    """Few rows at a time, as many objects as rules; the goals are for a million of each."""
    n = given.rules.num_rows
    sizes = "" if n == 1_000_000 else ", whose goals are for a million"
    report = Report(f"Few rows at a time: {n:,} keyed price ranges, {n:,} objects{sizes}")
    ticks = given.ticks.combine_chunks()
    matching = {str(rows): _repeated(snapshot.match, ticks.slice(0, rows)) for rows in FEW_ROWS}
    for rows, seconds in interleaved(matching).items():
        report.at_most(f"match, rows: {rows}", seconds / REPEATS * 1e6, FEW_ROWS[int(rows)], " µs")
    ranges = {"price": ("lower", "upper")}
    rules = Rules.from_table(given.rules, id="rule_id", equal=["symbol"], ranges=ranges, detect="enter,exit")
    monitor = Monitor(rules, object="id")
    symbols = np.resize(ticks["symbol"].to_numpy(), n)
    monitor.update(pa.table({"id": np.arange(n), "symbol": symbols, "price": np.full(n, -1.0)}))  # in no range
    price = ticks["price"].to_numpy()
    steps = [
        pa.table({"id": np.arange(BATCH), "symbol": ticks["symbol"], "price": price * moved}) for moved in (1.0, 1.001)
    ]
    updating = {str(rows): _alternating(monitor, [step.slice(0, rows) for step in steps]) for rows in FEW_UPDATED}
    for rows, seconds in interleaved(updating).items():
        report.at_most(f"Monitor.update, rows: {rows}", seconds / REPEATS * 1e6, FEW_UPDATED[int(rows)], " µs")
    return report


def _alternating(monitor: Monitor, batches: list[pa.Table]) -> Callable[[], None]:
    """Updates with one batch after the other, often enough to be measured."""

    def repeated() -> None:
        for number in range(REPEATS):
            monitor.update(batches[number % len(batches)])

    return repeated


def single_rows() -> Report:
    """What one row costs may depend on what it finds, not on how many rules or objects there are."""
    report = Report("One row at a time: a million rules or objects / ten thousand of them")
    row = {"symbol": ["SYM00000"], "price": [-1.0]}  # below every range
    few, many = (built(market(n)) for n in (10_000, 1_000_000))
    assert len(few.match(row).ids) == len(many.match(row).ids) == 0, "nothing is found, so only the search counts"
    taken = interleaved({"few": _repeated(few.match, row), "many": _repeated(many.match, row)})
    report.at_most(f"match of one row ({taken['many'] / REPEATS * 1e6:,.0f} µs)", taken["many"] / taken["few"], 1.5)
    rules = Rules.from_dicts([{"id": 1, "condition": "price > 5", "detect": "enter,exit"}])
    updates = {}
    for name, objects in (("few", 10_000), ("many", 1_000_000)):
        monitor = Monitor(rules, object="id")
        monitor.update({"id": np.arange(objects), "price": np.zeros(objects)})
        updates[name] = _repeated(monitor.update, pa.table({"id": [7], "price": [1.0]}))
    taken = interleaved(updates)
    report.at_most(f"update of one row ({taken['many'] / REPEATS * 1e6:,.0f} µs)", taken["many"] / taken["few"], 1.5)
    return report


def _repeated(call: Callable[[Any], Any], given: Any) -> Callable[[], None]:
    """The call, often enough to be measured."""

    def repeated() -> None:
        for _ in range(REPEATS):
            call(given)

    return repeated


def move_ticks(ticks: pa.Table, number: int) -> pa.Table:
    """The ticks of one batch: every price swings around its own."""
    position = number * BATCH + np.arange(BATCH)
    names, symbol = np.unique(ticks["symbol"].to_numpy(), return_inverse=True)
    first = np.zeros(len(names))
    first[symbol] = ticks["price"].to_numpy()
    price = first[symbol] * (1 + SWING * np.sin(position / BATCH * 2 * np.pi + symbol))
    return pa.table({"symbol": ticks["symbol"], "price": price, "ts": position})
