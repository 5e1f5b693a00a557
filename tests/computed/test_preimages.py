"""Ranges of expressions over one column hold where the expressions do: at every bound, and on both sides of it."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.computed import Given, Term
from fencepost.computed.preimages import preimage
from fencepost.computed.typing import typed
from fencepost.language import Condition, parse
from fencepost.ordinals import BIGINT, DOUBLE, AttributeType
from tests.effort import seeds

DECIMAL = AttributeType("decimal", 9, 2)
TYPES = {"double": DOUBLE, "bigint": BIGINT, "decimal": DECIMAL}
UNARY = ["-({})", "ABS({})", "FLOOR({})", "CEIL({})", "ROUND({})", "SIGN({})", "SQRT({})", "CAST({} AS DOUBLE)"]
BINARY = [
    "({} + {c})",
    "({c} + {})",
    "({} - {c})",
    "({c} - {})",
    "({} * {c})",
    "({c} * {})",
    "({} / {c})",
    "({c} / {})",
]
CONSTANTS = ["1", "3", "1.8", "-2", "0.1", "40", "0", "-0.5", "1e10", "1000000"]


def holding(term: Term, wanted: tuple[int, int] | None, ordinals: list[int]) -> list[bool]:
    """What the evaluator says of some values of the column."""
    given = Given(len(ordinals), {"x": np.array(ordinals, np.int64)}, {}, lambda _: pa.nulls(0))
    found, valid = given.ordinals(term)
    holds = np.zeros(len(ordinals), np.bool_) if wanted is None else (found >= wanted[0]) & (found <= wanted[1])
    return (holds if valid is None else holds & valid).tolist()


def term_of(text: str, type_: AttributeType) -> tuple[Term, Any]:
    condition = parse(text)
    assert isinstance(condition, Condition)
    part = condition.boxes[0][0]
    assert part.term is not None
    term = typed(part.term, lambda name: (name, type_))
    return term, part


def check(text: str, type_: AttributeType, extra: list[int]) -> bool:
    term, part = term_of(text, type_)
    wanted = term.attribute.range(
        part.lower, part.upper, lower_closed=part.lower_closed, upper_closed=part.upper_closed
    )
    found = preimage(term, wanted)
    if found is None:
        return False
    smallest, largest = type_.limits
    ends = {end + step for range_ in found[2] for end in range_ for step in (-2, -1, 0, 1, 2)}
    ordinals = sorted({min(max(each, smallest), largest) for each in (*ends, *extra, smallest, -1, 0, 1, largest)})
    expected = [any(first <= each <= last for first, last in found[2]) for each in ordinals]
    assert holding(term, wanted, ordinals) == expected, text
    return True


@pytest.mark.parametrize("seed", seeds(40))
def test_random_expressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    asked = 0
    for _ in range(60):
        type_ = list(TYPES.values())[int(rng.integers(3))]
        text = "x"
        for _ in range(int(rng.integers(1, 4))):
            shapes = UNARY if rng.random() < 0.4 else BINARY
            text = shapes[int(rng.integers(8))].format(text, c=CONSTANTS[int(rng.integers(len(CONSTANTS)))])
        symbol = ["<", "<=", ">", ">=", "="][int(rng.integers(5))]
        extra = [int(each) for each in rng.integers(*type_.limits, 30)]
        extra += [int(each) for each in type_.encode(pa.array(rng.integers(-60, 60, 30).tolist()))[0]]
        asked += check(f"{text} {symbol} {CONSTANTS[int(rng.integers(len(CONSTANTS)))]}", type_, extra)
    assert asked > 30


@pytest.mark.parametrize(
    "text",
    [
        "x * 1.1 > 50",
        "-x < 3",
        "ABS(x - 40) < 2",
        "(x - 32) / 1.8 >= 37",
        "FLOOR(x) = 3",
        "10 / x > 2",
        "x * 0 = 0",
        "SQRT(x) <= 2",
        "ROUND(x) = -2",
        "x * 1e300 > 1e308",
        "x + 9223372036854775807 > 3",
    ],
)
@pytest.mark.parametrize("type_", TYPES.values(), ids=TYPES)
def test_chosen_expressions(text: str, type_: AttributeType) -> None:
    assert check(text, type_, [])
