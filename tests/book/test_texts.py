"""Searching a book: what blocks of texts let pages pass over is nothing that a look at all rules would find."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.book import RuleBook
from fencepost.book.texts import Texts
from fencepost.rules import Rule
from tests.effort import seeds

NAMES = [None, "Floor", "floor of IBM", "Ärger", "price alert", "ﬁn", "STRASSE", "Straße", "İstanbul", "Kelvin"]
SYMBOLS = ["IBM", "ibm", "Ä", "ä", "HP 100%", "a_b", "K", "K", "x'y", "ΑΣ", "ΑΣΑ", "İx"]
LABELS: list[dict[str, str] | None] = [None, {"desk": "1"}, {"desk": "11"}, {"Desk": "1"}, {"über": "Ä", "desk": "1"}]
SOUGHT = ["IBM", "ibm'", "price", "PRICE >", "> 1", "floor", "ÄR", "är", "ss", "kg", "100%", "a_b", "b'", "ας", "ΑΣ",
          "İ", "i̇", "k'", "x''y", "zzz", "between", "\n", "12345678901", "desk", "paused"]  # fmt: skip


def lower(text: str) -> str:
    """As SQLite does."""
    return "".join(each.lower() if each.isascii() else each for each in text)


def fits(rule: Rule, asked: dict[str, Any]) -> bool:
    condition, own = str(rule.condition), rule.labels or {}
    text, search = asked.get("text"), asked.get("search")
    return (
        all(own.get(name) == value for name, value in (asked.get("labels") or {}).items())
        and (asked.get("state") is None or rule.enabled is (asked["state"] == "enabled"))
        and (text is None or text.lower() in condition.lower())
        and (text is None or not text.isascii() or lower(text) in lower(condition))
        and (not search or any(lower(search) in lower(each) for each in (condition, rule.name or "")))
    )


def all_pages(book: RuleBook, asked: dict[str, Any]) -> Iterator[Rule]:
    after = None
    while True:
        page = book.search(after, 3, **asked)
        yield from page.rules
        if page.after is None:
            return
        after = page.after


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and looks of a few rules."""
    for name, value in (("_BLOCK", 4), ("_READ", 12), ("_MOST_CHANGED", 9)):
        monkeypatch.setattr(f"fencepost.book.texts.{name}", value)
    monkeypatch.setattr("fencepost.book.paging._LOOKED_AT", 10)
    monkeypatch.setattr("fencepost.book.paging._FIRST_LOOK", 5)
    monkeypatch.setattr(Texts, "read_beside", lambda _: None)  # the test says when


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", seeds(20))
def test_pages_find_what_a_look_at_all_rules_finds(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    book, other = (RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") for _ in range(2))
    book._texts = Texts(book._database)

    def one(values: list[Any]) -> Any:
        return values[int(rng.integers(len(values)))]

    def fields(id: int) -> dict[str, Any]:
        name = one(NAMES)
        text = one(SYMBOLS).replace("'", "''")
        return {
            "condition": f"symbol = '{text}' AND price > {int(rng.integers(3))}",
            "name": None if name is None else f"{name} {id}",
            "labels": one(LABELS),
        }

    def edit() -> None:
        by, here = one([book, other]), [rule.id for rule in other]
        number = int(rng.integers(-30, 60))
        if number not in here:
            given = fields(number)
            by.add(number, given.pop("condition"), **given)
        else:
            kind = one(["replace", "replace", "remove", "pause", "resume"])
            if kind == "replace":
                given = fields(number)
                by.replace(number, given.pop("condition"), **given)
            else:
                getattr(by, kind)(number)

    def read() -> None:
        assert book._texts is not None
        book._texts.read_some()

    steps: list[Callable[[], None]] = [*[edit] * 6, read, read]
    with warnings.catch_warnings(), book, other:
        warnings.simplefilter("ignore")
        for _ in range(60):
            for _ in range(int(rng.integers(1, 5))):
                one(steps)()
            asked: dict[str, Any] = {}
            if rng.random() < 0.6:
                asked["text"] = one(SOUGHT)
            if rng.random() < 0.4:
                asked["search"] = one(SOUGHT)
            if rng.random() < 0.3:
                asked["labels"] = one([{"desk": "1"}, {"über": "Ä"}, {"desk": "9"}])
            if rng.random() < 0.2:
                asked["state"] = one(["enabled", "paused"])
            expected = [rule for rule in other if fits(rule, asked)]
            assert list(all_pages(book, asked)) == expected, asked


def fill(book: RuleBook, count: int) -> None:
    ids = np.arange(count)
    table = pa.table({"rule_id": ids, "symbol": [f"S{id:05}" for id in ids], "low": ids / 10, "high": ids / 10 + 1})
    book.add_table(table, equal=["symbol"], ranges={"price": ("low", "high")}, detect="enter,exit")


def test_what_none_has_is_known_once_all_texts_were_read(tmp_path: Path) -> None:
    with RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") as book:
        fill(book, 30_000)
        assert book.search(text="BETWEEN").looked_at == 20_000  # which begins to read
        assert book._texts is not None
        book._texts._thread.join()  # type: ignore[union-attr]
        assert book.search(text="BETWEEN") == book.search(29_999, text="price")
        assert [rule.id for rule in book.search(text="S29123").rules] == [29_123]
        assert book.search(text="S29123").after is None
        assert book.search(state="paused").looked_at is None
        book.pause(28_000)
        book.add(30_001, "price BETWEEN 1 AND 2")
        assert [rule.id for rule in book.search(text="BETWEEN").rules] == [30_001]
        assert [rule.id for rule in book.search(state="paused").rules] == [28_000]


def test_a_book_that_was_restored_from_a_backup_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "rules.db"
    with RuleBook(f"sqlite:///{file}", author="ann") as book:
        fill(book, 1_000)
        book._texts = Texts(book._database)
        book.add(5_000, "zebra > 1")
        while book._texts.read_some():
            pass
        with RuleBook(f"sqlite:///{tmp_path}/old.db", author="ann") as old:
            old.add(3, "giraffe > 1")
        assert [rule.id for rule in book.search(text="zebra").rules] == [5_000]
        book.close()
        for each in tmp_path.glob("rules.db*"):
            each.unlink()
        (tmp_path / "old.db").rename(file)
        assert [rule.id for rule in book.search(text="giraffe").rules] == [3]
        assert book.search(text="zebra").rules == ()
