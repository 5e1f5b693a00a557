"""Rules as stored columns, compiled by form, against the same rules parsed one by one."""

import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.language import Binder
from fencepost.language.forms import find_forms
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rule, Rules
from fencepost.rules.compile import StoredRules, text_fields
from fencepost.rules.faults import FaultyRules
from fencepost.rules.form_boxes import bind_form
from fencepost.snapshot import Snapshot
from tests.conditions import TYPES, conditions
from tests.effort import examples, seeds

SCHEMA = {
    "price": "double",
    "volume": "bigint",
    "size": "decimal(9,2)",
    "symbol": "string",
    "venue": "string",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "day": "date",
    "open": "boolean",
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
    "price < {n} OR price > {n}",
    "(symbol = '{s}' OR venue = '{s}') AND price BETWEEN {n} AND {n}",
    "symbol IN ('{s}', '{s}') AND volume IN ({i}, {i}, {n})",
    "symbol IN ('{s}', '{s}', '{s}') AND venue IN ('{s}', '{s}')",
    "volume NOT IN ({i}, {n}) AND price > {n}",
    "symbol NOT IN ('{s}', '{s}') AND size <= {n}",
    "NOT (price BETWEEN {n} AND {n} OR symbol = '{s}')",
    "price NOT BETWEEN {n} AND {n}",
    "size IN ({n}, {n}) OR price IN ({n}, {n})",
    "volume BETWEEN {n} AND {n} OR volume BETWEEN {n} AND {n} AND price > {n}",
    "at BETWEEN '{t}' AND '{t}'",
    "at BETWEEN TIMESTAMP '{t}' AND TIMESTAMP '{t}' AND price > {n}",
    "wall >= TIMESTAMP '{t}' OR symbol = '{s}'",
    "day IN (DATE '2024-01-0{d}', DATE '2024-01-0{d}') AND open",
    "day >= TIMESTAMP '{t}' AND NOT open",
    "at < DATE '2024-01-0{d}' AND wall <> DATE '2024-01-0{d}'",
    "at >= TIMESTAMP '{t}' - INTERVAL {i} HOURS AND open = TRUE",
    "day < DATE '2024-01-0{d}' + {i}",
    "price > {n} / {i} AND volume <= {n} * {n} - 1",
    "size > {n} / {i} OR size < {i} + {n}",
    "price IN ({n}, CAST('{n}' AS DOUBLE))",
    "at > CAST('{t}' AS TIMESTAMP) OR price * {n} > {n}",
    "symbol LIKE '{s}%' OR symbol = '{s}'",
]
OTHER_KINDS = {
    "price = '{s}'",
    "symbol > {n}",
    "at BETWEEN '{t}' AND '{t}'",
    "at < DATE '2024-01-0{d}' AND wall <> DATE '2024-01-0{d}'",
}
"""That say another kind of a column than others, or of its rows."""
ROWS: Any = {
    "price": np.linspace(-30, 30, 41),
    "volume": np.arange(-20, 21),
    "size": pa.array([f"{each / 4:.2f}" for each in range(-80, 81, 4)]).cast(pa.decimal128(9, 2)),
    "symbol": [f"s{each % 5}" for each in range(41)],
    "nobody": np.arange(41.0),
    "venue": [f"s{each % 3}" for each in range(41)],
    "at": pa.array([1704067200_000000 + 43200_000000 * each for each in range(41)]).view(pa.timestamp("us", tz="UTC")),
    "wall": pa.array([1704067200_000000 + 21600_000000 * each for each in range(41)]).view(pa.timestamp("us")),
    "day": pa.array([19720 + each for each in range(41)], pa.int32()).view(pa.date32()),
    "open": np.arange(41) % 3 == 0,
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
        clock = rng.choice(["00:00:00", "12:30", "06:00:00.25", "02:30:00-05", "24:00"])
        form = form.replace(
            "{t}", f"2024-0{rng.choice([1, 3])}-{rng.choice(['0', '1', '3'])}{rng.randrange(2)} {clock}", 1
        )
        text = rng.choice(["s0", "s1", "s2", "s3", "it''s", "10 > 4", "", "Zürich", "--"])
        form = form.replace("{s}", text, 1)
    return form


@pytest.mark.parametrize("seed", seeds(40))
def test_forms_say_what_each_condition_says(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    schema = rng.choice([SCHEMA, SCHEMA, None])
    # Without a schema the kind of a column is that of its first use: which of two kinds is the fault then depends on
    # the order in which rules are read, and a column of text may be bound as numbers.
    forms = rng.sample([form for form in FORMS if schema is not None or form not in OTHER_KINDS], 6)
    zone = rng.choice(["UTC", "America/New_York", "+05:30"])
    rules, broken = Rules(zone=zone), 0
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
    columns = StoredRules(text_fields(every), conditions, zone).compile(schema, together)
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
            StoredRules(text_fields(every), conditions, zone).compile(schema)


NUMBERS = ["0", "1", "2", "3", "4", "007", "0.5", "2.50", "0.1", "9007199254740993", "9223372036854775807", "1.1"]
STRINGS = ["A", "B", "b", "", "é", "2024-01-01", "2024-01-02", "2024-1-3", "2024-03-10 02:30", "2024-01-03 12:00Z", "1"]


@examples(300)
@given(st.data())
def test_whatever_the_form_it_says_what_each_condition_says(data: st.DataObject) -> None:
    """Random conditions with other constants, those that are refused too: the reasons are the same."""
    rng = data.draw(st.randoms(use_true_random=False))
    zone = data.draw(st.sampled_from(["UTC", "America/New_York"]))
    texts = []
    for _ in range(data.draw(st.integers(1, 2))):
        pieces = re.split(r"('[^']*'|\b[0-9]+\b)", data.draw(conditions()))
        varied = [place for place in range(1, len(pieces), 2) if rng.random() < 0.7]
        for _ in range(30):
            for place in varied:
                quoted = pieces[place].startswith("'")
                pieces[place] = f"'{rng.choice(STRINGS)}'" if quoted else rng.choice(NUMBERS)
            texts.append("".join(pieces))
    rules = [Rule(id, text, detect=rng.choice(["inside", "cross"])) for id, text in enumerate(texts)]
    schema = data.draw(st.sampled_from([TYPES, TYPES, {**TYPES, "ts": "timestamp", "n": "double"}]))

    def compiled(few: int) -> tuple[Any, ...]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fencepost.language.forms._FEW", few)
            stored, faulty = StoredRules(text_fields(rules), pa.array(texts, pa.large_string()), zone), FaultyRules()
        made = Snapshot.compile(stored.compile(schema, faulty), {}, 1)
        boxes = {id: sorted(map(str, made.boxes_of(row))) for row, id in enumerate(made.rules.ids.tolist())}
        return boxes, faulty.found, made.dropped, made.types, made.keys

    assert compiled(16) == compiled(1_000)


@pytest.mark.parametrize(
    ("form", "left"),
    [
        ("symbol = 's{n}' AND (price < 10.5 OR price > 1{n}.25)", []),
        ("symbol IN ('s{n}', 't{n}', 'é') AND price BETWEEN {n} AND 40", []),
        ("symbol IN ('s{n}', 's7') OR venue = '{n}'", [7]),
        ("volume IN (1{n}, 11{n}, 112)", []),
        ("symbol NOT IN ('s{n}', 's7') AND symbol2 = 'x'", [7]),
        ("symbol <> 's{n}' AND NOT price >= {n}", []),
        ("NOT (price BETWEEN {n} AND 40 OR volume > {n})", []),
        ("day BETWEEN DATE '2024-01-1{n}' AND DATE '2024-01-1{n}' + 3", []),
        ("at >= TIMESTAMP '2024-01-01 0{n}:30:00' - INTERVAL '{n}' DAYS AND open", []),
        ("day <> DATE '2023-02-2{n}'", [9]),
        ("price * 1.{n} < {n} / 4 AND size > {n} * 2.5", []),
        ("symbol LIKE 's{n}%' OR symbol = 's{n}'", []),
    ],
)
def test_what_is_plain_is_not_read_one_by_one(form: str, left: list[int]) -> None:
    """Only the rows that are refused, lose a branch or name one box twice are left to the parser."""
    texts = [form.replace("{n}", str(n % 10)) for n in range(40)]
    forms, rest = find_forms(pa.array(texts, pa.large_string()), "America/New_York")
    assert (len(forms), rest.tolist()) == (1, [])
    found, again = bind_form(
        forms[0], Binder(read_schema({**SCHEMA, "symbol2": "string"}).types), np.zeros(40, np.bool_)
    )
    assert again.tolist() == [n for n in range(40) if n % 10 in left]
    assert {row for boxes in found for row in boxes.rules.tolist()} == {*range(40)} - {*again.tolist()}
