"""bands on Spark: updates per CPU second of one core, rows of both sides alternating; bytes of state per trigger."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Report
from fencepost.rules import Rules
from fencepost.spark import bands

QUOTES = "row bigint, at bigint, symbol string, price double"
SYMBOLS = ("BMW", "SAP")
UPDATES = 400_000
EXTENT = 1000.0


def hotspot_rules(count: int, hotspots: int, seed: int = 5) -> Rules:
    """Bands around a few differences, a few hundredths wide."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-EXTENT / 20, EXTENT / 20, hotspots)[rng.integers(0, hotspots, count)]
    half = rng.exponential(0.02, count)
    rules = Rules()
    for id, (low, high) in enumerate(zip((centres - half).tolist(), (centres + half).tolist(), strict=True)):
        condition = f"left.price - right.price BETWEEN {low!r} AND {high!r} AND left.symbol = right.symbol"
        rules.add(id, condition, detect="enter,exit")
    return rules


class Quoted:
    """Two streams of files, one per trigger, in which rows of every symbol drift."""

    BUCKETS = 8

    def __init__(self, path: Path, rows: int) -> None:
        self.path, self._rows, self._files = path, rows, 0
        self._rng = np.random.default_rng(7)
        self._prices = {side: self._rng.uniform(0, EXTENT, (len(SYMBOLS), rows)) for side in ("left", "right")}
        for side in self._prices:
            (path / side).mkdir(parents=True)

    def put(self, updates: int, step: float) -> None:
        """A file a side, whose rows alternate in time; each moves by about a step."""
        for parity, (side, prices) in enumerate(self._prices.items()):
            flat = prices.reshape(-1)
            chosen = np.resize(self._rng.permutation(len(flat)), updates // 2)
            moves = self._rng.normal(0, step, len(chosen))
            drifted = np.empty(len(chosen))
            for begin in range(0, len(chosen), len(flat)):
                own = slice(begin, begin + len(flat))
                flat[chosen[own]] += moves[own]
                drifted[own] = flat[chosen[own]]
            self._write(side, chosen, self._files * 10**9 + 2 * np.arange(len(chosen)) + parity, drifted)
        self._files += 1

    def start(self, spark: Any, rules: Rules) -> Any:
        """Run a query on the files, which keeps nothing of what comes out."""
        left, right = (
            spark.readStream.schema(QUOTES).option("maxFilesPerTrigger", 1).parquet(f"{self.path}/{side}")
            for side in ("left", "right")
        )
        named: dict[str, Any] = {"object": "row", "time": "at", "key": "symbol", "first": "silent"}
        events = bands(left, right, rules, buckets=self.BUCKETS, observe="bands", **named)
        writer = events.writeStream.option("checkpointLocation", str(self.path / "checkpoint"))
        return writer.format("noop").start()

    def state_bytes(self) -> int:
        """Bytes below the state store's directory."""
        files = (self.path / "checkpoint" / "state").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file())

    def _write(self, side: str, chosen: npt.NDArray[Any], at: npt.NDArray[Any], prices: npt.NDArray[Any]) -> None:
        symbols = pa.array(SYMBOLS).take(pa.array(chosen // self._rows))
        table = {"row": chosen % self._rows, "at": at, "symbol": symbols, "price": prices}
        draft = self.path / side / f".{self._files}"
        pq.write_table(pa.table(table), draft)
        draft.rename(self.path / side / f"{self._files}.parquet")


def joining(
    spark: Any, scratch: Path, cpu_of: Callable[[Callable[[], object]], float], rows: int = 10_000, count: int = 10_000
) -> list[Report]:
    """Small moves, the fixed cost of a trigger taken off; bands around ten differences, and around a thousand.

    Args:
        spark: a session on one core.
        scratch: a directory.
        cpu_of: tells the CPU seconds of what it runs.
        rows: a side, per symbol.
        count: of rules.
    """
    reports = []
    for hotspots, updates in ((10, UPDATES), (1000, UPDATES // 20)):
        quoted = Quoted(scratch / f"bands{hotspots}", rows)
        quoted.put(2 * rows * len(SYMBOLS), 0)
        query = quoted.start(spark, hotspot_rules(count, hotspots))
        query.processAllAvailable()
        large: list[float] = []
        small: list[float] = []
        for _ in range(5):
            for amount, taken in ((200, small), (updates, large)):
                quoted.put(amount, 1e-5)
                taken.append(cpu_of(query.processAllAvailable))
        last = [each for each in query.recentProgress if each["numInputRows"] >= updates][-1]["observedMetrics"]
        query.stop()
        fixed, whole = float(np.median(small)), float(np.median(large))
        report = Report(f"bands: {rows:,} rows a side of each key, {count:,} rules around {hotspots:,} differences")
        rate = updates / (whole - fixed) / 1e3
        if hotspots == 10:
            report.at_least("updates per CPU second, sides alternating", rate, 50, " k")
        else:
            report.note("updates per CPU second, sides alternating", f"{rate:.2f} k")
        figures = last["bands"].asDict()
        report.note("  events per update", f"{(figures['enter'] + figures['exit']) / updates:.2f}")
        report.note(f"  a trigger of {updates:,} rows", f"{whole:.2f} CPU s")
        report.note("  a trigger of 200 rows", f"{fixed:.2f} CPU s")
        reports.append(report)
    return reports


def small_band_triggers(spark: Any, scratch: Path, held: int = 100_000, triggers: int = 12) -> Report:
    """State that a trigger of few rows writes, beside the state that it keeps."""
    quoted = Quoted(scratch / "small bands", held // 2 // len(SYMBOLS))
    quoted.put(held, 0)
    query = quoted.start(spark, hotspot_rules(100, 10))
    query.processAllAvailable()
    whole, written = quoted.state_bytes(), {}
    for updates in (2, 200, 2_000):
        grown = []
        for _ in range(triggers):
            before = quoted.state_bytes()
            quoted.put(updates, 1e-5)
            query.processAllAvailable()
            grown.append(quoted.state_bytes() - before)
        written[updates] = float(np.median(grown))
    query.stop()
    report = Report(f"bands: few rows per trigger at {held:,} rows of state, {Quoted.BUCKETS} buckets")
    report.at_most("bytes that 200 rows write, in percent of the state", 100 * written[200] / whole, 1, " %")
    report.note("  state of all rows", f"{whole / held:.1f} bytes per row")
    for updates, size in written.items():
        report.note(f"  a trigger of {updates:,} rows", f"{size / 1024:,.1f} KB of state written")
    return report
