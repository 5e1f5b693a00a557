"""Bands with expressions and conditions of one side: in a book, its files, published versions and the Monitor."""

from pathlib import Path

import pyarrow as pa

import fencepost as fp
from fencepost.published import VersionDirectory

TYPES = {"price": "double", "vwap": "double", "size": "bigint", "name": "string", "sku": "string", "note": "string"}
BANDS = {
    1: "left.price * 1.1 - right.price BETWEEN -1 AND 1 AND LOWER(left.name) = LOWER(right.name) AND left.size > 100",
    2: "left.price > right.vwap * 1.05 AND right.note IS NULL AND (left.size < 5 OR left.size > 50)",
    3: "ABS(left.price - right.price) < 2 AND right.sku LIKE 'AB%' AND left.name <> 'x'",
}


def rows(ids: list[int], **values: list[object]) -> pa.Table:
    kinds = {"double": pa.float64(), "bigint": pa.int64(), "string": pa.string()}
    columns = {name: pa.array(values.get(name, [None] * len(ids)), kinds[kind]) for name, kind in TYPES.items()}
    return pa.table({"venue": ids, "ts": list(range(len(ids))), **columns})


LEFT = rows([1, 2, 3], price=[40.0, 100.0, 10.0], size=[200, 60, 10], name=["Acme", "B", "y"])
RIGHT = rows(
    [7, 8, 9],
    price=[44.5, 99.0, 11.0],
    vwap=[1.0, 90.0, None],
    name=["ACME", "b", "z"],
    sku=["ABx", "A", "AB"],
    note=["n", None, None],
)


def events_of(rules: object) -> list[str]:
    monitor = fp.Monitor(rules, object="venue", time="ts", schema=TYPES)  # type: ignore[arg-type]
    found = monitor.update(left=LEFT, right=RIGHT)
    assert {1, 2, 3} == set(found["rule_id"].to_pylist()), "each of the bands has something to report"
    return sorted(found["event_id"].to_pylist())


def test_a_book_publishes_what_rules_compile(tmp_path: Path) -> None:
    rules = fp.Rules()
    book = fp.RuleBook(f"sqlite:///{tmp_path / 'rules.db'}")
    for id, condition in BANDS.items():
        rules.add(id, condition, detect="enter,exit")
        book.add(id, condition, detect="enter,exit")
    expected = events_of(rules)
    directory = tmp_path / "published"
    book.publish(directory, TYPES)
    assert events_of(VersionDirectory(directory).load()) == expected
    assert events_of(book) == expected

    # What changes is published beside what stays.
    book.replace(2, "left.price > right.vwap * 1.1 AND right.note IS NULL", detect="enter,exit")
    rules.replace(2, "left.price > right.vwap * 1.1 AND right.note IS NULL", detect="enter,exit")
    assert book.preview(directory).edited == (2,)
    book.publish(directory)
    assert events_of(VersionDirectory(directory).load()) == events_of(rules) != expected

    book.export_file(tmp_path / "rules.jsonl")
    again = fp.RuleBook(f"sqlite:///{tmp_path / 'again.db'}")
    again.import_file(tmp_path / "rules.jsonl")
    assert {rule.id: rule.condition for rule in again.rules()} == {rule.id: rule.condition for rule in rules}
