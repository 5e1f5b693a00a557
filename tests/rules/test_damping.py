"""Options of damping: one canonical value, refused where it makes no sense, the same in every file."""

import copy
import math
import pickle
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import Rules
from fencepost.errors import FencepostError
from fencepost.language import Binder, parse
from fencepost.ordinals import BIGINT, DOUBLE, AttributeType
from fencepost.rules.checked import rule_of_mapping
from fencepost.rules.damping import Damping, checked_span, damping_of
from fencepost.rules.faults import FaultyRules, RuleFaultsError
from fencepost.rules.files import read_rules, write_rules
from fencepost.rules.rule import Rule
from fencepost.rules.stays import move_bounds
from fencepost.snapshot.columns import MICROSECONDS, NO_UNIT, ROWS, UNITS
from tests.dampings import options
from tests.effort import examples

RANGE = "price BETWEEN 10 AND 20"


def a_rule(condition: str = RANGE, **given_options: Any) -> Rule:
    rules = Rules()
    rules.add(7, condition, **given_options)
    return rules[7]


@pytest.mark.parametrize(
    ("given_value", "canonical"),
    [
        (timedelta(minutes=5), "5 minutes"),
        ("300 s", "5 minutes"),
        ("5m", "5 minutes"),
        ("1.5 minutes", "90 seconds"),
        ("1 day", "1 day"),
        (timedelta(microseconds=7), "7 microseconds"),
        ("3 rows", "3 rows"),
        (" 1 row ", "1 row"),
        ("3rows", "3 rows"),
        (300, 300),
        ("300", 300),
        (np.int64(5), 5),
        (2**62, 2**62),
        (0, None),
        ("0 s", None),
        (timedelta(0), None),
        (None, None),
    ],
)
def test_a_length_has_one_form(given_value: Any, canonical: Any) -> None:
    found = a_rule(for_=given_value)
    assert found.for_ == canonical
    assert type(found.for_) is type(canonical)
    assert a_rule(**{"for": given_value}) == found
    assert checked_span(canonical, "for", rows=True) == canonical


def test_a_rule_without_options_has_no_damping() -> None:
    assert a_rule().damping is None
    assert a_rule(for_=0, margin={}, cooldown="0 days").damping is None
    rule = a_rule(for_="5 minutes", margin={"price": 2.0}, limit=1)
    assert rule.damping == Damping(for_="5 minutes", margin=(("price", 2),), limit=1)
    assert len({rule.damping, a_rule(for_="300 s", margin={"price": Decimal(2)}, limit=1).damping}) == 1
    assert rule.damping is not None
    assert damping_of(rule.damping.text) == rule.damping
    assert str(rule.damping) == "for 5 minutes; margin price 2; limit 1"


