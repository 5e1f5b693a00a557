"""One suite for every band index in the catalogue; a new one is tested as soon as it is listed."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import fencepost.indexes
from fencepost import _pool
from fencepost.errors import FencepostError
from fencepost.indexes import SSI, Matches
from fencepost.indexes.contracts.bands import BandIndex, PairLists
from fencepost.indexes.ssi.replay import CAME, WENT
from tests.effort import examples
from tests.indexes.band_oracle import BandOracle

CATALOGUE = [
    entry
    for entry in (getattr(fencepost.indexes, name) for name in fencepost.indexes.__all__)
    if inspect.isclass(entry) and issubclass(entry, BandIndex)
]
SIDES = ["left", "right"]
LEAST, MOST = -(2**63), 2**63 - 1
FLOATS = [0.1, 0.2, 0.30000000000000004, 0.7, -0.0, 5e-324, 2.0**53, 2.0**53 + 2, 1e300, -1e300, 1e-300]
FLOATS += [math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0), 1.7976931348623157e308, -1.7976931348623157e308]
WHOLES = [LEAST, LEAST + 1, MOST, MOST - 1, 2**62, -(2**62), 2**53 + 1]

Subject = tuple[type[BandIndex], dict[str, Any]]


def subjects() -> list[Any]:
    """Every class with every type of values, and with every block size that it declares."""
    found = []
    for entry in CATALOGUE:
        declared = inspect.signature(entry).parameters
        variants: list[dict[str, Any]] = [{"values": values} for values in ("float64", "int64")]
        if "size" in declared:
            variants = [{**variant, "size": size} for variant in variants for size in (2, 3)]
        for variant in variants:
            shown = ", ".join(f"{key}={value}" for key, value in variant.items())
            found.append(pytest.param((entry, variant), id=f"{entry.__name__}({shown})"))
    return found


def made(subject: Subject) -> BandIndex:
    entry, parameters = subject
    return entry(**parameters)


def numbers(subject: Subject) -> st.SearchStrategy[Any]:
    """Mostly small numbers whose differences collide; then tenths, whose differences are rounded, and the extremes."""
    small = st.integers(-6, 6)
    if subject[1]["values"] == "int64":
        return st.one_of(small, small, small, st.sampled_from(WHOLES))
    tenths = st.integers(-30, 30).map(lambda n: n / 10)
    return st.one_of(small.map(float), small.map(float), tenths, st.floats(-8, 8), st.sampled_from(FLOATS))


@st.composite
def bands(draw: st.DrawFn, subject: Subject) -> tuple[Any, Any, str]:
    """Bounds and which of them are inside; equal, unbounded and open ones included."""
    one, other = draw(numbers(subject)), draw(numbers(subject))
    low, high = min(one, other), max(one, other)
    bounds = draw(st.sampled_from(["[]", "[]", "[)", "(]", "()"]))
    if low == high:
        bounds = "[]"
    unbounded = draw(st.sampled_from(["", "", "", "", "low", "high", "both"]))
    return (
        -math.inf if unbounded in ("low", "both") else low,
        math.inf if unbounded in ("high", "both") else high,
        bounds,
    )


def as_list(pairs: Any) -> list[tuple[int, int]]:
    return sorted(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


def assert_same(index: BandIndex, oracle: BandOracle, side: Any, value: Any, group: int | None = None) -> None:
    expected = oracle.pairs(side, value, group)
    assert as_list(index.pairs(side, value, group)) == sorted(expected), f"pairs at {value!r}"
    affected = sorted({query for _, query in expected})
    assert sorted(index.affected(side, value, group).tolist()) == affected, f"affected at {value!r}"


class Churn(RuleBasedStateMachine):
    """Random U1, U2 and moves, with questions in between; the structure's own check after every step."""

    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.index = made(self.subject)
        self.oracle = BandOracle()
        self.next = 0

    def new_ids(self, count: int) -> list[int]:
        self.next += count
        return [(7 * id) % 1009 - 300 for id in range(self.next - count, self.next)]

    def groups(self, data: st.DataObject, count: int) -> list[int | None] | None:
        if not isinstance(self.index, SSI):
            return None
        key = st.sampled_from([None, None, 5, -9])
        return data.draw(st.none() | st.lists(key, min_size=count, max_size=count))

    @rule(data=st.data(), side=st.sampled_from(SIDES), count=st.integers(0, 6))
    def insert_rows(self, data: st.DataObject, side: Any, count: int) -> None:
        values = data.draw(st.lists(numbers(self.subject), min_size=count, max_size=count))
        ids, groups = self.new_ids(count), self.groups(data, count)
        if count == 1:
            self.index.insert(side, ids[0], values[0], None if groups is None else groups[0])
        else:
            self.index.insert_many(side, ids, values, groups)
        self.oracle.rows(side).update(zip(ids, zip(values, groups or [None] * count, strict=True), strict=True))

    @rule(data=st.data(), count=st.integers(0, 5))
    def insert_queries(self, data: st.DataObject, count: int) -> None:
        drawn = data.draw(st.lists(bands(self.subject), min_size=count, max_size=count))
        ids, groups = self.new_ids(count), self.groups(data, count)
        for i, (id, (low, high, bounds)) in enumerate(zip(ids, drawn, strict=True)):
            group = None if groups is None else groups[i]
            self.index.insert_query(id, low, high, bounds, group)  # type: ignore[arg-type]
            self.oracle.queries[id] = (low, high, bounds, group)

    @rule(data=st.data(), count=st.integers(0, 8))
    def insert_closed_queries(self, data: st.DataObject, count: int) -> None:
        drawn = data.draw(st.lists(bands(self.subject), min_size=count, max_size=count))
        ids, groups = self.new_ids(count), self.groups(data, count)
        self.index.insert_queries(ids, [low for low, _, _ in drawn], [high for _, high, _ in drawn], groups=groups)
        for i, (id, (low, high, _)) in enumerate(zip(ids, drawn, strict=True)):
            self.oracle.queries[id] = (low, high, "[]", None if groups is None else groups[i])

    @rule(data=st.data(), side=st.sampled_from(SIDES))
    def remove_rows(self, data: st.DataObject, side: Any) -> None:
        rows = self.oracle.rows(side)
        if rows:
            ids = data.draw(st.lists(st.sampled_from(sorted(rows)), unique=True, max_size=5))
            self.index.remove_many(side, ids)
            for id in ids:
                del rows[id]

    @precondition(lambda self: self.oracle.queries)
    @rule(data=st.data())
    def remove_queries(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from(sorted(self.oracle.queries)), unique=True, max_size=6))
        self.index.remove_queries(ids)
        for id in ids:
            del self.oracle.queries[id]

    @rule(data=st.data(), side=st.sampled_from(SIDES))
    def move(self, data: st.DataObject, side: Any) -> None:
        rows = self.oracle.rows(side)
        if rows:
            row, value = data.draw(st.sampled_from(sorted(rows))), data.draw(numbers(self.subject))
            change = self.index.move(side, row, value)
            entered, left = self.oracle.move(side, row, value)
            assert as_list(change.entered) == sorted(entered)
            assert as_list(change.left) == sorted(left)

    @rule(data=st.data(), side=st.sampled_from(SIDES))
    def move_many(self, data: st.DataObject, side: Any) -> None:
        rows = self.oracle.rows(side)
        if rows:
            moves = data.draw(st.lists(st.tuples(st.sampled_from(sorted(rows)), numbers(self.subject)), max_size=5))
            changes = self.index.move_many(side, [row for row, _ in moves], [value for _, value in moves])
            for i, (row, value) in enumerate(moves):
                entered, left = self.oracle.move(side, row, value)
                assert as_list(changes.entered.of(i)) == sorted(entered)
                assert as_list(changes.left.of(i)) == sorted(left)

    @rule(data=st.data(), side=st.sampled_from(SIDES))
    def ask(self, data: st.DataObject, side: Any) -> None:
        values = data.draw(st.lists(numbers(self.subject), max_size=4))
        key = data.draw(st.sampled_from([None, 5, -9, 77])) if isinstance(self.index, SSI) else None
        groups = None if key is None else [key] * len(values)
        answer = self.index.pairs_many(side, values, groups)
        queries = self.index.affected_many(side, values, groups)
        for i, value in enumerate(values):
            assert_same(self.index, self.oracle, side, value, key)
            assert as_list(answer.of(i)) == sorted(self.oracle.pairs(side, value, key))
            assert sorted(queries[i].tolist()) == sorted({query for _, query in self.oracle.pairs(side, value, key)})

    @invariant()
    def agrees(self) -> None:
        self.index.check()
        assert len(self.index) == len(self.oracle.queries)
        assert [self.index.rows("left"), self.index.rows("right")] == [len(self.oracle.left), len(self.oracle.right)]
        for side in SIDES:
            for value, group in list(self.oracle.rows(side).values())[-1:]:
                assert_same(self.index, self.oracle, side, value, group)


