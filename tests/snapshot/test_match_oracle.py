"""Whole rule sets, compiled, saved and matched, find what DuckDB finds rule by rule."""

import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.rules import Rules
from fencepost.snapshot import BruteForce, Snapshot
from tests.conditions import TYPES, conditions
from tests.effort import examples
from tests.language.test_oracle import ROWS, TABLE, oracle  # noqa: F401 (a fixture)


@given(st.lists(conditions(), min_size=1, max_size=25))
@examples(60)
def test_a_rule_set_matches_what_duckdb_finds(
    oracle: Any,  # noqa: F811
    texts: list[str],
) -> None:
    rules = Rules()
    for id, text in enumerate(texts):
        try:
            rules.add(id, text)
            rules.compile(TYPES)
        except FencepostError:
            if id in rules:
                rules.remove(id)
    snapshot = rules.compile(TYPES)
    columns = TABLE.select([name for name in TABLE.column_names if name in (*snapshot.types, *snapshot.keys)])
    if not len(rules):
        return
    found: list[set[int]] = [set() for _ in range(ROWS)]
    for rule in rules:
        rows = oracle.execute(f"SELECT row FROM facts WHERE {rule.condition}").fetchall()  # noqa: S608
        for (row,) in rows:
            found[row].add(rule.id)
    answers = [snapshot.match(TABLE)]
    if columns.num_columns:
        answers.append(snapshot.match(columns))
    with tempfile.TemporaryDirectory() as scratch:
        snapshot.save(Path(scratch) / "s")
        answers.append(Snapshot.load(Path(scratch) / "s").match(TABLE))
    for answer in answers:
        assert answer.sets() == found
        assert answer.counts.sum() == sum(map(len, found)), "each rule once per row"
    assert BruteForce(rules.columns(TYPES)).holding(TABLE.slice(0, 20)) == found[:20]


def test_a_table_of_ranges_matches_what_duckdb_joins() -> None:
    rng = np.random.default_rng(8)
    n = 2000
    lower = rng.integers(0, 500, n) / 4
    table = pa.table(
        {
            "rule_id": rng.permutation(n),
            "symbol": pa.array([None if k == 0 else f"S{k}" for k in rng.integers(0, 40, n)]),
            "lower": pa.array(lower, mask=rng.random(n) < 0.05),
            "upper": pa.array(lower + rng.integers(1, 40, n) / 4, mask=rng.random(n) < 0.05),
        }
    )
    ticks = pa.table(
        {
            "symbol": pa.array([None if k == 45 else f"S{k}" for k in rng.integers(0, 46, 1500)]),
            "price": pa.array(rng.integers(-4, 540, 1500) / 4, mask=rng.random(1500) < 0.05),
        }
    )
    for bounds, low, high in (("[)", "<=", "<"), ("[]", "<=", "<="), ("(]", "<", "<="), ("()", "<", "<")):
        rules = Rules.from_table(
            table, id="rule_id", equal=["symbol"], ranges={"price": ("lower", "upper")}, bounds=bounds
        )
        connection = duckdb.connect(config={"threads": 1})
        connection.register("rules", table)
        connection.register("ticks", ticks.append_column("row", pa.array(range(1500))))
        joined = connection.execute(
            f"SELECT row, rule_id FROM ticks JOIN rules ON price IS NOT NULL "  # noqa: S608
            f"AND (rules.symbol IS NULL OR rules.symbol = ticks.symbol) "
            f"AND (lower IS NULL OR lower {low} price) AND (upper IS NULL OR price {high} upper)"
        ).fetchall()
        found: list[set[int]] = [set() for _ in range(1500)]
        for row, rule_id in joined:
            found[row].add(rule_id)
        assert rules.compile().match(ticks).sets() == found
