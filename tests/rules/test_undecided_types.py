"""Types of columns that no constant is compared with."""

import warnings
from datetime import date
from pathlib import Path

import pytest

import fencepost as fp
from fencepost.book import RuleBook
from fencepost.published.directory import VersionDirectory


def test_columns_that_are_compared_have_one_type() -> None:
    rules = fp.Rules()
    rules.add(1, "s = t")
    rules.add(2, "t = u")
    rules.add(3, "u LIKE 'A%'")
    rules.add(4, "d1 < d2 AND COALESCE(d2, d3) > DATE '2024-01-01'")
    rules.add(5, "GREATEST(f, g) = h")
    rules.add(6, "h = TRUE")
    day = date(2024, 5, 1)
    row = {"s": ["A"], "t": ["A"], "u": ["A"], "d1": [day], "d2": [date(2024, 6, 1)], "d3": [day]}
    row |= {"f": [True], "g": [False], "h": [True]}
    assert rules.compile().match(row).sets() == [{1, 2, 3, 4, 5, 6}]


def test_what_is_told_two_types_stays_refused() -> None:
    rules = fp.Rules()
    rules.add(1, "a = b")
    rules.add(2, "a > 3 AND b > 'x'")
    with pytest.raises(fp.FencepostError):
        rules.compile()


@pytest.mark.parametrize("kind", ["rules", "book"])
def test_publishing_warns_of_a_type_that_nothing_tells(kind: str, tmp_path: Path) -> None:
    made = fp.Rules() if kind == "rules" else RuleBook(f"sqlite:///{tmp_path}/b.db")
    made.add(1, "name IS NOT NULL AND price > 3")
    with pytest.warns(UserWarning, match=r"do not tell the type of name: .+ --type name=string on the command line"):
        made.publish(tmp_path / "one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.publish(tmp_path / "two", schema={"name": "string", "price": "double"})
        fresh = fp.Rules()
        fresh.add(1, "name = other AND other <> 'A'")
        fresh.publish(tmp_path / "three")
    assert VersionDirectory(tmp_path / "two").schema() == {"name": "key", "price": "double"}
    assert VersionDirectory(tmp_path / "three").schema() == {"name": "key", "other": "key"}


def test_data_of_another_type_names_the_way_out() -> None:
    rules = fp.Rules()
    rules.add(1, "name IS NULL")
    with pytest.raises(fp.FencepostError, match=r"compile\(\{'name': 'string'\}\), --type name=string"):
        rules.compile().match({"name": ["a"]})


def test_a_schema_tells_the_types_of_columns_that_it_lacks(tmp_path: Path) -> None:
    book = RuleBook(f"sqlite:///{tmp_path}/b.db")
    book.add(1, "name = other AND price > 3")
    book.publish(tmp_path / "one", schema={"Name": "string"}, infer=True)
    assert VersionDirectory(tmp_path / "one").schema() == {"Name": "key", "other": "key", "price": "double"}