@pytest.mark.parametrize(
    ("given_options", "expected"),
    [
        ({"for_": "0 rows"}, "for='0 rows'; expected 1 row or more"),
        ({"for_": -1}, "for=-1; expected no less than nothing"),
        ({"for_": timedelta(seconds=-1)}, "expected no less than nothing"),
        ({"for_": 2**62 + 1}, r"expected at most 2\*\*62"),
        ({"for_": timedelta.max}, r"expected at most 2\*\*62"),
        ({"for_": "99999999999999999999 days"}, "expected a timedelta"),
        ({"for_": "9" * 5_000 + " rows"}, r"and at most 2\*\*62"),
        ({"for_": 1.5}, "for=1.5; expected a timedelta, a whole number"),
        ({"for_": True}, "for=True; expected a timedelta"),
        ({"for_": "soon"}, "for='soon'; expected a timedelta"),
        ({"keep_firing_for": "-3 rows"}, "keep_firing_for='-3 rows'; expected a timedelta"),
        ({"cooldown": "3 rows"}, "cooldown cannot count rows"),
        ({"every": "3 rows"}, "every cannot count rows"),
        ({"every": 5, "detect": "enter,exit"}, "every=5 without detect inside"),
        ({"for_": 5, "detect": "enter,cross"}, "for=5 with detect cross; expected one of the two"),
        ({"limit": 0}, "limit=0; expected a whole number, 1 or more"),
        ({"limit": 1.0}, "limit=1.0; expected a whole number"),
        ({"limit": True}, "limit=True; expected a whole number"),
        ({"limit": "one"}, "limit='one'; expected a whole number"),
        ({"stay": 5}, "stay=5; expected a condition"),
        ({"stay": " "}, "stay=' '; expected a condition"),
        ({"stay": "price >"}, "stay: "),
        ({"stay": "left.price - right.price < 1"}, "a band; expected a condition of one stream"),
        ({"stay": "price > 1", "margin": {"price": 1}}, "stay beside margin"),
        ({"stay": "price >= 11"}, r"price >= 10.0 of the condition sticks out of price >= 11.0 of stay"),
        ({"stay": "price < 20"}, r"price <= 20.0 of the condition sticks out of price < 20.0 of stay"),
        ({"stay": "price > 1 AND volume > 3"}, r"does not ask for volume, which sticks out of volume > 3.0 of stay"),
        ({"stay": "price > 1 AND venue = 'X'"}, r"any venue of the condition sticks out of venue = 'X' of stay"),
        ({"margin": {"price": 0}}, "expected a number above zero for every column"),
        ({"margin": {"price": -1}}, "expected a number above zero for every column"),
        ({"margin": {"price": math.inf}}, "expected a number above zero for every column"),
        ({"margin": {"price": math.nan}}, "expected a number above zero for every column"),
        ({"margin": {"price": 10**400}}, "expected a number above zero for every column"),
        ({"margin": {"price": True}}, "expected a number above zero for every column"),
        ({"margin": {"price": "2"}}, "expected a number above zero for every column"),
        ({"margin": {5: 2}}, "expected a number above zero for every column"),
        ({"margin": [2]}, "expected a number above zero for every column"),
        ({"margin": {"volume": 2}}, "a margin of volume, which the condition does not bound"),
        ({"margin": {"price": 2, "Price": 2}}, "two margins of price"),
    ],
)
def test_refusals_name_the_rule_and_the_reason(given_options: dict[str, Any], expected: str) -> None:
    with pytest.raises(FencepostError, match=f"Rule 7: .*{expected}"):
        a_rule(**given_options)


@pytest.mark.parametrize(
    ("condition", "given_options", "expected"),
    [
        ("venue = 'X' AND price > 1", {"stay": "venue = 'Y' AND price > 1"}, "venue = 'X' of the condition sticks out"),
        ("venue = 'X' AND price > 1", {"margin": {"venue": 1}}, "a margin of venue, which is a key"),
        ("day > DATE '2026-01-01'", {"margin": {"day": 1}}, "a margin of day, which is date; expected columns of num"),
        ("flag = TRUE", {"margin": {"flag": 1}}, "a margin of flag, which is boolean"),
        ("price < 0 OR price >= 0", {"margin": {"price": 1}}, "which the condition does not bound"),
        ("price <> 3", {"stay": "price < 2 OR price > 3"}, r"price < 3.0 of the condition sticks out of price < 2.0"),
        ("price > 3", {"stay": "price > 2 AND price < 9"}, r"any price of the condition|price <= .* sticks out"),
        ("left.price - right.price < 1", {"stay": "price > 1"}, "stay of a band; expected a condition of one stream"),
        ("left.price - right.price < 1", {"margin": {"price": 1}}, "margin of a band; expected"),
        (
            "left.price - right.price < 1",
            {"detect": "silent"},
            "Rule 7: detect silent of a band; .*silence is of one o",
        ),
        ("left.price - right.price < 1", {"detect": "enter,silent"}, "detect silent of a band; expected a condition"),
    ],
)
def test_refusals_of_other_conditions(condition: str, given_options: dict[str, Any], expected: str) -> None:
    with pytest.raises(FencepostError, match=expected):
        a_rule(condition, **given_options)


def test_bands_have_all_others() -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price < 1", for_=5, keep_firing_for="2 rows", cooldown=1, limit=3, every=9)
    snapshot = rules.compile()
    assert snapshot.stay is None
    assert snapshot.damping is not None
    assert snapshot.damping.rules.tolist() == [0]
    assert snapshot.damping.keep_units.tolist() == [ROWS]


