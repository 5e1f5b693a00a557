"""A look at the catalogue: the same intervals in every structure, then a million rules over ten thousand keys.

Run it with `make demo`. Everything is seeded; every answer is compared with a plain comparison of all intervals.
"""

import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from fencepost import workloads
from fencepost.indexes import ACEI, CEI, LCI, SCI, UI, ISList, Matches, SliceList
from fencepost.indexes.intervals.contract import IntervalIndex
from fencepost.indexes.vectors import PADDING

__all__ = ["main"]

RULES, SYMBOLS, TICKS = 1_000_000, 10_000, 1_000_000


def main() -> int:
    """Show both parts; 1 if an answer is wrong."""
    console = Console()
    wrong = catalogue(console)
    console.print()
    wrong += market(console)
    console.print(
        "[red]Some answers were wrong: please report this.[/]" if wrong else "Every answer checked was right."
    )
    return 1 if wrong else 0


def catalogue(console: Console) -> int:
    """Every interval structure on one workload; how many of them answered wrongly."""
    work = workloads.uniform(domain=65_536, n=50_000, widest=200, values=200_000)
    values, domain = work.values.astype(np.float64), (0, work.domain)
    structures: list[tuple[str, IntervalIndex]] = [
        ("UI", UI(domain)),
        ("SCI, L = 8", SCI(domain, 8)),
        ("LCI, L = 16", LCI(domain, 16)),
        ("CEI, L = 16", CEI(domain, 16)),
        ("ACEI, tuned", ACEI.tuned(domain, n=50_000, mean_width=100)),
        ("IS-list", ISList()),
        ("SliceList", SliceList("float64")),
    ]
    table = Table(title="50,000 intervals, 77 around each value: how fast found?", title_justify="left")
    for header in ("insert, M/s", "bytes each", "per value, ns", "ids, M/s"):
        table.add_column(header, justify="right")
    table.columns.insert(0, type(table.columns[0])(header="structure"))
    expected = work.counts()
    buffers = Matches(np.empty(len(values) + 1, np.int64), np.zeros(int(expected.sum()) + PADDING, np.int64))
    wrong = 0
    with console.status("building and asking"):
        for name, index in structures:
            index.insert_many(work.ids, work.los, work.his)  # compiles what is timed below
            index.remove_many(work.ids)
            begin = time.perf_counter()
            index.insert_many(work.ids, work.los, work.his)
            building = time.perf_counter() - begin
            index.stab(values, out=buffers)
            begin = time.perf_counter()
            answer = index.stab(values, out=buffers)
            asking = time.perf_counter() - begin
            wrong += not np.array_equal(answer.counts, expected)
            table.add_row(
                name,
                f"{len(work.los) / building / 1e6:.2f}",
                f"{index.storage().nbytes / len(work.los):,.0f}",
                f"{asking / len(values) * 1e9:,.0f}",
                f"{len(answer.ids) / asking / 1e6:,.0f}",
            )
    console.print(table)
    return wrong


def market(console: Console) -> int:
    """A million price ranges on ten thousand symbols, asked a million ticks while rules come and go."""
    rng = np.random.default_rng(11)
    base = rng.lognormal(4, 1, SYMBOLS)
    symbols = rng.integers(0, SYMBOLS, RULES)
    lows = base[symbols] * rng.normal(1, 0.1, RULES)
    highs = lows + base[symbols] * rng.uniform(0.001, 0.03, RULES)
    of = rng.integers(0, SYMBOLS, TICKS)
    ticks = base[of] * rng.normal(1, 0.05, TICKS)
    index = SliceList()
    with console.status(f"indexing {RULES:,} rules"):
        begin = time.perf_counter()
        index.insert_many(np.arange(RULES), lows, highs, groups=symbols)
        built = time.perf_counter() - begin
        index.stab(ticks[:10], groups=of[:10])
    begin = time.perf_counter()
    answer = index.stab(ticks, groups=of)
    asked = time.perf_counter() - begin
    begin = time.perf_counter()
    index.remove_many(np.arange(5000))
    index.insert_many(np.arange(RULES, RULES + 5000), lows[:5000] * 1.01, highs[:5000] * 1.01, groups=symbols[:5000])
    changed = time.perf_counter() - begin
    console.print(f"[bold]{RULES:,} price rules on {SYMBOLS:,} symbols[/]")
    console.print(f"  indexed in {built:.2f} s, {index.storage().nbytes / RULES:.0f} bytes per rule")
    console.print(
        f"  {TICKS:,} ticks answered in {asked:.2f} s: {TICKS / asked / 1e6:.1f} M ticks/s, "
        f"{len(answer.ids) / TICKS:.1f} rules each"
    )
    console.print(f"  5,000 rules removed and 5,000 added while it runs: {changed * 1e3:.1f} ms")
    tick, symbol = 0, int(of[0])
    held = np.sort(answer[tick])
    shown = ", ".join(f"rule {rule} [{lows[rule]:.2f}, {highs[rule]:.2f})" for rule in held[:3].tolist())
    console.print(f"  for example: symbol {symbol} at {ticks[tick]:.2f} is inside {shown or 'no rule'}")
    wrong = 0
    for tick in rng.integers(0, TICKS, 200).tolist():
        inside = (symbols == of[tick]) & (lows <= ticks[tick]) & (ticks[tick] < highs)
        wrong += not np.array_equal(np.sort(answer[tick]), np.flatnonzero(inside))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