@pytest.mark.parametrize("subject", subjects())
def test_churn_answers_like_the_oracle(subject: Subject) -> None:
    machine = type("ChurnOf", (Churn,), {"subject": subject})
    machine.TestCase.settings = examples(  # type: ignore[attr-defined]
        15, stateful_step_count=20, suppress_health_check=list(HealthCheck), deadline=None
    )
    machine.TestCase().runTest()  # type: ignore[attr-defined]


@pytest.mark.parametrize("subject", subjects())
@given(data=st.data())
@examples(10, deadline=None, suppress_health_check=list(HealthCheck))
def test_bulk_inserts_answer_like_the_oracle(subject: Subject, data: st.DataObject) -> None:
    index, oracle = made(subject), BandOracle()
    for side in SIDES:
        values = data.draw(st.lists(numbers(subject), max_size=20))
        index.insert_many(side, range(len(values)), values)  # type: ignore[arg-type]
        oracle.rows(side).update({row: (value, None) for row, value in enumerate(values)})
    drawn = data.draw(st.lists(bands(subject), max_size=20))
    index.insert_queries(range(len(drawn)), [low for low, _, _ in drawn], [high for _, high, _ in drawn])
    oracle.queries = {id: (low, high, "[]", None) for id, (low, high, _) in enumerate(drawn)}
    index.check()
    for side in SIDES:
        asked = data.draw(st.lists(numbers(subject), max_size=5))
        for value in asked + [value for value, _ in list(oracle.rows(side).values())[:5]]:
            assert_same(index, oracle, side, value)


