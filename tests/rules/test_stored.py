"""Rules as stored columns, compiled by form, against the same rules parsed one by one."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.errors import FencepostError
from fencepost.rules import Rules
from fencepost.rules.compile import StoredRules, text_fields
from fencepost.rules.faults import FaultyRules
from fencepost.snapshot import Snapshot
from tests.effort import seeds

SCHEMA = {
    "price": "double",
    "volume": "bigint",
    "size": "decimal(9,2)",
    "symbol": "string",
    "venue": "string",
    "at": "timestamp",
}
FORMS = [
    "price > {n}",
    "price BETWEEN {n} AND {n}",
    "symbol = '{s}' AND price BETWEEN {n} AND {n}",
    "symbol = '{s}' AND venue = '{s}' AND volume >= {n}",
    "price > -{n} AND price <= {n} AND price < {n}",
    "volume < {n} AND size > {n}",
    "size BETWEEN -{n} AND {n}",
    "price >= CAST({n} AS DOUBLE) AND size < CAST({n} AS DOUBLE)",
    "size > CAST(-{n} AS DOUBLE) AND volume < -CAST({n} AS DOUBLE)",
    "volume > CAST({n} AS BIGINT)",
    "price > CAST('{n}' AS DOUBLE)",
    "{n} < price",
    "price = {n} OR volume = {n}",
    "symbol IN ('{s}', '{s}')",
    "price > {n} -- the {n}",
    "price > {n} * 2",
    "at > TIMESTAMP '2024-01-0{d} 00:00:00'",
    "price > .{i} AND volume > {i}e1",
    "nobody = {n}",
    "price = '{s}'",
    "symbol > {n}",
    "left.price - right.price < {n}",
    "TRUE",
    "NOT price > {n}",
    "price <> {n}",
    "price * {n} > {n}",
    "(price - {n}) / {n} >= {n} AND volume > {n}",
    "{n} - price * {n} <= {n} AND price < {n}",
    "-price + {n} BETWEEN {n} AND {n}",
    "volume * {n} > {n}",
    "symbol LIKE '{s}%' AND price > {n}",
    "symbol >= '{s}' AND venue = '{s}'",
    "symbol BETWEEN '{s}' AND '{s}'",
    "symbol <> '{s}'",
    "price + volume < {n}",
]
OTHER_KINDS = {"price = '{s}'", "symbol > {n}"}
ROWS: Any = {
    "price": np.linspace(-30, 30, 41),
    "volume": np.arange(-20, 21),
    "size": pa.array([f"{each / 4:.2f}" for each in range(-80, 81, 4)]).cast(pa.decimal128(9, 2)),
    "symbol": [f"s{each % 5}" for each in range(41)],
    "nobody": np.arange(41.0),
    "venue": [f"s{each % 3}" for each in range(41)],
    "at": pa.array([1704067200_000000 + 43200_000000 * each for each in range(41)]).view(pa.timestamp("us", tz="UTC")),
}


def written(rng: random.Random, form: str) -> str:
    def number() -> str:
        kind = rng.random()
        if kind < 0.05:
            return rng.choice(["9007199254740993", "123456789012345678901", "0.1", "1e1", "00012"])
        return str(rng.randrange(25)) if kind < 0.6 else f"{rng.uniform(0, 25):.{rng.choice([1, 2, 3])}f}"

    while "{" in form:
        form = form.replace("{n}", number(), 1).replace("{i}", str(rng.randrange(1, 10)), 1)
        form = form.replace("{d}", str(rng.randrange(1, 10)), 1)
        text = rng.choice(["s0", "s1", "s2", "s3", "it''s", "10 > 4", ""])
        form = form.replace("{s}", text, 1)
    return form


@pytest.mark.parametrize("seed", seeds(25))
def test_forms_say_what_each_condition_says(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    schema = rng.choice([SCHEMA, SCHEMA, None])
    # Without a schema the kind of a column is that of its first use: which of two kinds is the fault then depends on
    # the order in which rules are read, and a column of text may be bound as numbers.
    forms = rng.sample([form for form in FORMS if schema is not None or form not in OTHER_KINDS], 6)
    rules, broken = Rules(), 0
    id = 0
    while id < 250:
        text = written(rng, rng.choice(forms))
        try:
            rules.add(id, text, detect=rng.choice(["inside", "enter,exit"]), enabled=rng.random() < 0.9)
        except FencepostError:  # it can never hold
            broken += 1
        id += 1
    alone, together = FaultyRules(), FaultyRules()
    expected = rules.compile_usable(schema, 1, alone)
    every = list(rules)
    conditions = pa.array([rule.condition for rule in every], pa.large_string())
    columns = StoredRules(text_fields(every), conditions, "UTC").compile(schema, together)
    made = Snapshot.compile(columns, {}, 1)
    assert together.found.keys() == alone.found.keys()
    if schema is not None:
        assert together.found == alone.found
    assert made.types == expected.types
    assert made.keys == expected.keys
    assert made.match(ROWS).sets() == expected.match(ROWS).sets()
    assert made.rules.conditions.to_pylist() == expected.rules.conditions.to_pylist()
    assert made.rules.ids.tolist() == expected.rules.ids.tolist()
    assert made.dropped == expected.dropped
    for row in range(len(made.rules.ids)):
        assert sorted(map(str, made.boxes_of(row))) == sorted(map(str, expected.boxes_of(row)))
    if alone.found:
        with pytest.raises(FencepostError, match="fault"):
            StoredRules(text_fields(every), conditions, "UTC").compile(schema)