def test_columns_of_a_snapshot() -> None:
    rules = Rules()
    rules.add(1, "price > 1")
    rules.add(2, RANGE, for_="5 minutes", keep_firing_for="3 rows", cooldown=7, limit=2, every="1 s")
    rules.add(3, RANGE, stay="price BETWEEN 8 AND 22 OR volume > 3 OR venue = 'X'")
    rules.add(4, "venue = 'Y' AND price > 5", margin={"price": 2})
    snapshot = rules.compile()
    damping, stay = snapshot.damping, snapshot.stay
    assert damping is not None
    assert stay is not None
    assert damping.rules.tolist() == [1, 2, 3]
    assert (damping.holds.tolist(), damping.hold_units.tolist()) == (
        [300_000_000, 0, 0],
        [MICROSECONDS, NO_UNIT, NO_UNIT],
    )
    assert (damping.keeps[0], damping.keep_units[0]) == (3, ROWS)
    assert (damping.cooldowns[0], damping.cooldown_units[0]) == (7, UNITS)
    assert (damping.everys[0], damping.every_units[0]) == (1_000_000, MICROSECONDS)
    assert damping.limits.tolist() == [2, 0, 0]
    assert damping.text_of(0) is None
    assert damping.text_of(3) == '{"margin": {"price": 2}}'
    assert stay.rules.ids.tolist() == [3, 4]
    assert snapshot.columns == {"venue": "key", "price": "double", "volume": "double"}
    assert (snapshot.attributes, snapshot.keys) == (("price", "volume"), ("venue",))
    rows = {"price": [9.0, 30.0, 3.5, None], "volume": [0.0, 9.0, 0.0, None], "venue": ["Z", "Z", "Y", "X"]}
    assert stay.match(rows).sets() == [{3}, {3}, {4}, {3}]
    assert snapshot.match(rows).sets() == [{1}, {1}, {1}, set()]
    assert snapshot.match({"price": [15.0], "venue": ["Z"]}).sets() == [{1, 2, 3}], (
        "match needs no column of stay alone"
    )
    shown = str(snapshot.explain())
    assert "3 rules are damped: " in shown
    assert "for 1" in shown
    assert "margin 1" in shown
    assert snapshot.user_of("volume") == 3
    assert snapshot.rows_beyond({"price", "venue"}).tolist() == [2]


# -- containment and margins ---------------------------------------------------------------------------------

SCHEMA = {"a": "bigint", "b": "bigint", "k": "string"}
bounds = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted)


@st.composite
def boxes(draw: st.DrawFn) -> str:
    parts = [f"{name} BETWEEN {low} AND {high}" for name in "ab" if draw(st.booleans()) for low, high in [draw(bounds)]]
    parts += [f"k = '{text}'" for text in draw(st.lists(st.sampled_from("xy"), max_size=1))]
    return " AND ".join(parts) or "a BETWEEN 0 AND 4"


conditions = st.lists(boxes(), min_size=1, max_size=3).map(" OR ".join)


def points_of(box: Any) -> set[tuple[Any, ...]]:
    """Every point of a small space that a box holds: values, and None for a null."""
    ranges, keys = {name: (first, last) for name, first, last in box.ranges}, dict(box.keys)
    space = [range(-1, 6), range(-1, 6), "xyz"]
    found = set()
    for a in (*space[0], None):
        for b in (*space[1], None):
            for k in (*space[2], None):
                row = {"a": a, "b": b, "k": k}
                inside = all(row[name] is not None and low <= row[name] <= high for name, (low, high) in ranges.items())
                if inside and all(row[name] == text for name, text in keys.items()):
                    found.add((a, b, k))
    return found


