"""Conditions that are no plain ranges of a column: what expressions and prefixes cost beside them, and beside joins."""

from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.harness import Report, interleaved
from fencepost.computed import Given
from fencepost.rules import Rules
from fencepost.rules.compile import StoredRules, text_fields
from fencepost.rules.rule import Rule

__all__ = ["run"]

BATCH = 65_536
MATCHES = 5
LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", np.uint8)


def run(full: bool) -> list[Report]:
    """All reports; `full` takes a million rules and prefixes instead of 100,000."""
    count = 1_000_000 if full else 100_000
    return [expressions(count), prefixes(count), parsing(100_000)]


def _stored(conditions: list[str]) -> StoredRules:
    fields = text_fields([Rule(id, text) for id, text in enumerate(conditions)])
    return StoredRules(fields, pa.array(conditions, pa.large_string()), "UTC")


def expressions(count: int) -> Report:
    """Rules on one computed attribute, over as many on a column that has its values."""
    rng = np.random.default_rng(1)
    bid, ask = rng.normal(100, 10, (2, BATCH))
    spread = bid - ask
    lows = rng.normal(0, 14, count)
    highs = lows + 2 * MATCHES / count * 30
    column, computed = (
        _snapshot([f"{what} BETWEEN {low:.9f} AND {high:.9f}" for low, high in zip(lows, highs, strict=True)])
        for what in ("spread", "bid - ask")
    )
    plain, quotes = pa.table({"spread": spread}), pa.table({"bid": bid, "ask": ask})
    assert column.match(plain).sets() == computed.match(quotes).sets()
    (attribute,) = computed.computed.values()
    ready = {name: computed.types[name].encode(quotes[name])[0] for name in ("bid", "ask")}

    def evaluate() -> Any:
        return attribute.ordinals(Given(BATCH, ready, {}, lambda _: None))

    seconds = interleaved(
        {
            "column": lambda: column.match(plain),
            "computed": lambda: computed.match(quotes),
            "expression": evaluate,
            "encode": lambda: computed.types["ask"].encode(quotes["ask"]),
        }
    )
    report = Report(f"Conditions: {count:,} rules on bid - ask, over as many on a column")
    own = seconds["computed"] - seconds["expression"] - seconds["encode"]
    report.at_most("match, without the expression and its second column", own / seconds["column"], 1.1)
    report.note("the expression itself, a batch of 65,536 rows", f"{seconds['expression'] * 1e3:.2f} ms")
    return report


def _snapshot(conditions: list[str]) -> Any:
    rules = Rules()
    for id, text in enumerate(conditions):
        rules.add(id, text)
    return rules.compile()


def _strings(rng: np.random.Generator, count: int, length: int) -> list[str]:
    drawn = LETTERS[rng.integers(0, len(LETTERS), (count, length))]
    return [bytes(row).decode() for row in drawn]


def prefixes(count: int) -> Report:
    """Prefix rules over joins, strings of 12 characters, five matches each; joins take fewer rows."""
    rng = np.random.default_rng(2)
    some = sorted({text[:4] for text in _strings(rng, 2 * count // MATCHES, 4)})
    begins = [some[place] for place in rng.integers(0, max(1, count // MATCHES), count)]
    values = [
        begins[place] + text for place, text in zip(rng.integers(0, count, BATCH), _strings(rng, BATCH, 8), strict=True)
    ]
    snapshot = _snapshot([f"sku LIKE '{begin}%'" for begin in begins])
    few = 1_000
    batch, part = pa.table({"sku": values}), pa.table({"sku": values[:few]})
    rules = pa.table({"id": np.arange(count), "begin": begins})
    frame, own = pl.from_arrow(rules), pl.from_arrow(part)
    database = duckdb.connect()
    database.register("rules", rules)
    database.register("rows", part)
    query = "SELECT count(*) FROM rows JOIN rules ON starts_with(sku, begin)"

    def polars_join() -> Any:
        joined = own.lazy().join_where(frame.lazy(), pl.col("sku").str.starts_with(pl.col("begin")))  # type: ignore[union-attr]
        return joined.select(pl.len()).collect().item()

    expected = int(snapshot.match(part).offsets[-1])
    assert (database.execute(query).fetchone() or (0,))[0] == expected
    seconds = interleaved(
        {
            "ours": lambda: snapshot.match(batch),
            "duckdb": lambda: database.execute(query).fetchall(),
            "polars": polars_join,
        },
        rounds=3,
    )
    report = Report(f"Conditions: {count:,} prefix rules, {expected / few:.1f} matches a row, per row over joins")
    ours = seconds["ours"] / BATCH
    report.at_least("DuckDB / ours", seconds["duckdb"] / few / ours, 50)
    report.at_least("polars / ours", seconds["polars"] / few / ours, 50)
    report.note("ours, a row", f"{ours * 1e9:,.0f} ns")
    return report


def parsing(count: int) -> Report:
    """Conditions with arithmetic of one shape, parsed and bound, over plain ones."""
    rng = np.random.default_rng(3)
    bounds = [f"{each:.4f}" for each in rng.uniform(1, 1000, count).tolist()]
    texts = {
        "plain": [f"price > {bound}" for bound in bounds],
        "arithmetic": [f"price * 1.1 > {bound}" for bound in bounds],
    }
    made = {
        name: (lambda conditions=conditions: _stored(conditions).compile({"price": "double"}))
        for name, conditions in texts.items()
    }
    seconds = interleaved(made, rounds=3)
    report = Report(f"Conditions: {count:,} of one shape, parsed and bound")
    report.at_most("with arithmetic / plain", seconds["arithmetic"] / seconds["plain"], 2)
    return report
