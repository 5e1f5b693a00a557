"""Shards: every position in one part, every rule in all parts that it can hold in, versions in parts."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import ShardPlan, VersionDirectory, cut_into_shards, plan_shards, routing, rule_masks
from fencepost.published.shards.plan import MOST_SHARDS, Lane
from tests.effort import examples
from tests.snapshot.test_snapshot import KEYS, STRINGS, TYPES, Box, boxes, compiled, rows, table_of

UNBOUNDED = TYPES["price"].limits


@st.composite
def plans(draw: st.DrawFn) -> ShardPlan:
    """Any plan at all, also one that no rules would give: heavy keys, cuts on the ends of boxes, shared parts."""
    parts = draw(st.integers(1, 5))
    key = draw(st.sampled_from([None, *KEYS]))
    attribute = draw(st.sampled_from([None, *sorted(TYPES)]))
    lanes = []
    for text in [None] if key is None else draw(st.lists(st.sampled_from(STRINGS), max_size=3, unique=True)):
        cuts = () if attribute is None else tuple(sorted(draw(st.sets(st.integers(-6, 41), max_size=4))))
        lanes.append(Lane(text, cuts, tuple(draw(st.integers(0, parts - 1)) for _ in range(len(cuts) + 1))))
    return ShardPlan(parts, key, attribute, tuple(lanes))


def half_bounded(box: Box, side: int) -> Box:
    """The box with the price unbounded on one side."""
    keys, ranges = box
    if "price" not in ranges or side == 2:
        return box
    ends = list(ranges["price"])
    ends[side] = UNBOUNDED[side]
    return keys, {**ranges, "price": (ends[0], ends[1])}


shapes = st.lists(
    st.lists(st.tuples(boxes, st.integers(0, 2)).map(lambda drawn: half_bounded(*drawn)), min_size=1, max_size=3),
    min_size=1,
    max_size=12,
)


def cells_of(plan: ShardPlan, table: Any) -> Any:
    """The cell of each row of a table."""
    route = routing(plan)
    lanes = route.lanes([None] * len(table) if plan.key is None else table[plan.key].to_pylist())
    if plan.attribute is None:
        return route.cells(lanes, None)
    ordinals, known = TYPES[plan.attribute].encode(table[plan.attribute])
    return route.cells(lanes, ordinals, known)


@examples(150, deadline=None)
@given(plan=plans(), rules=shapes, drawn=st.lists(rows, min_size=1, max_size=12), learnt=st.integers(0, 6))
def test_a_row_finds_in_its_part_what_it_finds_in_the_whole(
    plan: ShardPlan, rules: list[list[Box]], drawn: list[dict[str, Any]], learnt: int
) -> None:
    snapshot, table = compiled(rules), table_of(drawn)
    if learnt:
        plan = plan_shards(snapshot, learnt)
        assert ShardPlan.from_json(json.loads(json.dumps(plan.as_json()))) == plan
    at = routing(plan).shard[cells_of(plan, table)]
    parts = list(cut_into_shards(snapshot, plan))
    whole, found = snapshot.match(table).sets(), [part.match(table).sets() for part in parts]
    assert [found[part][row] for row, part in enumerate(at.tolist())] == whole

    masks = np.concatenate([rule_masks(plan, layer) for layer in snapshot.layers])
    for number, part in enumerate(parts):
        chosen = (masks >> np.uint64(number)) & np.uint64(1) == 1
        assert part.rules.ids.tolist() == snapshot.rules.ids[chosen].tolist()
        for row, id in enumerate(part.rules.ids.tolist()):
            assert part.boxes_of(row) == snapshot.boxes_of(int(snapshot.rows_of(np.array([id]))[0])), (
                "whole and unclipped"
            )
        assert np.concatenate([rule_masks(plan, layer) for layer in part.layers]).tolist() == masks[chosen].tolist()


@examples(100, deadline=None)
@given(plan=plans(), rules=shapes, drawn=st.lists(st.tuples(rows, rows), min_size=1, max_size=8))
def test_a_move_visits_every_part_with_a_rule_on_its_way(
    plan: ShardPlan, rules: list[list[Box]], drawn: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    """A rule that a move can enter, leave or jump over is in some part that is told, for one of them to report."""
    snapshot, route = compiled(rules), routing(plan)
    before, after = (table_of([pair[side] for pair in drawn]) for side in (0, 1))
    starts, ends = (cells_of(plan, table) for table in (before, after))
    masks = np.concatenate([rule_masks(plan, layer) for layer in snapshot.layers])
    visited, between = (route.visits(starts, ends, between=between) for between in (False, True))
    alone = route.visits(np.full(len(drawn), -1), ends, between=True)
    assert (alone == route.bits[ends]).all()
    for row, (was, now) in enumerate(drawn):
        held = {id for table in (before, after) for id in snapshot.match(table).sets()[row]}
        told = snapshot.rules.ids[(masks & visited[row]) != 0]
        assert held <= set(told.tolist())
        told = set(snapshot.rules.ids[(masks & between[row]) != 0].tolist())
        for place, id in enumerate(snapshot.rules.ids.tolist()):
            if any(jumped(box, was, now) for box in snapshot.boxes_of(place)):
                assert id in told


def jumped(box: Box, was: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether the shadows of a move meet those of a box: what jumping over it takes at least."""
    keys, ranges = box
    if any(was[name] != text or now[name] != text for name, text in keys.items()):
        return False
    for name, (first, last) in ranges.items():
        if (
            was[name] is None
            or now[name] is None
            or min(was[name], now[name]) > last
            or max(was[name], now[name]) < first
        ):
            return False
    return True


