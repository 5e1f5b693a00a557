"""Snapshots against a naive evaluation of their boxes; files that were tampered with."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import FencepostError
from fencepost.ordinals import BIGINT, DATE, DOUBLE, AttributeType
from fencepost.rules import Rules
from fencepost.snapshot import NEVER, BoxSet, CompiledColumns, RuleColumns, Snapshot, Table, detect_flags, structures
from tests.effort import examples

TYPES: dict[str, AttributeType] = {"price": DOUBLE, "volume": BIGINT, "day": DATE}
KEYS = ["symbol", "venue"]
STRINGS = ["IBM", "AAPL", "", "ÄÖ", "a longer name than eight bytes", "a longer name than eight bytez"]

Box = tuple[dict[str, str], dict[str, tuple[int, int]]]


def columns_of(boxes_by_rule: list[list[Box]]) -> tuple[RuleColumns, list[BoxSet]]:
    n = len(boxes_by_rule)
    nulls = pa.nulls(n, pa.large_string())
    rules = RuleColumns(
        np.arange(n) * 10 + 7,
        np.ones(n, np.int64),
        np.full(n, detect_flags("enter,exit"), np.uint8),
        np.zeros(n, np.bool_),
        np.full(n, NEVER),
        pa.array([f"rule {i}" for i in range(n)], pa.large_string()),
        nulls,
        nulls,
    )
    sets: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[int, Box]]] = {}
    for row, boxes in enumerate(boxes_by_rule):
        for keys, ranges in boxes:
            sets.setdefault((tuple(sorted(keys)), tuple(sorted(ranges))), []).append((row, (keys, ranges)))
    made = []
    for (key_names, attributes), members in sets.items():
        ends = np.array([[box[1][name] for name in attributes] for _, box in members], np.int64)
        ends = ends.reshape(len(members), len(attributes), 2)
        strings = tuple(pa.array([box[0][key] for _, box in members]) for key in key_names)
        rows = np.array([row for row, _ in members])
        made.append(BoxSet(key_names, attributes, rows, strings, ends[:, :, 0].copy(), ends[:, :, 1].copy()))
    return rules, made


def compiled(boxes_by_rule: list[list[Box]], version: int = 3) -> Snapshot:
    rules, sets = columns_of(boxes_by_rule)
    return Snapshot.compile(CompiledColumns(rules, sets, TYPES, None, {}), version=version)


ordinals = st.integers(-5, 40)
boxes = st.tuples(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(STRINGS), max_size=2),
    st.dictionaries(
        st.sampled_from(sorted(TYPES)),
        st.tuples(ordinals, ordinals).map(lambda ends: (min(ends), max(ends))),
        max_size=3,
    ),
)
rows = st.fixed_dictionaries(
    {
        "price": st.one_of(st.none(), ordinals),
        "volume": st.one_of(st.none(), ordinals),
        "day": st.one_of(st.none(), ordinals),
        "symbol": st.one_of(st.none(), st.sampled_from([*STRINGS, "nobody"])),
        "venue": st.one_of(st.none(), st.sampled_from([*STRINGS, "nowhere"])),
    }
)


def table_of(drawn: list[dict[str, Any]]) -> Any:
    columns: dict[str, Any] = {key: pa.array([row[key] for row in drawn], pa.string()) for key in KEYS}
    for name, kind in TYPES.items():
        given_values = [row[name] for row in drawn]
        valid = np.array([value is not None for value in given_values], np.bool_)
        columns[name] = kind.decode(np.array([value or 0 for value in given_values], np.int64), valid)
    return pa.table({"other": pa.array(range(len(drawn))), **columns})


def holds(box: Box, row: dict[str, Any]) -> bool:
    keys, ranges = box
    return all(row[key] == string for key, string in keys.items()) and all(
        row[name] is not None and first <= row[name] <= last for name, (first, last) in ranges.items()
    )


def expected(boxes_by_rule: list[list[Box]], drawn: list[dict[str, Any]]) -> list[list[int]]:
    return [[i * 10 + 7 for i, own in enumerate(boxes_by_rule) if any(holds(box, row) for box in own)] for row in drawn]


@pytest.fixture(params=["as it sees fit", "boxes together"], scope="class")
def choice(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which structure serves boxes over several attributes: whatever is chosen, or always a BoxIndex."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "boxes together":
            patched.setattr(structures, "_FEW", 0)
            patched.setattr(structures, "_SEARCH", 1e9)
        yield request.param


@pytest.mark.usefixtures("choice")
@given(st.lists(st.lists(boxes, min_size=1, max_size=3), max_size=25), st.lists(rows, max_size=20))
@examples(60)
def test_match_is_a_naive_evaluation_of_the_boxes(boxes_by_rule: list[list[Box]], drawn: list[dict[str, Any]]) -> None:
    snapshot = compiled(boxes_by_rule)
    answer = snapshot.match(table_of(drawn))
    assert [sorted(row.tolist()) for row in answer] == expected(boxes_by_rule, drawn)
    for row, own in enumerate(boxes_by_rule):
        assert sorted(map(repr, snapshot.boxes_of(row))) == sorted(
            repr((dict(sorted(keys.items())), dict(sorted(ranges.items())))) for keys, ranges in own
        )


def test_a_rule_of_many_boxes_is_reported_once_in_rows_of_any_length() -> None:
    one_rule: list[Box] = [({}, {"volume": (0, 9)}), ({}, {"volume": (5, 20)}), ({}, {"price": (0, 30)})]
    row = {"price": 3, "volume": 7, "day": 1, "symbol": None, "venue": None}
    for rules in (3, 200):
        answer = compiled([one_rule] * rules).match(table_of([row, {**row, "volume": None}]))
        assert [sorted(found.tolist()) for found in answer] == [[i * 10 + 7 for i in range(rules)]] * 2


changes = st.lists(
    st.tuples(st.dictionaries(st.integers(0, 30), st.lists(boxes, min_size=1, max_size=3), max_size=8), st.booleans()),
    max_size=6,
)


@pytest.mark.usefixtures("choice")
@given(st.lists(st.lists(boxes, min_size=1, max_size=3), max_size=30), changes, st.lists(rows, max_size=12))
@examples(60)
def test_layers_give_the_answers_of_the_rules_they_stand_for(
    start: list[list[Box]], later: list[tuple[dict[int, list[Box]], bool]], drawn: list[dict[str, Any]]
) -> None:
    there = dict(enumerate(start))
    snapshot = compiled(start)
    with tempfile.TemporaryDirectory() as directory:
        for number, (put, is_saved) in enumerate(later):
            gone = [id for id in list(there)[number::5] if id not in put]
            added, sets = columns_of(list(put.values()))
            added = added._replace(ids=np.array([id * 10 + 7 for id in put], np.int64))
            removed = np.array([id * 10 + 7 for id in gone], np.int64)
            snapshot = snapshot.changed(removed, CompiledColumns(added, sets, TYPES, None, {}))
            there = {id: own for id, own in there.items() if id not in gone} | put
            if is_saved:
                snapshot.save(Path(directory) / f"{number}", shared=True)
                snapshot = Snapshot.load(Path(directory) / f"{number}")
            assert len(snapshot) == len(there)
            answer = snapshot.match(table_of(drawn))
            wanted = [
                sorted(id * 10 + 7 for id, own in there.items() if any(holds(b, row) for b in own)) for row in drawn
            ]
            assert [sorted(row.tolist()) for row in answer] == wanted
            ids = snapshot.rules.ids[snapshot.in_force].tolist()
            assert sorted(ids) == sorted(id * 10 + 7 for id in there)
            for row, id in zip(snapshot.in_force.tolist(), ids, strict=True):
                assert sorted(map(repr, snapshot.boxes_of(row))) == sorted(
                    repr((dict(sorted(keys.items())), dict(sorted(ranges.items())))) for keys, ranges in there[id // 10]
                )
            used = {name for own in there.values() for _, ranges in own for name in ranges}
            assert set(snapshot.types) == used, "columns that no rule uses any more are gone"
            few = snapshot.in_force[::3]
            assert snapshot.only(few).match(table_of(drawn)).sets() == [
                set(row.tolist()) & set(snapshot.rules.ids[few].tolist()) for row in answer
            ]


def test_a_small_change_leaves_the_large_layer_alone(tmp_path: Path) -> None:
    first = compiled([[({"symbol": "IBM"}, {"volume": (i, i + 3)})] for i in range(1000)])
    added, sets = columns_of([[({"symbol": "a new string"}, {"volume": (0, 5)})]])
    added = added._replace(ids=np.array([5]))
    second = first.changed(np.array([17]), CompiledColumns(added, sets, TYPES, None, {}))
    assert second.layers[0] is first.layers[0]
    assert len(second) == 1000
    assert second.unlike(first).tolist() == [1000]
    assert first.unlike(second).tolist() == [1]
    first.save(tmp_path / "1")
    second.save(tmp_path / "2", shared=True)
    sizes = [(tmp_path / name / "arrays.bin").stat().st_size for name in "12"]
    assert sizes[1] * 10 < sizes[0]
    again = Snapshot.load(tmp_path / "2")
    assert again.unlike(Snapshot.load(tmp_path / "1")).tolist() == [1000], "layers are known by where they are saved"
    second.save(tmp_path / "whole" / "2")
    assert len(Snapshot.load(tmp_path / "whole" / "2")) == 1000
    assert "1 box of 1 rule on symbol =, volume, changed since (layer 1)" in str(again.explain())
    (tmp_path / "1" / "header.json").write_text((tmp_path / "whole" / "2" / "header.json").read_text())
    with pytest.raises(FencepostError, match=r"in .*1; expected|which is not the snapshot that"):
        Snapshot.load(tmp_path / "2")


EXAMPLE: list[list[Box]] = [
    [({"symbol": "IBM"}, {"volume": (4, 9)})],
    [({}, {"price": (2, 30), "volume": (0, 5)}), ({"venue": "", "symbol": "ÄÖ"}, {})],
    [({}, {})],
]
ROWS: list[dict[str, Any]] = [
    {"price": 3, "volume": 5, "day": 1, "symbol": "IBM", "venue": None},
    {"price": None, "volume": 9, "day": None, "symbol": "ÄÖ", "venue": ""},
]


def test_many_wide_boxes_are_indexed_together_and_explain_says_so(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    corners = rng.integers(0, 1000, (500, 2))
    wide: list[list[Box]] = [[({}, {"price": (x, x + 300), "volume": (y, y + 300)})] for x, y in corners.tolist()]
    snapshot = compiled(wide)
    drawn = [{"price": x, "volume": y, "day": None, "symbol": None, "venue": None} for x, y in corners.tolist()]
    found = [sorted(row.tolist()) for row in snapshot.match(table_of(drawn))]
    assert found == expected(wide, drawn)
    told = str(snapshot.explain())
    assert "BoxIndex over price, volume (" in told
    assert "the most selective range alone would find about" in told
    snapshot.save(tmp_path / "s")
    assert [sorted(row.tolist()) for row in Snapshot.load(tmp_path / "s").match(table_of(drawn))] == found
    narrow = compiled([[({}, {"price": (x, x), "volume": (y, y + 300)})] for x, y in corners.tolist()])
    assert "SliceList over price, its most selective range" in str(narrow.explain())


def test_a_saved_snapshot_gives_the_same_answers(tmp_path: Path) -> None:
    snapshot = compiled(EXAMPLE)
    snapshot.save(tmp_path / "s")
    for verify in (True, False):
        loaded = Snapshot.load(tmp_path / "s", verify=verify)
        assert loaded.match(table_of(ROWS)).sets() == snapshot.match(table_of(ROWS)).sets() == [{7, 17, 27}, {17, 27}]
        assert (loaded.version, len(loaded), loaded.keys) == (3, 3, ("symbol", "venue"))
        assert loaded.rules.conditions.to_pylist() == ["rule 0", "rule 1", "rule 2"]
        assert loaded.rules.labels.null_count == 3
        assert str(loaded.explain()) == str(snapshot.explain())
        assert loaded.boxes_of(1) == snapshot.boxes_of(1)
    with pytest.raises(FencepostError, match="which exists; expected a new directory"):
        snapshot.save(tmp_path / "s")


def test_every_kind_of_table_is_matched() -> None:
    snapshot = compiled([[({"symbol": "IBM"}, {"price": DOUBLE.range(40, 50)})]])  # type: ignore[dict-item]
    given_columns: dict[str, Any] = {
        "SYMBOL": ["IBM", "IBM", None, "x"],
        "price": [41.5, float("nan"), 45.0, 45.0],
        "volume": [1, 2, 3, 4],
        "day": pa.array([0, 1, 2, 3], pa.date32()),
        "venue": ["a", "b", "c", "d"],
    }
    arrow = pa.table(given_columns)
    for table in (
        given_columns,
        arrow,
        arrow.to_batches()[0],
        pa.concat_tables([arrow[:2], arrow[2:]]),
        arrow.to_pandas(),
        pl.from_arrow(arrow),
        {**given_columns, "SYMBOL": pa.array(given_columns["SYMBOL"]).dictionary_encode()},
        {**given_columns, "SYMBOL": pd.Series(given_columns["SYMBOL"])},
    ):
        assert snapshot.match(table).sets() == [{7}, set(), set(), set()]
    assert snapshot.match(arrow[:0]).sets() == []


def test_what_cannot_be_matched_is_refused_by_name() -> None:
    snapshot = compiled(EXAMPLE)
    good = table_of(ROWS)
    with pytest.raises(FencepostError, match="A table without the column volume; expected that column"):
        snapshot.match(good.drop_columns(["volume"]))
    with pytest.raises(FencepostError, match="Column symbol of type int64; expected strings"):
        snapshot.match(good.set_column(good.schema.get_field_index("symbol"), "symbol", pa.array([1, 2])))
    with pytest.raises(FencepostError, match="volume"):
        snapshot.match(good.set_column(good.schema.get_field_index("volume"), "volume", pa.array([1.5, 2.0])))
    two_prices = good.drop_columns(["price"]).append_column("PRICE", pa.array([1.0, 2.0]))
    two_prices = two_prices.append_column("Price", pa.array([1.0, 2.0]))
    with pytest.raises(FencepostError, match="Columns PRICE and Price for price; expected one column of that name"):
        snapshot.match(two_prices)
    with pytest.raises(FencepostError, match="Two columns named price; expected one column of that name"):
        snapshot.match(good.append_column("price", pa.array([1.0, 2.0])))
    with pytest.raises(FencepostError, match="A float as the column price; expected a column of values"):
        snapshot.match({"price": 1.0})
    with pytest.raises(FencepostError, match="symbol as list, which Arrow refuses"):
        snapshot.match({**good.to_pydict(), "symbol": ["IBM", 7]})
    with pytest.raises(FencepostError, match="A LazyFrame; expected an Arrow table"):
        snapshot.match(pl.DataFrame(good.to_pydict()).lazy())
    with pytest.raises(FencepostError, match="record 0 is of type int; expected a dict"):
        snapshot.match([1, 2])
    with pytest.raises(FencepostError, match=r"Columns of different lengths \(a 1, b 2\)"):
        Table({"a": [1], "b": [1, 2]})


def test_nobody_looks_for_a_rule_to_name_while_all_columns_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    rules.add(1, "symbol = 'IBM' AND price < 5")
    rules.add(2, "volume > 3")
    snapshot = rules.compile()
    asked: list[str] = []

    def user_of(self: Snapshot, column: str) -> int | None:
        asked.append(column)
        return find(self, column)

    find = Snapshot.user_of
    monkeypatch.setattr(Snapshot, "user_of", user_of)
    table = {"symbol": ["IBM"], "price": [1.0], "volume": [9.0]}
    assert snapshot.match(table).sets() == [{1, 2}]
    assert asked == []
    del table["volume"]
    with pytest.raises(FencepostError, match=r"without the column volume; expected .* since rule 2 needs it"):
        snapshot.match(table)
    assert asked == ["volume"]


def test_explain_names_the_structure_and_the_reason() -> None:
    wide_and_narrow: list[list[Box]] = [[({}, {"price": (0, 10**6), "volume": (i, i + 1)})] for i in range(100)]
    shown = str(compiled([*wide_and_narrow, *EXAMPLE]).explain())
    assert "101 boxes of 101 rules on price, volume" in shown
    assert "SliceList over volume, its most selective range" in shown
    assert "SliceList over the keys alone" in shown
    assert "always holds" in shown


def test_any_changed_byte_is_noticed(tmp_path: Path) -> None:
    compiled(EXAMPLE).save(tmp_path / "s")
    files = {name: (tmp_path / "s" / name).read_bytes() for name in ("arrays.bin", "header.json")}
    rng = np.random.default_rng(1)
    for name, original in files.items():
        for at in rng.choice(len(original), 120, replace=False).tolist():
            changed = bytearray(original)
            changed[at] ^= 1 << int(rng.integers(0, 8))
            (tmp_path / "s" / name).write_bytes(changed)
            with pytest.raises(FencepostError):
                Snapshot.load(tmp_path / "s")
        for size in (0, 1, len(original) // 2, len(original) - 1):
            (tmp_path / "s" / name).write_bytes(original[:size])
            with pytest.raises(FencepostError):
                Snapshot.load(tmp_path / "s", verify=name == "header.json")
        (tmp_path / "s" / name).write_bytes(original)
    Snapshot.load(tmp_path / "s")


def test_foreign_and_newer_snapshots_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FencepostError, match=r"No header.json in .*; expected a finished snapshot"):
        Snapshot.load(tmp_path)
    compiled(EXAMPLE).save(tmp_path / "s")
    file = tmp_path / "s" / "header.json"
    outer = json.loads(file.read_text())
    for change, message in (
        ({"format": 5}, "A snapshot of format 5 in .*; expected a format from 2 to 4. Upgrade fencepost."),
        ({"magic": "parquet"}, "A header of 'parquet' in"),
        ({"version": 9}, "A header that was changed in"),
    ):
        file.write_text(json.dumps({**outer, "header": {**outer["header"], **change}}))
        with pytest.raises(FencepostError, match=message):
            Snapshot.load(tmp_path / "s")


def test_detections_are_checked() -> None:
    assert detect_flags(["enter", "enter"]) == 2
    with pytest.raises(FencepostError, match="detect='leave'; expected any of inside, enter, exit, cross"):
        detect_flags("leave")
