"""Tables of bounds in a book: the same rules as `Rules.add_table` makes, mirrored by content."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost as fp
from fencepost.book.syncing import load_mirrored
from fencepost.rules.row_digests import digest_texts
from tests.effort import examples

RANGE = {"price": ("low", "high")}
COLUMNS = {
    "double": (pa.float64(), st.floats(-4, 4).map(lambda value: round(value, 1)) | st.just(0.1 + 0.2)),
    "bigint": (pa.int64(), st.sampled_from([-(2**63), -2, 0, 1, 3, 2**53 + 1, 2**63 - 1])),
    "decimal(9,2)": (pa.decimal128(9, 2), st.sampled_from([Decimal("-1.25"), Decimal("0.1"), Decimal(3)])),
    "date": (pa.date32(), st.sampled_from([date(2026, 1, 1), date(2026, 1, 2), date(1, 1, 1)])),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)]),
    ),
    "boolean": (pa.bool_(), st.booleans()),
}


def a_book(home: Path) -> fp.RuleBook:
    return fp.RuleBook(f"sqlite:///{home}/rules.db", author="ann")


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, Any, Any]:
    """A type, a table of bounds in it, and values of it."""
    name = draw(st.sampled_from(sorted(COLUMNS)))
    type_, values = COLUMNS[name]
    rows = draw(st.lists(st.tuples(st.sampled_from([None, "", "it's", "IBM"]), *[st.none() | values] * 2), max_size=6))
    rows = [each for each in rows if None in each[1:] or each[1] < each[2]]
    table = pa.table(
        {
            "rule_id": pa.array(range(len(rows)), pa.int64()),
            "symbol": pa.array([symbol for symbol, _, _ in rows], pa.string()),
            "low": pa.array([low for _, low, _ in rows], type_),
            "high": pa.array([high for _, _, high in rows], type_),
        }
    )
    return name, table, pa.array([None, *draw(st.lists(values, min_size=3))], type_)


def outcome(rules: fp.Rules, schema: dict[str, str], data: dict[str, Any]) -> Any:
    """The rules that hold for each row, or how many can never hold in these types."""
    try:
        return rules.compile(schema).match(data).sets()
    except fp.RuleFaultsError as error:
        return error.total


@examples(60)
@given(drawn=tables(), bounds=st.sampled_from(["[)", "[]", "()", "(]"]))
def test_a_table_in_a_book_matches_as_rules_of_the_table(
    tmp_path_factory: pytest.TempPathFactory, drawn: tuple[str, Any, Any], bounds: str
) -> None:
    name, table, values = drawn
    shape: dict[str, Any] = {"equal": ["symbol"], "ranges": RANGE, "bounds": bounds, "labels": ["symbol"]}
    schema = {"symbol": "string", "price": name}
    data = {"symbol": pa.array(["IBM", "", "it's", None] * len(values)), "price": pa.concat_arrays([values] * 4)}
    expected = fp.Rules.from_table(table, **shape)
    with a_book(tmp_path_factory.mktemp("book")) as book:
        assert book.add_table(table, **shape).added == len(table)
        assert {rule.id: (rule.labels, rule.detect) for rule in book} == {
            rule.id: (rule.labels, rule.detect) for rule in expected
        }
        assert outcome(book.rules(), schema, data) == outcome(expected, schema, data)
        # What was written as text is what a mirrored table says, and so nothing changes.
        assert book.sync(table, origin="same", adopt=True, **shape).revision is None


def test_a_refused_table_leaves_nothing_and_names_every_row(tmp_path: Path) -> None:
    table: dict[str, list[Any]] = {
        "rule_id": [1, 2, 2, 4, 5, 6],
        "low": [5.0, 1.0, 1.0, math.nan, 1.0, math.inf],
        "high": [4.0, 2.0, 2.0, 2.0, 2.0, None],
        "owner": ["a", "b", "c", "d", "e\0", "f"],
    }
    with a_book(tmp_path) as book:
        for take in (book.add_table, lambda *args, **given: book.sync(*args, origin="x", **given)):
            with pytest.raises(fp.RuleFaultsError) as refused:
                take(table, ranges=RANGE, labels="owner")
            assert [each.split(":")[0] for each in refused.value.shown] == ["row 0", "row 2", "row 3"]
            good = {name: [values[row] for row in (1, 4, 5)] for name, values in table.items()}
            with pytest.raises(fp.RuleFaultsError) as refused:  # what only a condition shows
                take(good, ranges=RANGE, labels="owner", bounds="()")
            assert [each.split(":")[0] for each in refused.value.shown] == ["row 1", "row 2"]
            with pytest.raises(fp.RuleFaultsError, match=r"row 1: .*expected"):
                take({"rule_id": [1, 2], "c": ["x > 1", "x >"]}, condition="c")
            with pytest.raises(fp.FencepostError, match="beside equal= or ranges="):
                take(table, ranges=RANGE, condition="owner")
            with pytest.raises(fp.FencepostError, match="table has no column upper"):
                take(table, ranges={"price": ("low", "upper")})
        assert (len(book), book.revision, list(book.history())) == (0, 0, [])
        book.add(5, "price > 1")
        with pytest.raises(fp.RuleFaultsError, match="row 1: rule 5 is already in the book"):
            book.add_table(good, ranges=RANGE)
        assert book.add_table(good, ranges=RANGE, existing="skip").skipped == 1


def test_columns_of_labels() -> None:
    table = {"rule_id": [1, 2, 3], "k": ["a", "b", "c"], "Team": ['x"', None, "ü"], "desk": [4, 5, None]}
    rules = fp.Rules.from_table(table, equal="k", labels=["desk", "Team"])
    assert [rule.labels for rule in rules] == [{"Team": 'x"', "desk": "4"}, {"desk": "5"}, {"Team": "ü"}]
    with pytest.raises(fp.FencepostError, match="expected one of the two"):
        fp.Rules.from_table(table, equal="k", labels=["desk"], labels_column="Team")


def test_a_table_that_shrinks_is_refused(tmp_path: Path) -> None:
    def table(count: int) -> dict[str, Any]:
        return {"rule_id": list(range(count)), "low": [1.0] * count, "high": [2.0] * count}

    with a_book(tmp_path) as book:

        def sync(count: int, **given: Any) -> Any:
            return book.sync(table(count), origin="alerts", ranges=RANGE, **given)

        assert sync(200).added == 200
        book.add(1000, "price > 4")
        with pytest.raises(fp.FencepostError, match="has 0 rows, and 200 of 200 rules would go; expected at most 10%"):
            sync(0)
        with pytest.raises(fp.FencepostError, match="50 of 200 rules would go; expected at most 10%"):
            sync(150)
        with pytest.raises(fp.FencepostError, match="expected at most 49 to be removed"):
            sync(150, remove_at_most=49)
        assert sync(150, remove_at_most="25%").removed == 50
        assert sync(140).removed == 10
        assert sync(11, remove_at_most="100%").removed == 129
        assert sync(1).removed == 10, "of a few, ten may go"
        with pytest.raises(fp.FencepostError, match="has 0 rows, and 1 of 1 rule would go"):
            sync(0)
        assert sync(0, remove_at_most="100%").removed == 1
        assert [rule.id for rule in book] == [1000], "what was not made from the table stays"
        for wrong in ("many", "101%", -1, True):
            with pytest.raises(fp.FencepostError, match="is no limit of removals"):
                sync(0, remove_at_most=wrong)
        with pytest.raises(fp.FencepostError, match="expected a name for the table"):
            book.sync(table(1), origin="", ranges=RANGE)


def test_what_a_table_says_differently_is_replaced(tmp_path: Path) -> None:
    """Every part of a row goes into its digest."""
    base: dict[str, Any] = {
        "rule_id": np.arange(3),
        "symbol": pa.array(["A", "B", None]),
        "low": pa.array([1.0, None, 3.0]),
        "high": pa.array([None, 2.0, 4.0]),
        "owner": ["x", None, "z"],
        "kind": ["enter", "exit", None],
        "ends": pa.array([None, None, datetime(2030, 1, 1)], pa.timestamp("us")),
        "on": [True, True, None],
    }
    shape: dict[str, Any] = {"equal": ["symbol"], "ranges": RANGE, "labels": ["owner"], "detect_column": "kind"}
    shape |= {"expires_column": "ends", "enabled_column": "on"}
    edits = {
        "symbol": ["A", "B", ""],
        "low": [1.0, 0.0, 3.0],
        "high": [None, math.nextafter(2.0, 3.0), 4.0],
        "owner": ["x", "", "z"],
        "kind": ["enter", "exit,enter", None],
        "ends": pa.array([None, None, datetime(2030, 1, 2)], pa.timestamp("us")),
        "on": [True, False, None],
    }
    with a_book(tmp_path) as book:
        assert book.sync(base, origin="o", **shape).added == 3
        assert book.sync(base, origin="o", **shape).revision is None
        for name, values in edits.items():
            base[name] = values
            synced = book.sync(base, origin="o", **shape)
            assert (synced.replaced, synced.unchanged, synced.removed) == (1, 2, 0), name
        assert book.sync(base, origin="o", **shape, bounds="[]").replaced == 2, "one has no upper bound"
        whole = {**base, "low": pa.array([1, 0, 3]), "high": pa.array([None, 3, 4])}
        assert book.sync(whole, origin="o", **shape).replaced == 3
        # Another type whose conditions are the same changes nothing, and is known from then on.
        narrow = {**whole, "low": pa.array([1, 0, 3], pa.int16())}
        assert book.sync(narrow, origin="o", **shape).revision is None


def test_an_origin_that_takes_rules_over(tmp_path: Path) -> None:
    table = {"rule_id": [1, 2, 3], "low": [1, 2, 3], "high": [4, 5, 6]}
    some = {name: values[:2] for name, values in table.items()}
    with a_book(tmp_path) as book:
        book.sync(table, origin="old", ranges=RANGE)
        with pytest.raises(
            fp.RuleFaultsError, match="row 0: rule 1 is in the book, and was not made from this table, but from old"
        ) as refused:
            book.sync(some, origin="new", ranges=RANGE)
        assert "call the table as before with --origin" in str(refused.value)
        assert book.sync(some, origin="new", ranges=RANGE, adopt=True).revision is None
        gone = {name: values[2:] for name, values in table.items()}
        assert book.sync(gone, origin="old", ranges=RANGE).removed == 0, "those are no longer its own"
        assert book.sync(gone, origin="new", ranges=RANGE, adopt=True).removed == 2


def test_many_rules_and_damage(tmp_path: Path) -> None:
    """More than one page of what is known of a table."""
    count = 70_000
    table = pa.table({"rule_id": np.arange(count)[::-1], "low": np.arange(count) / 8, "high": np.arange(count) + 1.0})
    with a_book(tmp_path) as book:
        assert book.sync(table, origin="o", ranges=RANGE).added == count
        edited = table.set_column(
            1, "low", pa.array(np.where(np.arange(count) % 7_000 == 5, -1.0, np.arange(count) / 8))
        )
        assert book.sync(edited, origin="o", ranges=RANGE).replaced == 10
        assert book[count - 6].condition == "price >= -1.0 AND price < 6.0"
        assert book.sync(edited.slice(10, 60_000), origin="o", ranges=RANGE, remove_at_most="20%").removed == 10_000
        with book._database.locked() as locked:
            known = load_mirrored(locked.connection, "o")
            assert known is not None
            assert len(known.ids) == 60_000
            locked.connection.exec_driver_sql("UPDATE fencepost_mirrored SET content = substr(content, 2)")
        with pytest.raises(fp.FencepostError, match="list of rules of o is damaged"):
            book.sync(edited, origin="o", ranges=RANGE)


def test_a_book_of_an_older_fencepost(tmp_path: Path) -> None:
    """It has no tables of pauses and origins yet."""
    with a_book(tmp_path) as book:
        book.add(1, "price > 4")
        with book._database.locked() as locked:
            for name in ("pauses", "origins", "mirrored"):
                locked.connection.exec_driver_sql(f"DROP TABLE fencepost_{name}")
    with a_book(tmp_path) as book:
        assert (book.pauses(), book[1].enabled) == ({}, True)
        table = {"rule_id": [2], "low": [1], "high": [4]}
        assert book.sync(table, origin="o", ranges=RANGE, dry_run=True).added == 1
        assert book.sync(table, origin="o", ranges=RANGE).added == 1
        book.pause(1, until=datetime(2100, 1, 1))
        assert book.pauses() == {1: datetime(2100, 1, 1, tzinfo=UTC)}


def test_digests_of_texts_are_the_same_for_few_and_for_many() -> None:
    few = ["", "a", None, "ab", "ü" * 70, "a"]
    many = few + [str(number) for number in range(5_000)]
    assert digest_texts(pa.array(many))[: len(few)].tolist() == digest_texts(pa.array(few)).tolist()
    assert len(np.unique(digest_texts(pa.array(many)), axis=0)) == len(set(many))


def test_names_in_place_of_ids(tmp_path: Path) -> None:
    def table(*names: str | None, low: float = 1.0) -> dict[str, Any]:
        return {"key": pa.array(names, pa.string()), "low": [low] * len(names), "high": [9.0] * len(names)}

    shape: dict[str, Any] = {"id": "key", "ranges": RANGE}
    with a_book(tmp_path) as book:
        book.add(2**63 - 1, "price > 4")
        book.add(40, "price > 4")
        assert book.sync(table("b", "a"), origin="o", **shape).added == 2
        assert {rule.name: rule.id for rule in book if rule.name} == {"b": 41, "a": 42}
        assert book.sync(table("a", "b"), origin="o", **shape).revision is None, "in another order"
        assert book.sync(table("a", "c", low=2.0), origin="o", **shape).examples == (
            ("replaced", 42, "price >= 2.0 AND price < 9.0"),
            ("added", 43, "price >= 2.0 AND price < 9.0"),
            ("removed", 41, "price >= 1.0 AND price < 9.0"),
        )
        book.sync(table("a", "b", "c"), origin="o", **shape)
        assert (book["b"].id, book["b"].version) == (41, 2), "a name keeps its id, and goes on counting"
        with pytest.raises(
            fp.RuleFaultsError, match=r"row 1: key is null(.|\n)*row 2: the name 'a' is in an earlier row"
        ):
            book.sync(table("a", None, "a"), origin="o", **shape)
        with pytest.raises(fp.RuleFaultsError, match=r"row 0: rule 41 \(b\) is already in the book"):
            book.add_table(table("b"), **shape)
        assert book.add_table(table("d", "b", low=3.0), existing="replace", **shape).replaced == 1
        assert (book["d"].id, book["b"].version) == (44, 3)
        with pytest.raises(fp.FencepostError, match="names in the column high beside texts in key"):
            book.add_table(table("x"), name_column="high", **shape)

        # Wherever an id is taken, a name is.
        assert book.add("ibm floor", "price < 40").id == 45
        assert book.replace("ibm floor", "price < 41", expect=1).name == "ibm floor"
        assert book.pause("ibm floor").id == 45
        assert book.resume("ibm floor").enabled
        assert ("ibm floor" in book, "it" in book) == (True, False)
        book.remove("ibm floor")
        assert [change.action for change in book.history("ibm floor")][-2:] == ["resumed", "removed"]
        with pytest.raises(fp.FencepostError, match="o rule has the name 'ibm floor'"):
            book.remove("ibm floor")
        assert book.restore("ibm floor", 1).version == 5
        assert book["ibm floor"].condition == "price < 40"