def keyed_rules(weights: dict[str, int]) -> fp.Rules:
    """So many ranges of the price for each symbol."""
    rng = np.random.default_rng(1)
    symbols = [symbol for symbol, count in weights.items() for _ in range(count)]
    lower = rng.random(len(symbols)) * 1000
    table = {"rule_id": np.arange(len(symbols)), "symbol": symbols, "lower": lower, "upper": lower + 1}
    return fp.Rules.from_table(table, equal=["symbol"], ranges={"price": ("lower", "upper")})


def test_parts_have_about_as_many_rules_also_where_one_key_has_half_of_them() -> None:
    weights = {"HOT": 2000, "WARM": 600} | {f"S{number}": 7 for number in range(200)}
    snapshot = keyed_rules(weights).compile()
    for shards in (2, 5, 8):
        plan = plan_shards(snapshot, shards)
        assert (plan.key, plan.attribute) == ("symbol", "price")
        assert plan.lanes[0].text == "HOT"
        sizes = [len(part) for part in cut_into_shards(snapshot, plan)]
        assert max(sizes) < 1.3 * 4000 / shards
        assert sum(sizes) < 1.1 * 4000, "few rules are in two parts"


def test_rules_without_a_key_are_parted_by_value() -> None:
    lower = np.random.default_rng(2).random(1000) ** 4
    table = {"rule_id": np.arange(1000), "lower": lower, "upper": lower + 1e-4}
    snapshot = fp.Rules.from_table(table, ranges={"price": ("lower", "upper")}).compile()
    plan = plan_shards(snapshot, 4)
    assert (plan.key, plan.attribute, len(plan.lanes[0].cuts)) == (None, "price", 3)
    assert max(len(part) for part in cut_into_shards(snapshot, plan)) < 350

    always = fp.Rules()
    always.add(1, "TRUE")
    assert plan_shards(always.compile(), 4).lanes == (Lane(None, (), (0,)),)


def ids_of(directory: VersionDirectory, version: int, parts: int) -> set[int]:
    """Ids of all parts of a version, in force."""
    found = [directory.load_shard(version, part) for part in range(parts)]
    return {int(id) for part in found for id in part.rules.ids[part.in_force]}