@pytest.mark.parametrize("subject", subjects())
def test_a_larger_set_answers_like_a_scan(subject: Subject) -> None:
    rng = np.random.default_rng(3)
    left, right = rng.integers(0, 2000, 150), rng.integers(0, 2000, 170)
    lows = rng.choice([-400, 0, 300], 120) - rng.integers(0, 30, 120)
    highs = lows + rng.integers(0, 60, 120)
    index = made(subject)
    index.insert_many("left", np.arange(150), left)
    index.insert_many("right", np.arange(170), right)
    index.insert_queries(np.arange(120), lows, highs)
    for side, asked, others, sign in (("left", left, right, 1), ("right", right, left, -1)):
        found = index.pairs_many(side, asked)  # type: ignore[arg-type]
        queries = index.affected_many(side, asked)  # type: ignore[arg-type]
        differences = sign * (asked[:, None] - others)
        inside = (differences[:, :, None] >= lows) & (differences[:, :, None] <= highs)
        for i in range(len(asked)):
            assert as_list(found.of(i)) == sorted(map(tuple, np.argwhere(inside[i]).tolist()))
            assert np.array_equal(np.sort(queries[i]), np.flatnonzero(inside[i].any(axis=0)))
    index.check()


@pytest.mark.parametrize("subject", subjects())
def test_empty_sides_and_no_numbers(subject: Subject) -> None:
    index = made(subject)
    assert index.affected("left", 3).tolist() == []
    assert as_list(index.pairs("right", 3)) == []
    index.insert_query(1, None, None)
    assert index.affected("left", 3).tolist() == []
    index.insert("left", 4, 2)
    assert index.affected("left", 3).tolist() == []
    assert index.affected("right", 3).tolist() == [1]
    assert index.affected("right", math.nan).tolist() == []
    assert index.affected_many("right", [None, 3]).sets() == [set(), {1}]
    assert index.pairs_many("right", []).offsets.tolist() == [0]
    assert index.query(1) == (-math.inf, math.inf)
    assert index.row("left", 4) == 2
    assert 1 in index
    assert "x" not in index
    assert index.has_row("left", 4)
    assert not index.has_row("right", 4)
    index.check()


