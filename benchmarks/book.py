"""The rule book: taking in a file, and publishing from a fresh book and from one that lives on."""

import json
import tempfile
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks import book_commands
from benchmarks.harness import Report, interleaved, once
from fencepost.book import RuleBook
from fencepost.language import parse

__all__ = ["run"]

EDITS = 1000


def conditions(n: int, seed: int = 1) -> list[str]:
    """Keyed price ranges."""
    rng = np.random.default_rng(seed)
    symbols, lows = rng.integers(0, 10_000, n).tolist(), rng.uniform(1, 1000, n).round(2).tolist()
    return [
        f"symbol = 'SYM{symbol:05d}' AND price BETWEEN {low} AND {low + 5:.2f}"
        for symbol, low in zip(symbols, lows, strict=True)
    ]


def varied(n: int, seed: int = 1) -> list[str]:
    """Conditions of as many forms as people write: OR, IN, NOT, dates, times, arithmetic, prefixes."""
    rng = np.random.default_rng(seed)
    symbols, others = (rng.integers(0, 10_000, n).tolist() for _ in range(2))
    lows, days = rng.uniform(1, 1000, n).round(2).tolist(), rng.integers(0, 365, n)
    dates = np.datetime_as_string(np.datetime64("2024-01-01") + days).tolist()
    times = np.datetime_as_string(np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 10**7, n)).tolist()
    forms = [
        "symbol = 'SYM{0:05d}' AND (price < {2} OR price > {3:.2f})",
        "symbol IN ('SYM{0:05d}', 'SYM{1:05d}') AND price BETWEEN {2} AND {3:.2f}",
        "symbol = 'SYM{0:05d}' AND NOT price BETWEEN {2} AND {3:.2f}",
        "symbol = 'SYM{0:05d}' AND day BETWEEN DATE '{4}' AND DATE '{4}' + 30",
        "symbol = 'SYM{0:05d}' AND seen >= TIMESTAMP '{5}' AND price > {2}",
        "symbol = 'SYM{0:05d}' AND price * 1.1 > {2} AND price < {3:.2f} * 2",
        "symbol LIKE 'SYM{0:04d}%' AND price <> {2}",
    ]
    return [
        forms[n % len(forms)].format(symbol, other, low, low + 5, date, time)
        for n, (symbol, other, low, date, time) in enumerate(zip(symbols, others, lows, dates, times, strict=True))
    ]


def written(path: Path, texts: list[str]) -> Path:
    """A file of rules 0, 1, ..."""
    with path.open("w") as file:
        file.writelines(json.dumps({"id": id, "condition": text}) + "\n" for id, text in enumerate(texts))
    return path


def run(full: bool) -> list[Report]:
    """One report; `full` takes a million rules instead of 50,000."""
    n = 1_000_000 if full else 50_000
    report = Report(f"Rule book in SQLite: {n:,} rules, {EDITS:,} edits between two versions")
    texts, seeds = conditions(n), count(2)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        file, url, directory = written(home / "rules.jsonl", texts), f"sqlite:///{home}/rules.db", home / "published"
        parsing = once(lambda: [parse(text) for text in texts])
        with RuleBook(url) as living:
            importing = once(lambda: living.import_file(file))
            report.at_most("import_file, against parsing alone", importing / parsing, 4)
            everything = once(lambda: living.publish(directory))
            report.at_most("publish, first version", everything, 15, " s")
            report.at_most("publish, first version, against parsing alone", everything / parsing, 2)
            _publish_varied(report, home, n)

            def edit() -> None:
                living.import_file(written(home / "edits.jsonl", conditions(EDITS, next(seeds))), existing="replace")

            def publish_living() -> float:
                edit()
                return once(lambda: living.publish(directory))

            def publish_fresh() -> float:
                edit()
                with RuleBook(url, create=False) as fresh:
                    return once(lambda: fresh.publish(directory))

            seconds: dict[str, list[float]] = {"living": [], "fresh": []}
            interleaved(
                {
                    "living": lambda: seconds["living"].append(publish_living()),
                    "fresh": lambda: seconds["fresh"].append(publish_fresh()),
                }
            )
        for name, taken in seconds.items():
            median = float(np.median(taken))
            report.at_least(f"publish after the edits, {name} book", everything / median, 10)
            report.note(f"publish after the edits, {name} book", f"{median * 1e3:,.0f} ms")
    return [report, *book_commands.run(full)]


def _publish_varied(report: Report, home: Path, n: int) -> None:
    texts = varied(n)
    parsing = once(lambda: [parse(text) for text in texts])
    with RuleBook(f"sqlite:///{home}/varied.db") as book:
        book.import_file(written(home / "varied.jsonl", texts))
        taken = once(lambda: book.publish(home / "varied"))
    what = "publish, first version, of OR, IN, NOT, dates, times, arithmetic, LIKE"
    report.at_most(what, taken, 15, " s")
    report.at_most(f"{what}, against parsing alone", taken / parsing, 1)
