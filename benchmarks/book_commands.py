"""A book of very many rules in daily use: mirrored from a table, checked, and asked with a mistake in the command."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import Report, once
from fencepost.book import RuleBook

__all__ = ["run"]

CHANGES = 1000
_SORTS, _SYNC, _COMMAND = 10, 5, 2
_PIPELINE = """
[source]
format = "json"
path = "rows"
schema = { symbol = "string", price = "double", ts = "bigint" }

[rules]
book = "sqlite:///rules.db"

[operator]
kind = "watch"
object = "symbol"
time = "ts"

[sink]
format = "json"
path = "events"
checkpoint = "checkpoint"
"""


def ranges(n: int, changes: int = 0) -> pa.Table:
    """Keyed price ranges, of which some are other than in the table without changes."""
    rng = np.random.default_rng(1)
    lows, symbols = rng.uniform(1, 1000, n).round(2), rng.integers(0, 10_000, n)
    lows[np.random.default_rng(2).choice(n, changes, replace=False)] += 1
    names = np.array([f"SYM{number:05d}" for number in range(10_000)])[symbols]
    return pa.table({"rule_id": np.arange(n), "symbol": names, "lower": lows, "upper": lows + 5})


def run(full: bool) -> list[Report]:
    """One report; `full` takes a million rules instead of 100,000."""
    n = 1_000_000 if full else 100_000
    report = Report(f"A book of {n:,} rules: sync of {CHANGES:,} changes, and commands")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        # What is kept for later commands is part of what is measured, and must not come from an earlier run.
        before, os.environ["FENCEPOST_CACHE"] = os.environ.get("FENCEPOST_CACHE"), str(home / "cache")
        try:
            _syncing(report, home, n)
            _commands(report, home)
        finally:
            if before is None:
                del os.environ["FENCEPOST_CACHE"]
            else:
                os.environ["FENCEPOST_CACHE"] = before
    return [report]


def _syncing(report: Report, home: Path, n: int) -> None:
    bounds = {"price": ("lower", "upper")}
    pq.write_table(ranges(n, CHANGES), home / "changed.parquet")
    with RuleBook(f"sqlite:///{home}/rules.db") as book:
        first = once(lambda: book.sync(ranges(n), origin="table", equal=["symbol"], ranges=bounds))
        report.note("sync, the first time", f"{first:,.2f} s")
        publishing = once(lambda: book.publish(home / "published"))
        report.at_most("publish, first version", publishing, 15, " s")

        def read_diff_store_publish() -> None:
            table = pq.read_table(home / "changed.parquet")
            synced = book.sync(table, origin="table", equal=["symbol"], ranges=bounds)
            assert synced.replaced == CHANGES, synced
            book.publish(home / "published")

        syncing = once(read_diff_store_publish)
    keys = np.random.default_rng(3).permutation(n)
    sorting = float(np.median([once(lambda: np.sort(keys)) for _ in range(5)]))
    what = f"sync with {CHANGES:,} changes: read, diff, store, publish"
    report.at_most(what, syncing, _SYNC, " s")
    report.at_most(f"{what}, against NumPy sorting the keys", syncing / sorting, _SORTS)


def _commands(report: Report, home: Path) -> None:
    (home / "rows").mkdir()
    (home / "rows" / "one.json").write_text('{"symbol": "SYM00001", "price": 5.0, "ts": 1}\n')
    (home / "pipeline.toml").write_text(_PIPELINE)
    pq.write_table(pa.table({"symbol": ["SYM00001"], "price": [5.0], "ts": ["noon"]}), home / "rows.parquet")
    check = ["check", "pipeline.toml"]
    wrong = ["verify", "rows.parquet", "--events", "rows.parquet", "--object", "symbol", "--time", "ts"]
    report.note("`check`, the first time", f"{_command(home, check, 0):,.2f} s")
    report.at_most("`check`, the second time", _command(home, check, 0), _COMMAND, " s")
    report.at_most("`verify` with a wrong --time", _command(home, wrong, 1), _COMMAND, " s")


def _command(home: Path, arguments: list[str], code: int) -> float:
    """How long a command takes that ends with this code."""
    started = time.perf_counter()
    environment = {**os.environ, "FENCEPOST_BOOK": "sqlite:///rules.db"}
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "fencepost", *arguments], cwd=home, env=environment, capture_output=True, text=True
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return time.perf_counter() - started
