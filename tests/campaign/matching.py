"""No wrong semantics of match: random conditions against DuckDB, with its three-valued logic."""

import random
from typing import Any

import duckdb
import pyarrow as pa

import fencepost as fp
from fencepost.errors import FencepostError
from tests.campaign.trial import Trial, require
from tests.campaign.values import ARROW, DATA, KEYS, POOL, TYPES, literal

ROWS = 150
CONDITIONS = 40
COMPARISONS = ["<", "<=", ">", ">=", "=", "<>"]


def draw_condition(rng: random.Random, depth: int = 2, keys: bool = True) -> str:
    """A condition with AND, OR and NOT; strings only where they are not negated."""
    parts = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        negated = rng.random() < 0.25
        allowed = keys and not negated
        inner = draw_condition(rng, depth - 1, allowed) if depth and rng.random() < 0.4 else _draw_part(rng, allowed)
        parts.append(f"NOT ({inner})" if negated else f"({inner})" if rng.random() < 0.5 or " OR " in inner else inner)
    return rng.choice([" AND ", " OR "]).join(parts)


def _draw_part(rng: random.Random, keys: bool) -> str:
    if keys and rng.random() < 0.25:
        name = rng.choice(sorted(KEYS))
        listed = ", ".join(literal(text) for text in rng.choices(KEYS[name], k=rng.randint(1, 3)))
        return f"{name} IN ({listed})" if "," in listed else f"{name} = {listed}"
    name = rng.choice(sorted(TYPES))
    if name == "b":
        return rng.choice(["b", "NOT b", "b = TRUE", "FALSE = b"])
    one, other = (literal(rng.choice(POOL[name])) for _ in range(2))
    if name == "d":
        one, other = f"CAST({one} AS DOUBLE)", f"CAST({other} AS DOUBLE)"
    shape = rng.randrange(5)
    if shape == 0:
        return f"{name} {rng.choice(['', 'NOT '])}BETWEEN {one} AND {other}"
    if shape == 1:
        return f"{name} {rng.choice(['', 'NOT '])}IN ({one}, {other})"
    comparison = rng.choice(COMPARISONS)
    return f"{name} {comparison} {one}" if shape > 2 else f"{one} {comparison} {name}"


def draw_table(rng: random.Random) -> Any:
    """Rows with nulls; to DuckDB a NaN is a number, so there is none."""
    columns = {
        name: pa.array([None if rng.random() < 0.15 else rng.choice(DATA[name]) for _ in range(ROWS)], kind)
        for name, kind in ARROW.items()
    }
    for name, texts in KEYS.items():
        columns[name] = pa.array([None if rng.random() < 0.15 else rng.choice([*texts, "z"]) for _ in range(ROWS)])
    return pa.table({"row": pa.array(range(ROWS)), **columns})


def try_match(seed: int) -> int:
    """A set of rules on one table; what is refused as never true must be so."""
    rng = random.Random(seed)  # noqa: S311
    table, types = draw_table(rng), {**TYPES, **dict.fromkeys(KEYS, "string")}
    rules, expected = fp.Rules(), [set[int]() for _ in range(ROWS)]
    with duckdb.connect() as database:
        database.register("facts", table)
        for id in range(CONDITIONS):
            condition = draw_condition(rng)
            answer = database.execute(f"SELECT row FROM facts WHERE {condition}").fetchall()  # noqa: S608
            alone = fp.Rules()
            try:
                alone.add(id, condition)
                alone.compile(types)
            except FencepostError as error:
                never = "can hold" in error.expected
                require(not (never and answer), f"{condition} holds for rows {answer[:5]}, but was refused: {error}")
                continue
            rules.add(id, condition)
            for (row,) in answer:
                expected[row].add(id)
        got = rules.compile(types).match(table)
    for row, ids in enumerate(got):
        found = ids.tolist()
        require(len(found) == len(set(found)), f"row {row} names a rule twice: {found}")
        wrong = sorted(set(found) ^ expected[row])
        told = "" if not wrong else f"{rules[wrong[0]].condition} on {table.slice(row, 1).to_pylist()}"
        require(not wrong, f"row {row}: match {wrong[:1]} is {set(wrong[:1]) <= set(found)}: {told}")
    return len(rules) * ROWS


TRIALS = [Trial("semantics.match", "no wrong semantics", "random conditions against DuckDB", try_match)]
