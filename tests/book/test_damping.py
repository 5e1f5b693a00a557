"""Damping in a rule book: stored, kept in history, restored, imported, mirrored, published; on topics, too."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.published import VersionDirectory
from tests.dampings import options
from tests.effort import examples

RANGE = "price BETWEEN 10 AND 20"
OPTIONS: dict[str, Any] = {"for_": "5 minutes", "keep_firing_for": "3 rows", "margin": {"price": 2}, "cooldown": 7, "limit": 1}


def a_book(home: Path, name: str = "rules") -> fp.RuleBook:
    return fp.RuleBook(f"sqlite:///{home}/{name}.db", author="ann")


@examples(30)
@given(options())
def test_a_book_says_what_rules_say(tmp_path_factory: pytest.TempPathFactory, drawn: dict[str, Any]) -> None:
    home = tmp_path_factory.mktemp("book")
    rules = fp.Rules()
    rules.add(1, RANGE, **drawn)
    with a_book(home) as book:
        assert book.add(1, RANGE, **drawn) == rules[1] == book[1]
        [stored] = list(book.rules())
        assert stored == rules[1]
        for extension in ("jsonl", "csv", "parquet"):
            book.export_file(home / f"rules.{extension}")
            with a_book(home, extension) as other:
                other.import_file(home / f"rules.{extension}")
                assert other[1] == rules[1]
                assert other.import_file(home / f"rules.{extension}", existing="replace").unchanged == 1


def test_history_keeps_what_was_and_restores_it(tmp_path: Path) -> None:
    with a_book(tmp_path) as book:
        first = book.add(1, RANGE, detect="enter,exit", **OPTIONS)
        book.replace(1, RANGE, detect="enter,exit", stay="price > 5")
        changes = list(book.history(1))
        assert changes[1].before == first
        assert changes[1].after is not None
        assert changes[1].after.stay == "price > 5"
        restored = book.restore(1, 1)
        assert restored.damping == first.damping
        assert book.restore(1, 1).version == restored.version, "what is so already stays as it is"
        paused = book.pause(1)
        assert paused.damping == first.damping
        with pytest.raises(FencepostError, match="Rule 2: price >= 10.0 of the condition sticks out"):
            book.add(2, RANGE, stay="price > 10")
        with pytest.raises(FencepostError, match="has the text"):
            book.add(2, "\"a\0b\" > 1", margin={"a\0b": 2})


def test_a_book_is_published_with_its_damping(tmp_path: Path) -> None:
    schema = {"price": "double", "volume": "double"}
    with a_book(tmp_path) as book:
        for id in range(30):
            book.add(id, f"price > {id}", **(OPTIONS if id % 2 else {}))
        book.publish(tmp_path / "rules", schema)
        book.replace(2, "price > 2", stay="price > 1 OR volume > 3")
        book.remove(3)
        faults: list[Any] = []
        with pytest.warns(UserWarning, match="rule 40 is stored, but .*unknown.*--type unknown=TYPE"):
            book.add(40, "price > 2", stay="price > 1 OR unknown > 3")
        book.publish(tmp_path / "rules", faults=faults)
        assert [fault.id for fault in faults] == [40]
        snapshot = VersionDirectory(tmp_path / "rules").load(2)
        expected = book.rules()
        expected.remove(40)
        alone = expected.compile(schema)
        assert snapshot.stay is not None and alone.stay is not None
        ids = snapshot.stay.rules.ids[snapshot.stay.in_force]
        assert sorted(ids.tolist()) == sorted(alone.stay.rules.ids.tolist())
        rows = {"price": [0.5, 9.0, 40.0], "volume": [9.0, 0.0, None]}
        assert snapshot.stay.match(rows).sets() == alone.stay.match(rows).sets()


def test_tables_are_mirrored_by_their_options(tmp_path: Path) -> None:
    table = {"rule_id": [1, 2, 3], "low": [1.0, 2.0, 3.0], "hold": ["5 minutes", None, "3 rows"]}
    arguments: Any = {"origin": "limits", "ranges": {"price": ("low", None)}, "options": {"for": "hold"}}
    with a_book(tmp_path) as book:
        assert book.sync(table, **arguments).added == 3
        assert (book[1].for_, book[2].for_, book[3].for_) == ("5 minutes", None, "3 rows")
        assert book.sync({**table, "hold": ["300 s", None, "3 rows"]}, **arguments).unchanged == 3
        done = book.sync({**table, "hold": ["300 s", "1 s", "2 rows"]}, **arguments)
        assert (done.replaced, done.unchanged) == (2, 1)
        assert (book[2].for_, book[2].version, book[1].version) == ("1 second", 2, 1)
        done = book.sync({**table, "hold": [None, "1 s", "2 rows"]}, **arguments)
        assert (done.replaced, book[1].for_) == (1, None)
        with pytest.raises(FencepostError, match="row 0: .*sticks out of price < 3.0 of stay"):
            book.add_table({"rule_id": [9], "low": [2.0]}, ranges={"price": ("low", None)}, stay="price < 3")


def test_a_book_from_before_is_upgraded(tmp_path: Path) -> None:
    with a_book(tmp_path) as book:
        book.add(1, RANGE)
        book.replace(1, "price > 3")
    with sqlite3.connect(tmp_path / "rules.db") as database:
        for table in ("fencepost_rules", "fencepost_past"):
            database.execute(f"ALTER TABLE {table} DROP COLUMN damping")
        database.execute("UPDATE fencepost_book SET format = 2")
    database.close()
    with a_book(tmp_path) as book:
        assert book[1].damping is None
        assert [change.before and change.before.condition for change in book.history(1)] == [None, RANGE]
        assert book.replace(1, RANGE, **OPTIONS).damping == book[1].damping


def test_a_damaged_text_is_refused(tmp_path: Path) -> None:
    with a_book(tmp_path) as book:
        book.add(1, RANGE, **OPTIONS)
    for text in ("{", "[]", '{"for": -1}', '{"fore": 1}', "{}"):
        with sqlite3.connect(tmp_path / "rules.db") as database:
            database.execute("UPDATE fencepost_rules SET damping = ?", (text,))
        database.close()
        with a_book(tmp_path) as book, pytest.raises(FencepostError, match="Rule 1 is damaged in revision 1"):
            book[1]  # noqa: B018 (what it says is what is asked)


def test_changes_on_a_topic_have_the_same_options(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from fencepost.pipeline.runtime.changes import ChangeFollower, Message

    rules, letters = fp.Rules(), tmp_path / "letters"
    follower = ChangeFollower(rules, lambda: None, tmp_path / "state", dead_letters=letters)
    insert = {"op": "insert", "id": 1, "condition": RANGE, "for": "300 s", "margin": {"price": 2}, "limit": 1}
    faulty = {"op": "insert", "id": 2, "condition": RANGE, "limit": 0}
    follower.apply([Message("t/0/0", json.dumps(insert)), Message("t/0/1", json.dumps(faulty))], 0)
    assert (rules[1].for_, rules[1].margin, rules[1].limit, rules[1].version) == ("5 minutes", {"price": 2}, 1, 1)
    assert 2 not in rules
    assert "limit=0" in next(letters.iterdir()).read_text()
    follower.apply([Message("t/0/2", json.dumps({**insert, "op": "update", "for": "5 minutes"}))], 1)
    assert rules[1].version == 1, "the same in other words"
    follower.apply([Message("t/0/3", json.dumps({**insert, "op": "update", "for": "6 minutes"}))], 2)
    assert (rules[1].for_, rules[1].version) == ("6 minutes", 2)
