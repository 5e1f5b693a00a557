"""What moves jump over: snapshots against every move, box and rule compared."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.indexes.borders import box_lines
from fencepost.ordinals import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, AttributeType
from fencepost.snapshot import NEVER, Batch, BoxSet, CompiledColumns, RuleColumns, Snapshot, detect_flags, structures
from tests.snapshot.jump_oracle import Box, jumps_over

TYPES: dict[str, AttributeType] = {
    "x": DOUBLE,
    "y": DOUBLE,
    "n": BIGINT,
    "t": TIMESTAMP,
    "d": DATE,
    "c": AttributeType("decimal", 9, 2),
    "b": BOOLEAN,
}
KEYS = ("k", "l")
STRINGS = ("u", "v")
FLOATS = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 2.5, 1 / 3, math.nextafter(2.0, 3.0), math.nextafter(2.0, 1.0), -1.0]
FAR_FLOATS = [1e300, -1e300, 1.7e308, -1.7e308, 8e307, math.inf, -math.inf, 5e-324, 1e-310, 1e16, 1e16 + 2]
WHOLES = [0, 1, 2, 3, 4, 5, 6, -1]
FAR_WHOLES = [2**53, 2**53 + 1, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 2**52, 70_000]


def ordinals(name: str, far: bool) -> st.SearchStrategy[int]:
    """Few values, so that ends collide; with `far`, the edges of the type, too."""
    kind = TYPES[name]
    if kind == DOUBLE:
        chosen = [DOUBLE.encode_one(value) for value in FLOATS + FAR_FLOATS * far]
    else:
        smallest, largest = kind.limits
        chosen = [min(max(value, smallest), largest) for value in WHOLES + FAR_WHOLES * far]
    return st.sampled_from([ordinal for ordinal in chosen if ordinal is not None])


@st.composite
def ranges(draw: st.DrawFn, name: str, far: bool) -> tuple[int, int]:
    first, last = sorted([draw(ordinals(name, far)), draw(ordinals(name, far))])
    smallest, largest = TYPES[name].limits
    shape = draw(st.sampled_from(["both"] * 5 + ["below", "above", "all"]))
    return smallest if shape in ("below", "all") else first, largest if shape in ("above", "all") else last


@st.composite
def boxes(draw: st.DrawFn, names: tuple[str, ...], far: bool) -> Box:
    keys = draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(STRINGS), max_size=draw(st.integers(0, 2))))
    used = draw(st.lists(st.sampled_from(names), min_size=draw(st.integers(0, len(names))), unique=True))
    return keys, {name: draw(ranges(name, far)) for name in used}


Rule = tuple[list[Box], str]
detects = st.sampled_from(["cross", "enter,exit,cross", "cross,inside", "enter,exit"])


@st.composite
def rules(draw: st.DrawFn, names: tuple[str, ...], far: bool) -> Rule:
    return draw(st.lists(boxes(names, far), min_size=1, max_size=3)), draw(detects)


@st.composite
def places(draw: st.DrawFn, names: tuple[str, ...], far: bool) -> dict[str, Any]:
    found: dict[str, Any] = {name: draw(st.sampled_from([*STRINGS, "w", None])) for name in KEYS}
    for name in names:
        found[name] = draw(st.one_of(ordinals(name, far), ordinals(name, far), ordinals(name, far), st.none()))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Rule], list[dict[int, Rule | None]], list[dict[str, Any]], list[int]]:
    """Rules, later changes of them by id (None takes one out), places, and the start of the move to each."""
    names = tuple(draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True)))
    far = draw(st.booleans())
    start = draw(st.lists(rules(names, far), max_size=12))
    change = st.dictionaries(st.integers(0, 14), st.one_of(st.none(), rules(names, far)), max_size=3)
    changes = draw(st.lists(change, max_size=3))
    at = draw(st.lists(places(names, far), min_size=1, max_size=8))
    return start, changes, at, draw(st.lists(st.integers(-1, len(at) - 1), min_size=len(at), max_size=len(at)))


def columns_of(rules: dict[int, Rule]) -> CompiledColumns:
    count = len(rules)
    sets: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[int, Box]]] = {}
    for row, (own, _) in enumerate(rules.values()):
        for box in own:
            sets.setdefault((tuple(sorted(box[0])), tuple(sorted(box[1]))), []).append((row, box))
    made = []
    for (keys, attributes), members in sets.items():
        ends = np.array([[box[1][name] for name in attributes] for _, box in members], np.int64)
        ends = ends.reshape(len(members), len(attributes), 2)
        strings = tuple(pa.array([box[0][key] for _, box in members]) for key in keys)
        rows = np.array([row for row, _ in members])
        made.append(BoxSet(keys, attributes, rows, strings, ends[:, :, 0].copy(), ends[:, :, 1].copy()))
    columns = RuleColumns(
        np.array(list(rules), np.int64),
        np.ones(count, np.int64),
        np.array([detect_flags(detect) for _, detect in rules.values()], np.uint8),
        np.zeros(count, np.bool_),
        np.full(count, NEVER),
        pa.nulls(count, pa.large_string()),
        pa.nulls(count, pa.large_string()),
        pa.nulls(count, pa.large_string()),
    )
    return CompiledColumns(columns, made, TYPES, None, {})


def batch_of(snapshot: Snapshot, at: list[dict[str, Any]]) -> Batch:
    values: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for name in snapshot.attributes:
        column = [place.get(name) for place in at]
        values[name] = np.array([0 if ordinal is None else ordinal for ordinal in column], np.int64)
        known[name] = None if None not in column else np.array([ordinal is not None for ordinal in column])
    keys = {name: snapshot.encode_key(name, pa.array([p[name] for p in at], pa.string())) for name in snapshot.keys}
    return Batch(len(at), values, known, keys)


def found_by(snapshot: Snapshot, at: list[dict[str, Any]], before: list[int]) -> list[tuple[int, int]]:
    """Pairs of move and id of rule."""
    moves, rows = snapshot.jumps(batch_of(snapshot, at), np.array(before), np.arange(len(at)))
    return sorted(zip(moves.tolist(), snapshot.rules.ids[rows].tolist(), strict=True))


def expected(rules: dict[int, Rule], at: list[dict[str, Any]], before: list[int]) -> list[tuple[int, int]]:
    return [
        (move, id)
        for move, start in enumerate(before)
        for id, (own, detect) in sorted(rules.items())
        if start >= 0 and "cross" in detect and jumps_over(own, at[start], at[move], TYPES)
    ]


@pytest.fixture(params=["as it is", "small rooms, few axes"], scope="module")
def choice(request: pytest.FixtureRequest) -> Iterator[str]:
    """With rooms that every answer outgrows, and further axes than the tree has."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param != "as it is":
            patched.setattr(box_lines, "_CANDIDATES", 1)
            patched.setattr(box_lines, "_MOST_AXES", 2)
            patched.setattr(structures, "_FEW", 0)
            patched.setattr(structures, "_SEARCH", 1e9)
        yield request.param