def test_versions_are_published_in_parts_that_share_what_has_not_changed(tmp_path: Path) -> None:
    rules = keyed_rules({f"S{number}": 50 for number in range(40)})
    symbols = [f"S{n % 40}" for n in range(400)]
    ticks = {"symbol": symbols, "price": np.linspace(0, 1000, 400)}
    directory = VersionDirectory(tmp_path)
    assert rules.publish(tmp_path, shards=4) == 1
    rules.remove(7)
    rules.replace(8, "symbol = 'S39' AND price > 3")
    rules.add(5000, "price > 990")
    rules.replace(9, "symbol = 'S1'", enabled=False)
    assert rules.publish(tmp_path) == 2
    plan = directory.shards()
    assert plan is not None
    assert plan.shards == 4
    for version in (1, 2):
        whole, head = directory.load(version), directory.head(version)
        assert ids_of(directory, version, 4) == set(whole.rules.ids[whole.in_force].tolist())
        assert (head.rules, head.detected, len(head.expires)) == (len(whole), 1, 0)
        at = routing(plan).shard[routing(plan).lanes(symbols)]
        found = [directory.load_shard(version, part).match(ticks).sets() for part in range(4)]
        assert [found[part][row] for row, part in enumerate(at.tolist())] == whole.match(ticks).sets()
        assert all(directory.load_shard(version, part).paused == whole.paused for part in range(4))
    old, new = directory.load_shard(1, 2), directory.load_shard(2, 2)
    assert new.layers[0].identity == old.layers[0].identity, "the layer is shared"
    assert len(new.unlike(old)) < 4
    written = sum(file.stat().st_size for file in (tmp_path / "parts").glob("*/00000002/*"))
    assert written < sum(file.stat().st_size for file in (tmp_path / "parts").glob("*/00000001/*")) / 4
    ids = np.array([7, 8, 9, 10, 5000, 5001])
    assert directory.in_force_among(2, ids).tolist() == [False, True, False, True, True, False]
    assert directory.in_force_among(1, ids).tolist() == [True, True, True, True, False, False]


def test_a_book_publishes_parts_too_and_old_ones_are_collected(tmp_path: Path) -> None:
    book, published = fp.RuleBook(f"sqlite:///{tmp_path}/rules.db"), tmp_path / "published"
    directory = VersionDirectory(published)
    for id in range(30):
        book.add(id, f"symbol = 'S{id}' AND price > {id}")
    book.publish(published, shards=3)
    book.replace(3, "symbol = 'S3' AND price > 5")
    book.publish(published)
    first, second = (directory.load_shard(version, 1) for version in (1, 2))
    assert first.layers[0].identity == second.layers[0].identity
    for id in range(30):
        book.replace(id, f"symbol = 'S{id}' AND price > {id + 1}")
    book.publish(published)
    assert directory.collect(timedelta(0)) == [1, 2]
    assert {path.name for path in (published / "parts").glob("*/0*")} == {"00000003"}
    assert ids_of(directory, 3, 3) == set(range(30))


def test_refusals(tmp_path: Path) -> None:
    rules = keyed_rules({"A": 5, "B": 5})
    for wrong in (0, MOST_SHARDS + 1, True, "2"):
        with pytest.raises(FencepostError, match=rf"shards={wrong!r}; expected a whole number from 1 to 64"):
            rules.publish(tmp_path / "new", shards=wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()
    rules.publish(tmp_path / "plain")
    with pytest.raises(FencepostError, match=r"shards=2 for .*plain, which was first published without; "):
        rules.publish(tmp_path / "plain", shards=2)
    rules.publish(tmp_path / "parted", shards=2)
    with pytest.raises(FencepostError, match=r"shards=3 for .*; expected shards=2, with which it was first"):
        rules.publish(tmp_path / "parted", shards=3)
    assert VersionDirectory(tmp_path / "parted").versions() == [1]
    with pytest.raises(FencepostError, match=r"shards=2 for no rules; expected rules to learn from"):
        fp.Rules().publish(tmp_path / "empty", {"price": "double"}, shards=2)
    fp.Rules().publish(tmp_path / "later", {"price": "double", "symbol": "string"}, shards=2)
    assert VersionDirectory(tmp_path / "later").shards() == ShardPlan(2, "symbol", None, ())
    with pytest.raises(FencepostError, match=r"Version 1 of .*plain has no shards"):
        VersionDirectory(tmp_path / "plain").load_shard(1, 0)


def test_a_changed_byte_of_a_part_or_of_the_plan_is_noticed(tmp_path: Path) -> None:
    keyed_rules({"A": 5, "B": 5}).publish(tmp_path, shards=2)
    directory = VersionDirectory(tmp_path)
    plan = directory.shards()
    assert plan is not None
    directory.verify_shards(1, plan)
    arrays = tmp_path / "parts" / "01" / "00000001" / "arrays.bin"
    arrays.write_bytes(b"x" + arrays.read_bytes()[1:])
    with pytest.raises(FencepostError, match="another checksum"):
        directory.verify_shards(1, plan)
    file = tmp_path / "parts" / "plan.json"
    file.write_text(file.read_text().replace('"parts": 2', '"parts": 3', 1))
    with pytest.raises(FencepostError, match="A header that was changed"):
        directory.shards()