def test_infinite_values_make_no_pairs() -> None:
    index = SSI()
    index.insert_query(1, None, None)
    index.insert("left", 4, 2)
    assert index.affected("right", math.inf).tolist() == []


QUERY_FAULTS = [
    (([1, 2], [0, 9], [3, 5]), "Query 2 with a=9, b=5; expected a <= b"),
    (([1, 2], [0, math.nan], [3, 5]), "Query 2 with a=nan, b=5; expected bounds that a difference can reach"),
    (([1, 2], [0, math.inf], [3, math.inf]), "Query 2 with a=inf, b=inf; expected bounds that"),
    (([1, 2, 1], [0, 1, 2], [3, 4, 5]), "Query 1 twice in one call; expected each id once"),
    (([1, 99], [0, 1], [3, 4]), "Query 99 is in the index already; expected a new id"),
    (([1, 2], [0], [3, 4]), "2 ids and 1 lows, none for id 2; expected columns of the same length"),
    (([1, "x"], [0, 1], [3, 4]), "Id 'x' .str.; expected a whole number that fits int64"),
    (([1, 2], [0, 0], [3, 4], "<>"), "Bounds '<>'; expected"),
    (([1, 2], [0, 4], [3, 4], "[)"), "Query 2 with a=4, b=4; expected a < b"),
    (([1, 2, 3], [0, "x", 0], [3, 4, 5]), "Query 2 with lower bound 'x' .str."),
    (([1, 2, 3], [0, 0, 0], [3, "x", 5]), "Query 2 with upper bound 'x' .str."),
]

ROW_FAULTS = [
    (("up", [1], [0]), "Side 'up'; expected 'left' or 'right'"),
    (("left", [1, 2], [0, math.nan]), "Left row 2 with value nan; expected a finite number"),
    (("left", [1, 2], [0, None]), "Left row 2 with value None; expected a finite number"),
    (("left", [1, 2, 1], [0, 1, 2]), "Left row 1 twice in one call; expected each id once"),
    (("left", [1, 7], [0, 1]), "Left row 7 is in the index already; expected a new id"),
    (("left", [1, 2], [0]), "2 ids and 1 values, none for id 2; expected columns of the same length"),
    (("left", [1, 2.5], [0, 1]), "Id 2.5 .float.; expected a whole number"),
    (("right", [1, 2, 3], [0, "x", 1]), "Right row 2 with value 'x' .str."),
]


def furnished(subject: Subject) -> BandIndex:
    index = made(subject)
    index.insert_query(99, -1, 1)
    index.insert("left", 7, 3)
    index.insert("right", 8, 3)
    return index


def assert_unchanged(index: BandIndex) -> None:
    index.check()
    assert len(index) == 1
    assert [index.rows("left"), index.rows("right")] == [1, 1]
    assert as_list(index.pairs("left", 4)) == [(8, 99)]
    assert as_list(index.pairs("right", 4)) == [(7, 99)]


@pytest.mark.parametrize("subject", subjects())
@pytest.mark.parametrize(("call", "message"), QUERY_FAULTS)
def test_faulty_queries_are_refused_whole(subject: Subject, call: Any, message: str) -> None:
    index = furnished(subject)
    with pytest.raises(FencepostError, match=message):
        index.insert_queries(*call)
    assert_unchanged(index)


