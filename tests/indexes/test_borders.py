"""Borders in production: integers to the edge, groups, saved arrays, both strategies, live changes at size."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.indexes import Borders, Crossings, Matches
from fencepost.indexes.borders import moves as kernels
from fencepost.indexes.borders.objects import ObjectTable, object_column
from tests.effort import examples

SMALLEST, LARGEST = -(2**63), 2**63 - 1


def sets(found: Crossings) -> list[Any]:
    return [each.sets() for each in found if each is not None]


@st.composite
def whole_ranges(draw: st.DrawFn) -> tuple[int | None, int | None]:
    edge = st.sampled_from([SMALLEST, SMALLEST + 1, -1, 0, 1, 2**53 + 1, LARGEST - 1, LARGEST])
    low, high = sorted(draw(st.tuples(*[st.one_of(edge, st.integers(-9, 9))] * 2)))
    shape = draw(st.sampled_from(["both", "both", "below", "above"]))
    return None if shape == "below" else low, None if shape == "above" else high


@given(
    rules=st.lists(st.tuples(whole_ranges(), st.sampled_from([None, 1, 2, 3])), max_size=30),
    bounds=st.sampled_from(["[)", "[]", "(]", "()"]),
    moves=st.lists(
        st.tuples(
            *[st.one_of(st.integers(-10, 10), st.sampled_from([SMALLEST, LARGEST, 2**53, 2**53 + 1]))] * 2,
            *[st.sampled_from([1, 2, 9])] * 2,
            st.booleans(),
        ),
        max_size=12,
    ),
    strategy=st.sampled_from(["cheaper", "walk", "compare"]),
)
@examples(150)
def test_integers_and_groups_like_a_comparison(rules: Any, bounds: Any, moves: Any, strategy: Any) -> None:
    index, held = Borders(values="int64"), {}
    for id, ((low, high), group) in enumerate(rules):
        first = SMALLEST if low is None else low + (bounds[0] == "(")
        last = LARGEST if high is None else high - (bounds[1] == ")")
        if SMALLEST <= first <= last <= LARGEST:
            index.insert(id, low, high, bounds, group)
            held[id] = (first, last, group)
    index.check()
    expected: list[tuple[set[int], set[int], set[int]]] = []
    for before, after, old, new, first_row in moves:
        was = {i for i, (a, b, g) in held.items() if not first_row and a <= before <= b and g in (None, old)}
        now = {i for i, (a, b, g) in held.items() if a <= after <= b and g in (None, new)}
        low, high = min(before, after), max(before, after)
        jumped = {
            i
            for i, (a, b, g) in held.items()
            if not first_row and low < a and b < high and (g is None or g == old == new)
        }
        expected.append((now - was, was - now, jumped))
    columns = [np.array(c, np.int64) for c in zip(*(m[:4] for m in moves), strict=True)] or [np.zeros(0, np.int64)] * 4
    mask = np.array([m[4] for m in moves], np.bool_)
    found = index.crossings(columns[0], columns[1], mask, columns[2], columns[3], strategy=strategy)
    assert list(zip(*sets(found), strict=True)) == expected
    fewer = index.crossings(columns[0], columns[1], mask, columns[2], columns[3], cross=False, strategy=strategy)
    assert fewer.cross is None
    assert sets(fewer) == sets(found)[:2]
    same = index.crossings_ordinals(columns[0], columns[1], mask, columns[2], columns[3])
    assert sets(same) == sets(found)


def random_rules(rng: np.random.Generator, n: int, groups: int) -> tuple[Any, Any, Any]:
    lows = rng.integers(0, 100_000, n)
    widths = np.where(rng.random(n) < 0.1, rng.integers(1, 50_000, n), rng.integers(1, 300, n))
    keys = np.array([None if key == groups else key for key in rng.integers(0, groups + 1, n).tolist()], object)
    return lows, lows + widths, keys


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("groups", [0, 3, 400])
def test_changes_at_size_like_a_fresh_index(groups: int, sparse: bool) -> None:
    """After many changes the answers are those of an index that was built at once, by every strategy."""
    rng = np.random.default_rng(groups)
    n = 6000
    lows, highs, keys = random_rules(rng, n, max(groups, 1))
    ids = np.arange(n) * (10**12 if sparse else 1) + 5
    given_groups = keys if groups else None
    index = Borders()
    half = n // 2
    index.insert_many(ids[:half], lows[:half], highs[:half], groups=keys[:half] if groups else None)
    live = np.zeros(n, np.bool_)
    live[:half] = True
    for step in range(30):
        add = np.flatnonzero(~live)[: int(rng.integers(1, 90))]
        index.insert_many(ids[add], lows[add], highs[add], groups=keys[add] if groups else None)
        live[add] = True
        gone = rng.choice(np.flatnonzero(live), int(rng.integers(1, 60)), replace=False)
        index.remove_many(ids[gone])
        live[gone] = False
        if step % 10 == 0:
            index.check()
    again = np.flatnonzero(~live)[:5]
    index.insert_many(ids[again], lows[again], highs[again], groups=keys[again] if groups else None)
    live[again] = True
    index.check()
    assert len(index) == int(live.sum())
    fresh = Borders()
    fresh.insert_many(ids[live], lows[live], highs[live], groups=None if given_groups is None else keys[live])
    before = rng.integers(-10, 100_400, 3000)
    after = np.where(rng.random(3000) < 0.5, before + rng.integers(-50, 50, 3000), rng.integers(-10, 100_400, 3000))
    told: dict[str, Any] = {}
    if groups:
        told = {"after_groups": rng.integers(0, groups, 3000)}
        told["before_groups"] = np.where(rng.random(3000) < 0.7, told["after_groups"], rng.integers(0, groups, 3000))
    expected = sets(fresh.crossings(before, after, **told))
    for strategy in ("cheaper", "walk", "compare"):
        assert sets(index.crossings(before, after, strategy=strategy, **told)) == expected
        found = index.crossings(before, after, cross=False, strategy=strategy, **told)
        assert sets(found) == expected[:2]
    slots = index.crossings(before, after, slots=True, **told)
    assert [[set(index.slot_ids[list(row)].tolist()) for row in each.sets()] for each in slots if each] == expected
    loaded = Borders.from_arrays({name: _read_only(array) for name, array in index.to_arrays().items()})
    loaded.check()
    assert sets(loaded.crossings(before, after, **told)) == expected
    loaded.remove_many(ids[again])
    loaded.insert_many(ids[again], lows[again], highs[again], groups=keys[again] if groups else None)
    loaded.check()
    assert sets(loaded.crossings(before, after, **told)) == expected
    grouped = {"groups": told["after_groups"]} if groups else {}
    held = index.stab(after, **grouped).sets()
    for row in range(0, 3000, 100):
        inside = live & (lows <= after[row]) & (after[row] < highs)
        if groups:
            inside &= np.array([key is None or key == told["after_groups"][row] for key in keys.tolist()])
        assert held[row] == set(ids[inside].tolist())


def _read_only(array: Any) -> Any:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def test_a_rule_in_several_dimensions_is_saved_too() -> None:
    index = Borders(2)
    index.insert_many([3, 9], [(0, 0), (5, 5)], [(2, 2), (7, None)], groups=[1, None])
    index.insert(4, (1, 1), (9, 9), group=1)
    index.remove(3)
    loaded = Borders.from_arrays(index.to_arrays())
    loaded.check()
    for each in (index, loaded):
        found = each.crossings([(0, 0), (4, 6)], [(10, 10), (8, 6)], after_groups=[1, 2])
        assert sets(found) == [[set(), set()], [set(), set()], [{4, 9}, {9}]]
        assert each.stab([(6, 100), (2, 2)], groups=[2, 1]).sets() == [{9}, {4}]


@pytest.mark.parametrize("width", [40, 400])
def test_several_axes_with_groups_like_a_comparison(width: int) -> None:
    """Few and many boxes at a point, changing groups and first observations, after live changes and from arrays."""
    rng = np.random.default_rng(width)
    n, rows = 900, 300
    lows = rng.integers(0, 1000, (n, 2))
    highs = lows + rng.integers(1, width, (n, 2))
    keys = rng.integers(0, 4, n)
    groups = [None if key == 3 else int(key) for key in keys]
    index = Borders(2)
    index.insert_many(range(n), lows, highs, groups=groups)
    index.remove_many(range(0, n, 5))
    index.insert_many(range(0, n, 10), lows[::10], highs[::10], groups=groups[::10])
    live = (np.arange(n) % 5 > 0) | (np.arange(n) % 10 == 0)
    before = rng.integers(0, 1000, (rows, 2))
    after = before + rng.integers(-30, 30, (rows, 2))
    told: dict[str, Any] = {"before_groups": rng.integers(0, 3, rows), "after_groups": rng.integers(0, 3, rows)}
    first = rng.random(rows) < 0.1

    def holding(row: int, places: Any, groups_then: Any) -> set[int]:
        held = live & (lows <= places[row]).all(1) & (places[row] < highs).all(1)
        return set(np.flatnonzero(held & ((keys == 3) | (keys == groups_then[row]))).tolist())

    was = [set() if first[row] else holding(row, before, told["before_groups"]) for row in range(rows)]
    now = [holding(row, after, told["after_groups"]) for row in range(rows)]
    expected = [[b - a for a, b in zip(was, now, strict=True)], [a - b for a, b in zip(was, now, strict=True)]]
    loaded = Borders.from_arrays({name: _read_only(array) for name, array in index.to_arrays().items()})
    for each in (index, loaded):
        assert sets(each.crossings(before, after, first, cross=False, **told)) == expected
        assert sets(each.crossings(before, after, first, **told))[:2] == expected
        slots = each.crossings(before, after, first, cross=False, slots=True, **told)
        assert set(each.slot_ids[slots.enter.ids].tolist()) == set().union(*expected[0])
        each.remove_many([1, 2])
        each.insert_many([1, 2], lows[1:3], highs[1:3], groups=groups[1:3])
        each.check()
        assert sets(each.crossings(before, after, first, cross=False, **told)) == expected


def test_an_object_may_change_its_group() -> None:
    index = Borders()
    index.insert_many([1, 2, 3], [0, 0, 0], [10, 10, 10], groups=[7, 8, None])
    found = index.update(["a"] * 4, [5, 5, 6, 99], groups=[7, 8, 8, 8])
    assert sets(found) == [[{1, 3}, {2}, set(), set()], [set(), {1}, set(), {2, 3}], [set()] * 4]
    assert index.inside(2) == []
    index.update(["a", "b"], [5, 5], groups=[8, 7])
    assert (index.inside(1), index.inside(2), set(index.inside(3))) == (["b"], ["a"], {"a", "b"})
    assert index.affected(2, 6, 9).leave == ["a"]


def test_an_object_on_several_axes_without_a_group_was_in_no_rule_of_a_group() -> None:
    index = Borders(2)
    index.insert_many([1, 2], [(0, 0), (0, 0)], [(9, 9), (9, 9)])
    index.update([7], [(5, 5)], cross=False)
    index.insert(3, (0, 0), (9, 9), group=4)
    assert sets(index.update([7, 7], [(5, 5), (6, 6)], [4, 4], cross=False)) == [[{3}, set()], [set(), set()]]


def test_an_object_without_a_group_was_in_no_rule_of_a_group() -> None:
    index = Borders()
    index.insert(1, 0.0, 10.0)
    index.update([5], [3.0])
    index.insert(2, 0.0, 10.0, group=7)
    assert index.inside(2) == []
    assert sets(index.update([5], [4.0], groups=[7])) == [[{2}], [set()], [set()]]
    index.check()


def test_groups_are_asked_for_where_rules_have_them() -> None:
    index = Borders()
    index.insert(1, 0, 10, group=7)
    for groups, message in (
        (None, "1 rows without groups; expected the group of each row"),
        ([7, 8], "1 rows and 2 groups"),
        ([None], "Row 0 without a group"),
    ):
        with pytest.raises(FencepostError, match=message):
            index.update([5], [3], groups=groups)
        with pytest.raises(FencepostError, match=message):
            index.crossings([1], [3], after_groups=groups)
    assert index.objects == 0


def test_the_type_of_values_is_settled_once() -> None:
    index = Borders()
    index.update(["a"], [2**53 + 1])
    assert index.values == "int64"
    index.insert(1, 2**53 + 1, 2**53 + 2)
    assert index.inside(1) == ["a"]
    with pytest.raises(FencepostError, match=r"Value 1.5 .float. in an index of int64 values"):
        index.update(["a"], [1.5])
    with pytest.raises(FencepostError, match=r"Interval 2 with lower bound 0.5 .float. in an index of int64 values"):
        index.insert(2, 0.5, 3)
    with pytest.raises(FencepostError, match="values='text'; expected 'int64' or 'float64'"):
        Borders(values="text")  # type: ignore[arg-type]
    assert sets(index.update(["a", "a"], [None, 3])) == [[set(), set()], [set(), {1}], [set(), set()]]


def test_minus_zero_is_zero_and_infinity_is_reached() -> None:
    index = Borders()
    index.insert_many([1, 2, 3], [0.0, -math.inf, 5.0], [1.0, 0.0, math.inf])
    found = index.crossings([-1.0, -0.0, 7.0, -math.inf], [-0.0, 0.0, math.inf, math.inf])
    assert sets(found) == [[{1}, set(), set(), {3}], [{2}, set(), set(), {2}], [set(), set(), set(), {1}]]


def test_answers_go_into_the_callers_buffers() -> None:
    index = Borders()
    index.insert_many(range(20), [0] * 20, [5] * 20)
    out = Crossings(*(Matches(np.empty(3, np.int64), np.empty(200, np.int64)) for _ in range(3)))
    found = index.crossings([9, 9], [1, -3], out=out)
    assert [each.counts.tolist() for each in found if each is not None] == [[20, 0], [0, 0], [0, 20]]
    assert np.shares_memory(found.enter.ids, out.enter.ids)
    small = Crossings(*(Matches(np.empty(3, np.int64), np.empty(10, np.int64)) for _ in range(3)))
    with pytest.raises(FencepostError, match="An `out` with room for 10 ids; expected room for at least"):
        index.crossings([9, 9], [1, -3], out=small)
    moved = index.update([1, 1], [1, 9], out=out)
    assert np.shares_memory(moved.exit.ids, out.exit.ids)
    assert index.update([1, 2], [1, 1], out=small).enter.counts.tolist() == [20, 20]


def test_more_changes_than_one_stage_holds() -> None:
    n = 70_000
    index = Borders()
    index.insert_many(np.arange(n), np.zeros(n), np.full(n, 10.0))
    found = index.update([1] * 6, [5.0, 20.0, -5.0, 5.0, math.nan, 7.0])
    assert found.enter.counts.tolist() == [n, 0, 0, n, 0, 0]
    assert found.exit.counts.tolist() == [0, n, 0, 0, 0, 0]
    assert found.cross is not None
    assert found.cross.counts.tolist() == [0, 0, n, 0, 0, 0]


def test_no_kernel_of_moves_is_compiled_for_a_number_that_is_written_out() -> None:
    index = Borders()
    index.insert_many(np.arange(300), np.arange(300), np.arange(300) + 40)
    for strategy in ("walk", "compare"):
        index.crossings(np.arange(300), np.arange(300)[::-1].copy(), strategy=strategy)
    called: list[Any] = [kernels.find_places, kernels.write_held]
    for kernel in called:
        compiled = list(kernel._cache._cache_file._load_index())
        assert compiled
        assert "Literal" not in str(compiled), "each such number would be compiled by itself"


def test_arrays_of_another_format_are_refused() -> None:
    arrays = Borders().to_arrays()
    arrays["axis"] = arrays["axis"] + 1
    with pytest.raises(FencepostError, match="Arrays of format 3; expected format 2"):
        Borders.from_arrays(arrays)


def test_space_per_rule_and_object() -> None:
    rng = np.random.default_rng(4)
    n = 50_000
    lows = rng.random(n)
    index = Borders()
    index.insert_many(np.arange(n), lows, lows + 0.002)
    index.update(rng.permutation(10**9)[:n] if n > 10**6 else np.arange(n) * 10**9, rng.random(n))
    assert index.storage().nbytes <= 40 * n
    assert index.object_bytes <= 32 * n


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(-3, 12) | st.sampled_from(["a", "b", 2.5, (1, 2)])))))
@examples(60)
def test_objects_keep_their_slots(steps: list[tuple[bool, list[Any]]]) -> None:
    table, known = ObjectTable(1), dict[Any, int]()
    for adding, objects in steps:
        if adding:
            found = table.slots(object_column(objects)).tolist()
            for name, slot in zip(objects, found, strict=True):
                assert known.setdefault(name, slot) == slot
        else:
            gone = sorted(set(objects) & set(known), key=str)
            table.remove(object_column(gone))
            for name in gone:
                del known[name]
        table.check()
        assert len(table) == len(known) == len(set(known.values()))
        assert table.find(object_column(list(known))).tolist() == list(known.values())
        assert table.at(np.array(list(known.values()), np.int64)) == list(known)