@examples(300)
@given(conditions, conditions)
def test_containment_agrees_with_points(condition: str, stay: str) -> None:
    types: dict[str, Any] = {"a": BIGINT, "b": BIGINT, "k": "key"}
    binder = Binder(types)
    inner, outer = ([points_of(box) for box in binder.bind(parse(text)).boxes] for text in (condition, stay))  # type: ignore[arg-type]
    contained = all(any(mine <= other for other in outer) for mine in inner)
    rules = Rules()
    if not contained:
        with pytest.raises(FencepostError, match="sticks out"):
            rules.add(1, condition, stay=stay)
        return
    rules.add(1, condition, stay=stay)
    made = rules.compile(SCHEMA)
    assert made.stay is not None
    mine = [points_of(_Box(made.stay.boxes_of(0), place)) for place in range(len(made.stay.boxes_of(0)))]
    assert set().union(*mine) == set().union(*outer)


class _Box:
    """A box of a snapshot, as the binder would give it."""

    def __init__(self, found: Any, place: int) -> None:
        keys, ranges = found[place]
        self.keys = list(keys.items())
        self.ranges = [(name, first, last) for name, (first, last) in ranges.items()]


@examples(400)
@given(st.floats(allow_nan=False), st.floats(0, exclude_min=True, allow_infinity=False), st.booleans())
def test_a_margin_of_doubles_is_exact_or_just_beyond(bound: float, margin: float, is_lower: bool) -> None:
    ordinal = DOUBLE.encode_one(bound)
    assert ordinal is not None
    [moved] = DOUBLE.decode(move_bounds(DOUBLE, np.array([ordinal]), margin, is_lower=is_lower)).to_pylist()
    if math.isinf(bound):
        assert moved == bound
        return
    exact = Fraction(bound) + (-Fraction(margin) if is_lower else Fraction(margin))
    outward = -math.inf if is_lower else math.inf
    assert math.isinf(moved) or (Fraction(moved) <= exact if is_lower else Fraction(moved) >= exact)
    nearer = math.nextafter(moved, -outward)
    assert math.isinf(nearer) or (Fraction(nearer) > exact if is_lower else Fraction(nearer) < exact)


WHOLE = [BIGINT, AttributeType("decimal", 9, 2), AttributeType("decimal", 18, 18)]


@examples(400)
@given(st.sampled_from(WHOLE), st.data())
def test_a_margin_of_whole_units_is_exact_and_stays_in_the_type(type_: AttributeType, data: st.DataObject) -> None:
    smallest, largest = type_.limits
    edges = st.sampled_from([smallest, smallest + 1, -1, 0, 1, largest - 1, largest])
    bound = data.draw(edges | st.integers(smallest, largest))
    margin = data.draw(st.integers(1, 2**70) | st.sampled_from([0.01, 0.1, 0.3, 1.005, 2.5, 1e18, 1e300, 5e-324]))
    steps = Fraction(repr(margin)) / type_.unit
    [lower] = move_bounds(type_, np.array([bound]), margin, is_lower=True).tolist()
    [upper] = move_bounds(type_, np.array([bound]), margin, is_lower=False).tolist()
    assert lower == max(smallest, math.ceil(bound - steps))
    assert upper == min(largest, math.floor(bound + steps))


@pytest.mark.parametrize(("type_", "inside"), [("double", [8.0, 22.0]), ("bigint", [8, 22]), ("decimal(9,2)", [8, 22])])
def test_margins_in_types_of_a_schema(type_: str, inside: list[Any]) -> None:
    rules = Rules()
    rules.add(1, RANGE, margin={"PRICE": 2})
    stay = rules.compile({"Price": type_}).stay
    assert stay is not None
    [(_, ranges)] = stay.boxes_of(0)
    ends = AttributeType.parse(type_).decode(np.array(ranges["Price"])).to_pylist()
    assert [float(each) for each in ends] == inside