@pytest.mark.parametrize("subject", subjects())
@pytest.mark.parametrize(("call", "message"), ROW_FAULTS)
def test_faulty_rows_are_refused_whole(subject: Subject, call: Any, message: str) -> None:
    index = furnished(subject)
    with pytest.raises(FencepostError, match=message):
        index.insert_many(*call)
    assert_unchanged(index)


@pytest.mark.parametrize("subject", subjects())
def test_a_refusal_names_the_entry_among_many(subject: Subject) -> None:
    index = furnished(subject)
    ids = 1000 + 3 * np.arange(5_000)
    for row in (2, 2_500):
        lows, values = [0] * len(ids), [3] * len(ids)
        lows[row], values[row] = math.nan, math.nan  # type: ignore[call-overload]
        with pytest.raises(FencepostError, match=f"Query {ids[row]} with a=nan, b=5"):
            index.insert_queries(ids, lows, [5] * len(ids))
        with pytest.raises(FencepostError, match=f"Left row {ids[row]} with value nan"):
            index.insert_many("left", ids, values)
        lows[row] = 9
        with pytest.raises(FencepostError, match=f"Query {ids[row]} with a=9, b=5; expected a <= b"):
            index.insert_queries(ids, lows, [5] * len(ids))
        with pytest.raises(FencepostError, match=f"Query {ids[row]} with a=9, b=5"):
            index.insert_query(int(ids[row]), 9, 5)
        given = ids.copy()
        given[row] = 99
        with pytest.raises(FencepostError, match="Query 99 is in the index already"):
            index.insert_queries(given, [0] * len(ids), [5] * len(ids))
        given[row] = 7
        with pytest.raises(FencepostError, match="Left row 7 is in the index already"):
            index.insert_many("left", given, [3] * len(ids))
    assert_unchanged(index)


def test_a_refusal_of_a_group_names_the_entry() -> None:
    index = SSI()
    with pytest.raises(FencepostError, match="Query 12 with group 'x' "):
        index.insert_queries([11, 12], [0, 0], [1, 1], groups=[1, "x"])
    with pytest.raises(FencepostError, match="Right row 12 with group 'x' "):
        index.insert_many("right", [11, 12], [0, 0], groups=[1, "x"])
    with pytest.raises(FencepostError, match="Left row 12 with group 'x'"):
        index.insert("left", 12, 0.5, group="x")  # type: ignore[arg-type]
    assert len(index) == index.rows("left") == index.rows("right") == 0


def test_one_value_with_many_pairs_does_not_size_the_answers_about_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "lend", lambda *_: None)  # its blocks are larger than what is asked for
    index = SSI()
    index.insert_queries(np.arange(300), np.zeros(300), np.ones(300))
    index.insert_many("left", np.arange(300), np.zeros(300))
    assert len(index.pairs("right", -0.5).rows) == 300 * 300
    assert len(index.affected("right", -0.5)) == 300
    values = np.full(20_000, 50.0)
    for answer in (index.pairs_many("right", values).rows, index.affected_many("right", values).ids):
        assert answer.base is not None
        assert answer.base.nbytes < 8 * 21 * len(values)


def test_rows_are_cleared_after_a_replay_that_ran_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    index = SSI()
    index.insert_queries([1, 2], [0.0, 0.0], [1.0, 1.0], groups=[5, None])
    index.insert_many("left", [1, 2, 3], [0.0, 1.0, 2.0], [5, 6, 7])

    def short(*_: Any) -> int:
        raise MemoryError

    steps = (np.array([0, 0, 1]), [1, 9, 9], np.array([WENT, CAME, CAME], np.uint8), [0.0, 4.0, 4.0], [5, 8, 9])
    with monkeypatch.context() as patched:
        patched.setattr("fencepost.indexes.ssi.index.take_steps", short)
        with pytest.raises(MemoryError):
            index.replay(*steps)
    index.clear_rows()
    index.check()
    index.insert_many("left", [1, 2, 3], [0.0, 1.0, 2.0], [5, 6, 7])
    index.check()
    index.replay(*steps)
    index.check()
    assert [index.has_row("left", row) for row in (1, 2, 3, 9)] == [False, True, True, True]