@pytest.mark.usefixtures("choice")
@settings(max_examples=150)
@given(cases())
def test_moves_jump_over_what_every_box_compared_tells(
    case: tuple[list[Rule], list[dict[int, Rule | None]], list[dict[str, Any]], list[int]],
) -> None:
    start, changes, at, before = case
    rules = dict(enumerate(start))
    snapshot = Snapshot.compile(columns_of(rules))
    assert found_by(snapshot, at, before) == expected(rules, at, before)
    for change in changes:
        new = {id: rule for id, rule in change.items() if rule is not None}
        gone = np.array([id for id, rule in change.items() if rule is None and id in rules], np.int64)
        snapshot = snapshot.changed(gone, columns_of(new))
        rules = {id: rule for id, rule in rules.items() if id not in change} | new
        assert found_by(snapshot, at, before) == expected(rules, at, before)


@pytest.mark.parametrize("names", [("x",), ("x", "y"), ("x", "n"), ("x", "n", "t"), ("n", "d"), ("c", "b", "y")])
@pytest.mark.parametrize("keyed", [False, True])
def test_many_boxes_in_several_levels(names: tuple[str, ...], keyed: bool) -> None:
    rng = np.random.default_rng(len(names) + 7 * keyed)

    def place() -> dict[str, Any]:
        found: dict[str, Any] = {"k": "u" if rng.random() < 0.8 else "v", "l": None}
        for name in names:
            number = int(rng.integers(0, 60)) + (0.5 if TYPES[name] == DOUBLE and rng.random() < 0.3 else 0)
            if TYPES[name] == BOOLEAN:
                number = int(rng.integers(0, 2))
            found[name] = TYPES[name].encode_one(number) if TYPES[name] == DOUBLE else int(number)
        return found

    def box() -> Box:
        one, other = place(), place()
        sizes = {name: sorted([one[name], other[name]]) for name in names}
        if rng.random() < 0.9:  # most are small
            for name in names:
                far = TYPES[name].encode_one(float(rng.integers(0, 60))) if TYPES[name] == DOUBLE else one[name] + 2
                first = one[name] if TYPES[name] != DOUBLE or far is None else min(one[name], far)
                last = min(one[name] + 2, TYPES[name].limits[1]) if TYPES[name] != DOUBLE else first + 2**50
                sizes[name] = [first, last]
        return {"k": one["k"]} if keyed else {}, {name: (ends[0], ends[1]) for name, ends in sizes.items()}

    rules: dict[int, Rule] = {id: ([box() for _ in range(1 + (id % 7 == 0))], "cross") for id in range(600)}
    at = [place() for _ in range(16)]
    for number in range(0, 16, 5):  # along an axis, or nowhere
        at[number] = dict(at[number - 1]) | {names[0]: at[number][names[0]]}
    before = [-1, *range(15)]
    snapshot = Snapshot.compile(columns_of(rules))
    found = found_by(snapshot, at, before)
    assert found == expected(rules, at, before)
    assert len(found) > 15


def test_what_finds_jumps_stays_with_the_layers_that_a_change_leaves_alone() -> None:
    rules: dict[int, Rule] = {
        id: ([({}, {"x": (id, id + 5), "y": (id, id + 5)}), ({}, {"x": (id, id)})], "cross") for id in range(100)
    }
    at = [{"x": -1, "y": -1, "k": None, "l": None}, {"x": 1000, "y": 1000, "k": None, "l": None}]
    snapshot = Snapshot.compile(columns_of(rules))
    assert len(found_by(snapshot, at, [-1, 0])) == 100
    kept = [group._crossing for group in snapshot.layers[0].groups]
    later = snapshot.changed(np.array([3]), columns_of({200: rules[7]}))
    assert found_by(later, at, [-1, 0]) == [(1, id) for id in [*range(3), *range(4, 100), 200]]
    assert [group._crossing for group in later.layers[0].groups] == kept
    assert len(later.layers) == 2