def test_a_schema_may_find_faults() -> None:
    rules = Rules()
    rules.add(1, "price > 1")
    rules.add(2, RANGE, margin={"price": 2})
    with pytest.raises(RuleFaultsError, match=r"rule 2: .*a margin of price, which is timestamp|does not fit price"):
        rules.compile({"price": "timestamp"})
    table = {"rule_id": [1, 2], "low": [1.0, 4.0], "high": [3.0, 9.0]}
    of_table = Rules.from_table(table, ranges={"price": ("low", "high")}, stay="price >= 1 AND price < 8")
    with pytest.raises(
        RuleFaultsError, match=r"rule 2: price < 9.0 of the condition sticks out of price < 8.0 of stay"
    ):
        of_table.compile()
    faulty: list[Any] = []
    with TemporaryDirectory() as home:
        of_table.publish(f"{home}/rules", faults=faulty)
        published = of_table.compile_usable(None, 2, FaultyRules())
    assert [fault.id for fault in faulty] == [2]
    assert published.stay is not None
    assert published.stay.rules.ids.tolist() == [1]
    assert published.paused == {2: 1}


# -- tables ---------------------------------------------------------------------------------------------------


def test_options_of_a_table_for_all_rows_and_by_columns() -> None:
    table = pa.table(
        {
            "rule_id": [1, 2, 3],
            "low": [1.0, 2.0, 3.0],
            "hold": ["5 minutes", None, "3 rows"],
            "rest": pa.array([timedelta(seconds=90), None, None], pa.duration("us")),
            "most": pa.array([None, 2.0, None], pa.float64()),
            "wider": [{"price": 1.5}, {"price": None}, {"price": 2.0}],
        }
    )
    rules = Rules.from_table(
        table,
        ranges={"price": ("low", None)},
        detect="enter",
        keep_firing_for="1 hour",
        cooldown_column="rest",
        for_="1 minute",
        options={"for": "hold", "limit": "most", "margin": "wider"},
    )
    dampings = [rule.damping for rule in rules]
    assert dampings == [
        Damping("5 minutes", "1 hour", None, (("price", 1.5),), "90 seconds"),
        Damping("1 minute", "1 hour", limit=2),
        Damping("3 rows", "1 hour", None, (("price", 2),)),
    ]
    with TemporaryDirectory() as home:
        rules.to_parquet(f"{home}/rules.parquet")
        assert [rule.damping for rule in Rules.from_parquet(f"{home}/rules.parquet")] == dampings
    assert [rule.damping for rule in pickle.loads(pickle.dumps(rules))] == dampings


def test_faults_of_options_in_columns_are_collected() -> None:
    table = {
        "rule_id": [1, 2, 3, 4],
        "low": [1, 2, 3, 4],
        "hold": ["soon", "1 s", None, None],
        "kind": ["enter", "cross", "enter", "inside"],
        "most": [1, 1, 0, 1],
    }
    arguments: Any = {"options": {"for": "hold", "detect": "kind", "limit": "most"}, "every": "5 s"}
    with pytest.raises(RuleFaultsError) as caught:
        Rules.from_table(table, ranges={"price": ("low", None)}, **arguments)
    text = str(caught.value)
    assert "row 0: for='soon'; expected a timedelta" in text
    assert "row 1: for='1 second' with detect cross" in text
    assert "row 2: limit=0; expected a whole number" in text
    assert "row 2: every='5 seconds' without detect inside" in text
    assert "row 3" not in text


# -- files ----------------------------------------------------------------------------------------------------


@examples(60)
@given(st.lists(options(), min_size=1, max_size=4))
def test_every_file_brings_back_the_same_rules(drawn: list[dict[str, Any]]) -> None:
    rules = Rules()
    for id, given_options in enumerate(drawn):
        rules.add(id, "price < 20", **given_options)
    expected = list(rules)
    with TemporaryDirectory() as home:
        for extension in ("jsonl", "csv", "parquet"):
            path = Path(home) / f"rules.{extension}"
            write_rules(path, rules.with_text())
            assert [rule_of_mapping(read()).rule for _, read in read_rules(path).rows] == expected
        rules.to_jsonl(f"{home}/a.jsonl")
        rules.to_parquet(f"{home}/a.parquet")
        assert list(Rules.from_jsonl(f"{home}/a.jsonl")) == expected
        assert list(Rules.from_parquet(f"{home}/a.parquet")) == expected
    assert list(pickle.loads(pickle.dumps(rules))) == list(copy.deepcopy(rules)) == expected