@pytest.mark.parametrize("subject", subjects())
def test_the_unknown_is_refused_whole(subject: Subject) -> None:
    index = furnished(subject)
    refused: list[tuple[Any, str]] = [
        (lambda: index.remove_queries([99, 5]), "Query 5 to remove; expected the id of a query in the index"),
        (lambda: index.remove_queries([99, 99]), "Query 99 to remove twice"),
        (lambda: index.remove_query(4), "Query 4 to remove"),
        (lambda: index.query(4), "Query 4; expected"),
        (lambda: index.remove_many("left", [7, 8]), "Left row 8 to remove; expected the id of a left row"),
        (lambda: index.remove("right", 7), "Right row 7 to remove"),
        (lambda: index.remove("middle", 7), "Side 'middle'"),  # type: ignore[arg-type]
        (lambda: index.move("left", 8, 5), "Left row 8 to move"),
        (lambda: index.move("left", 7, math.nan), "Left row 7 with value nan"),
        (lambda: index.move_many("left", [7, 7], [9, None]), "Left row 7 with value None"),
        (lambda: index.pairs("both", 1), "Side 'both'"),  # type: ignore[arg-type]
        (lambda: index.affected("both", 1), "Side 'both'"),  # type: ignore[arg-type]
    ]
    for call, message in refused:
        with pytest.raises(FencepostError, match=message):
            call()
        assert_unchanged(index)


@pytest.mark.parametrize("entry", CATALOGUE)
def test_unknown_types_of_values_are_refused(entry: Any) -> None:
    with pytest.raises(FencepostError, match="values='text'; expected 'int64' or 'float64'"):
        entry(values="text")
    with pytest.raises(FencepostError, match=r"Left row 1 with value 1\.5 .float. in an index of int64"):
        entry(values="int64").insert("left", 1, 1.5)
    with pytest.raises(
        FencepostError, match=f"Left row 1 with value {2**53 + 1} .int.; expected a number that float64"
    ):
        entry().insert("left", 1, 2**53 + 1)


@pytest.mark.parametrize("entry", [entry for entry in CATALOGUE if entry is not SSI])
def test_the_papers_structures_have_no_groups(entry: Any) -> None:
    with pytest.raises(FencepostError, match=f"Groups for a {entry.__name__}; expected none"):
        entry().insert("left", 1, 2.0, group=3)


@pytest.mark.parametrize("subject", subjects())
def test_answers_go_into_the_callers_buffers(subject: Subject) -> None:
    index = furnished(subject)
    room = Matches(np.empty(3, np.int64), np.empty(200, np.int64))
    answer = index.affected_many("left", [3, 9], out=room)
    assert answer.sets() == [{99}, set()]
    assert np.shares_memory(answer.ids, room.ids)
    lists = PairLists(np.empty(3, np.int64), np.empty(200, np.int64), np.empty(200, np.int64))
    pairs = index.pairs_many("left", [3, 9], out=lists)
    assert as_list(pairs.of(0)) == [(8, 99)]
    assert np.shares_memory(pairs.rows, lists.rows)
    assert np.shares_memory(pairs.queries, lists.queries)
    with pytest.raises(FencepostError, match="An `out` with 1 offsets"):
        index.affected_many("left", [3, 9], out=Matches(np.empty(1, np.int64), np.empty(200, np.int64)))


@pytest.mark.parametrize("subject", subjects())
def test_storage_is_told(subject: Subject) -> None:
    index = furnished(subject)
    held = index.storage()
    assert held.constructs > 0
    assert held.entries > 0
    assert held.nbytes > 0
    assert repr(index).endswith("(1 queries, 1 left rows, 1 right rows)")
