"""Conditions inside the limits are read at once, however they are formed: work is counted, not timed."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

import pytest

from fencepost.language import Box, Condition, ConditionError, Part, bind, condition, parse
from fencepost.language.condition import AllOf, clash_of
from fencepost.language.source import Source
from fencepost.language.sql import compile_shape
from tests.effort import seeds


def condition_of(text: str) -> Condition:
    found = parse(text)
    assert isinstance(found, Condition)
    return found


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """The calls of a function, while it works as before."""
    calls, only = [], getattr(owner, name)

    def counting(*given: Any) -> Any:
        calls.append(1)
        return only(*given)

    monkeypatch.setattr(owner, name, counting)
    return calls


def test_each_pair_of_parts_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = counted(monkeypatch, condition, "excludes")
    with pytest.raises(ConditionError, match="makes 257 boxes"):
        parse(" AND ".join(f"d <> {n}" for n in range(260)))
    assert len(compared) < 260 * 260 * 2
    compared.clear()
    parse(" AND ".join(f"d BETWEEN {-n} AND {n}" for n in range(1, 1600)))
    assert len(compared) < 10_000  # each with itself, since all of them can hold


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"HOUR(ts) = {n % 24}" for n in range(900)),
        " OR ".join(f"LOWER(s) = 'a{n}'" for n in range(900)),
        " AND ".join(f"ABS(d - {n}) > 0.1" for n in range(900)),
    ],
    ids=["hour", "lower", "abs"],
)
def test_words_and_parentheses_are_read_once_for_all_places(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    for name in ("words", "opening"):
        only = Source.__dict__[name].func

        def reading(source: Source, only: Any = only, name: str = name) -> Any:
            read.append(name)
            return only(source)

        kept = cached_property(reading)
        kept.__set_name__(Source, name)
        monkeypatch.setattr(Source, name, kept)
    source = Source(text)
    compile_shape(source)
    assert sorted(read) in (["words"], ["opening", "words"])


def test_choices_of_ranges_are_counted_before_they_are_made() -> None:
    many = condition_of(" AND ".join(f"ABS(c{n}) > 1" for n in range(40)))
    with pytest.raises(ConditionError, match="makes 1,099,511,627,776 boxes; expected at most 256 in one condition"):
        bind(many)
    few = " AND ".join(f"ABS(d - {n}) > 0.1" for n in range(300))
    assert len(bind(condition_of(f"{few} AND ABS(d - 7.5) < 2")).boxes) == 5


def naive_product(children: list[list[Box]], clashes: list[Any]) -> list[Box]:
    found = children[0]
    for others in children[1:]:
        combined = []
        for box in found:
            for other in others:
                clash = clash_of(box, other)
                if clash is None:
                    combined.append(box + other)
                else:
                    clashes.append(clash)
        found = combined
    return found


@pytest.mark.parametrize("seed", seeds(300))
def test_boxes_that_can_hold_and_their_clashes_are_those_of_all_pairs(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    kinds: list[Callable[[], Any]] = [
        lambda: rng.randrange(6),
        lambda: Fraction(rng.randrange(24), 4) + rng.choice([Fraction(0), Fraction(1, 10**30)]),
        lambda: datetime(2024, 1, rng.randint(1, 9), tzinfo=UTC),
    ]
    kinds.append(lambda: rng.choice(kinds[:2])())
    value = rng.choice(kinds)

    def part() -> Part:
        low, high = (rng.choice([None, value()]) for _ in range(2))
        place = (rng.randrange(99), rng.randrange(99))
        return Part(rng.choice("ab"), low, high, rng.random() < 0.5, rng.random() < 0.5, place)

    shared = [part() for _ in range(4)]
    children = [
        [tuple(rng.choice([part(), *shared]) for _ in range(rng.randrange(4))) for _ in range(rng.randint(1, 4))]
        for _ in range(rng.randint(2, 4))
    ]

    class Given:
        def __init__(self, boxes: list[Box]) -> None:
            self.boxes, self.place = boxes, (0, 1)

        def expand(self, values: Any, clashes: list[Any]) -> list[Box]:  # noqa: ARG002
            return self.boxes

    expected: list[Any] = []
    found: list[Any] = []
    boxes = naive_product(sorted(children, key=len), expected)
    if len(boxes) <= 256:
        assert AllOf(tuple(map(Given, children)), (0, 1)).expand([], found) == boxes
        assert found == expected
