"""A book of very many rules in daily use: mirrored from a table, checked, and asked with a mistake in the command.

Seconds of the processor count, so that other work on the machine does not: none of this waits for anything else.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.dtypes import StringDType

from benchmarks.harness import Report
from fencepost.book import RuleBook

__all__ = ["run"]

CHANGES = 1000
_SORTS, _SYNC, _COMMAND = 10, 5, 2
_ROUNDS = 3
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


def texts_of(n: int) -> pa.Array:
    """As many UUIDs, in no order."""
    numbers = np.random.default_rng(4).integers(0, 2**63, (n, 2)).tolist()
    return pa.array([f"{high:016x}-{low:016x}" for high, low in numbers])


def ranges(n: int, rounds: int = 0, keys: Any = None) -> pa.Table:
    """Keyed price ranges; in every round, some are other than in the round before."""
    rng = np.random.default_rng(1)
    lows, symbols = rng.uniform(1, 1000, n).round(2), rng.integers(0, 10_000, n)
    for round_ in range(rounds):
        lows[np.random.default_rng(2 + round_).choice(n, CHANGES, replace=False)] += 1 + round_
    names = np.array([f"SYM{number:05d}" for number in range(10_000)])[symbols]
    return pa.table(
        {"rule_id": np.arange(n) if keys is None else keys, "symbol": names, "lower": lows, "upper": lows + 5}
    )


def run(full: bool) -> list[Report]:
    """One report; `full` takes a million rules instead of 100,000."""
    n = 1_000_000 if full else 100_000
    report = Report(f"A book of {n:,} rules: sync of {CHANGES:,} changes, and commands")
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        # What is kept for later commands is part of what is measured, and must not come from an earlier run.
        before, os.environ["FENCEPOST_CACHE"] = os.environ.get("FENCEPOST_CACHE"), str(home / "cache")
        try:
            _syncing(report, home / "texts", n, texts=True)
            _syncing(report, home / "numbers", n, texts=False)
            _commands(report, home / "numbers")
        finally:
            if before is None:
                del os.environ["FENCEPOST_CACHE"]
            else:
                os.environ["FENCEPOST_CACHE"] = before
    return [report]


def _syncing(report: Report, home: Path, n: int, texts: bool) -> None:
    """Keys are numbers, which NumPy sorts by the bits, or texts, as most tables of another system have them."""
    bounds, keys = {"price": ("lower", "upper")}, texts_of(n) if texts else None
    home.mkdir()
    for number in range(_ROUNDS):
        pq.write_table(ranges(n, 1 + number, keys), home / f"changed{number}.parquet")
    sorted_: Any = (
        np.random.default_rng(3).permutation(n) if keys is None else np.array(keys.to_pylist(), StringDType())
    )
    with RuleBook(f"sqlite:///{home}/rules.db") as book:
        first = _busy(lambda: book.sync(ranges(n, 0, keys), origin="table", equal=["symbol"], ranges=bounds))
        kind = "UUIDs" if texts else "numbers"
        report.note(f"sync by {kind}, the first time", f"{first:,.2f} s")
        publishing = _busy(lambda: book.publish(home / "published"))
        report.at_most(f"publish, first version, keys are {kind}", publishing, 15, " s")

        def read_diff_store_publish(number: int) -> None:
            table = pq.read_table(home / f"changed{number}.parquet")
            synced = book.sync(table, origin="table", equal=["symbol"], ranges=bounds)
            assert synced.replaced == CHANGES, synced
            book.publish(home / "published")

        taken = [
            (_busy(lambda number=number: read_diff_store_publish(number)), _busy(lambda: np.sort(sorted_)))  # type: ignore[misc]
            for number in range(_ROUNDS)
        ]
    syncing, sorting = (float(median) for median in np.median(taken, axis=0))
    what = f"sync by {kind} with {CHANGES:,} changes: read, diff, store, publish"
    report.at_most(what, syncing, _SYNC, " s")
    report.at_most(f"{what}, against NumPy sorting the keys", syncing / sorting, _SORTS)


def _busy(contestant: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    begin = time.process_time()
    contestant()
    return time.process_time() - begin


def _commands(report: Report, home: Path) -> None:
    (home / "rows").mkdir()
    (home / "rows" / "one.json").write_text('{"symbol": "SYM00001", "price": 5.0, "ts": 1}\n')
    (home / "pipeline.toml").write_text(_PIPELINE)
    pq.write_table(pa.table({"symbol": ["SYM00001"], "price": [5.0], "ts": ["noon"]}), home / "rows.parquet")
    check = ["check", "pipeline.toml"]
    wrong = ["verify", "rows.parquet", "--events", "rows.parquet", "--object", "symbol", "--time", "ts"]
    report.note("`check`, the first time", "{:,.2f} s of CPU, {:,.2f} s".format(*_command(home, check, 0)))
    for what, command, code in (("`check`, the second time", check, 0), ("`verify` with a wrong --time", wrong, 1)):
        busy, taken = _command(home, command, code)
        report.at_most(f"{what}, CPU", busy, _COMMAND, " s")
        report.note(f"{what}, by the clock", f"{taken:,.2f} s")


def _command(home: Path, arguments: list[str], code: int) -> tuple[float, float]:
    """How long a command takes that ends with this code: of the processor, and by the clock."""
    environment = {**os.environ, "FENCEPOST_BOOK": "sqlite:///rules.db"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # who has installed the package has it as bytecode
    begin, before = time.perf_counter(), os.times()
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "fencepost", *arguments], cwd=home, env=environment, capture_output=True, text=True
    )
    after, taken = os.times(), time.perf_counter() - begin
    assert ended.returncode == code, ended.stdout + ended.stderr
    return sum(after[2:4]) - sum(before[2:4]), taken
