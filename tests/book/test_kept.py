"""What was compiled of a book is kept for the next command: used where the book is the same, and never where not."""

import json
import os
import random
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost._files import whole
from fencepost._files.kept import keep
from fencepost.book import RuleBook
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.snapshot import Snapshot
from tests.effort import seeds

RULES = 1_200
SCHEMA = {"symbol": "string", "price": "double", "Volume": "bigint"}
ROWS = {
    "symbol": [f"S{number % 40}" for number in range(200)],
    "price": [float(number) for number in range(200)],
    "Volume": list(range(200)),
}


@pytest.fixture(name="cache")
def cache_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / f"fencepost-{os.getuid()}"


@pytest.fixture(name="book")
def book_of_many_rules(tmp_path: Path, cache: Path) -> Iterator[RuleBook]:
    del cache
    with make_book(tmp_path / "rules.db") as book:
        yield book


def make_book(path: Path, low: int = 0, author: str = "ann") -> RuleBook:
    book = RuleBook(f"sqlite:///{path}", author=author)
    rules = [
        {"id": id, "condition": f"symbol = 'S{id % 40}' AND price BETWEEN {low + id % 150} AND {low + id % 150 + 9}"}
        for id in range(RULES - 2)
    ]
    rules += [{"id": RULES, "condition": "volume > 150 OR price < 3"}, {"id": RULES + 1, "condition": "price > 1"}]
    file = path.with_suffix(".jsonl")
    file.write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    book.import_file(file)
    book.pause(RULES + 1)
    return book


def steps_of(book: RuleBook, schema: Any = SCHEMA) -> tuple[Snapshot, set[str]]:
    """The book compiled by a process that has just begun, and what it had to do."""
    steps: set[str] = set()
    with RuleBook(book.url, create=False) as fresh:
        return fresh.compile(schema, progress=lambda step, *_: steps.add(step)), steps


def described(snapshot: Snapshot) -> Any:
    rows = snapshot.in_force
    boxes = {int(snapshot.rules.ids[row]): sorted(map(str, snapshot.boxes_of(row))) for row in rows.tolist()}
    told = [
        (int(snapshot.rules.ids[row]), int(snapshot.rules.versions[row]), snapshot.rules.conditions[row].as_py())
        for row in rows.tolist()
    ]
    return sorted(told), boxes, snapshot.paused, snapshot.columns, snapshot.zone, snapshot.match(ROWS).sets()


def kept_files(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.kept"))


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_the_second_command_reads_no_rule(book: RuleBook, cache: Path, schema: Any) -> None:
    if schema is None:
        book.replace(RULES, "price < 3")
    first, steps = steps_of(book, schema)
    assert {"reading", "parsing", "indexing"} <= steps
    again, steps = steps_of(book, schema)
    assert not steps
    assert described(first) == described(again) == described(book.rules().compile(schema))
    (file,) = kept_files(cache)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Monitor(book, object="symbol", schema=schema).rules[3] == book[3]


def test_another_schema_that_says_the_same_of_the_columns_in_use_is_served(book: RuleBook) -> None:
    steps_of(book)
    assert not steps_of(book, {**SCHEMA, "gate": "string"})[1]
    for other in (
        {**SCHEMA, "price": "decimal(9,2)"},
        {"symbol": "string", "price": "double", "volume": "bigint"},
        None,
    ):
        made, steps = steps_of(book, other)
        assert "parsing" in steps
        if other is not None and "Volume" in other:
            assert described(made) == described(book.rules().compile(other))


def test_columns_that_differ_in_case_are_not_confused(book: RuleBook) -> None:
    steps_of(book)
    with pytest.raises(FencepostError, match="may be"):
        steps_of(book, {**SCHEMA, "PRICE": "double"})


@pytest.mark.parametrize("seed", seeds(8))
def test_after_changes_only_those_are_compiled(book: RuleBook, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)  # noqa: S311
    steps_of(book)
    assert book.column_kinds() == {"symbol": "key", "price": "number", "volume": "number"}
    change_some(book, rng)
    made, steps = steps_of(book)
    assert not steps
    assert described(made) == described(book.rules().compile(SCHEMA))
    kinds = book.column_kinds()
    monkeypatch.setenv("FENCEPOST_KEPT_BYTES", "0")
    assert kinds == book.column_kinds()
    fresh, steps = steps_of(book)
    assert "parsing" in steps
    assert described(fresh) == described(made)


@pytest.mark.parametrize("seed", seeds(6))
def test_after_changes_a_check_reads_only_those_and_finds_every_fault(
    book: RuleBook, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)  # noqa: S311
    for number in range(6):
        book.add(9_000 + number, f"ghost > {number}")
    assert "6 faults in" in refusal_of(book)[0]
    change_some(book, rng)
    book.replace(9_000, "price > 1")
    book.pause(9_001)
    book.remove(9_002)
    book.replace(9_003, "symbol > 1")
    book.add(9_010, "symbol = 1 OR ghost > 2")
    said, steps = refusal_of(book)
    assert "4 faults in" in said
    assert not steps
    monkeypatch.setenv("FENCEPOST_KEPT_BYTES", "0")
    assert refusal_of(book)[0] == said


def refusal_of(book: RuleBook) -> tuple[str, set[str]]:
    """What a process that has just begun says against a book, and what it had to do for that."""
    steps: set[str] = set()
    with RuleBook(book.url, create=False) as fresh, pytest.raises(FencepostError) as refused:
        fresh.check_rules(SCHEMA, progress=lambda step, *_: steps.add(step))
    return str(refused.value), steps


def change_some(book: RuleBook, rng: random.Random) -> None:
    for _ in range(rng.randrange(1, 40)):
        id = rng.randrange(RULES - 2)
        if id in book:
            kind = rng.randrange(6)
            if kind < 3:
                {0: book.remove, 1: book.pause, 2: book.resume}[kind](id)  # type: ignore[operator]
            else:
                book.replace(id, f"price > {rng.randrange(100)}", detect="enter")
        else:
            book.add(id, f"symbol = 'S{id}'")
    if rng.random() < 0.5:
        book.remove(RULES)  # the only one with volume
    book.add(RULES + 7, f"volume = {rng.randrange(9)}", enabled=rng.random() < 0.5)


def test_another_book_at_the_same_place_is_not_taken_for_it(tmp_path: Path, cache: Path) -> None:
    del cache
    for low in (0, 50):
        with make_book(tmp_path / "rules.db", low) as book:
            assert described(steps_of(book)[0]) == described(book.rules().compile(SCHEMA))
        for file in tmp_path.glob("rules.db*"):
            file.unlink()


def test_a_book_that_went_on_from_a_backup_is_not_taken_for_the_one_that_was_compiled(tmp_path: Path) -> None:
    with make_book(tmp_path / "rules.db"):
        pass
    shutil.copy(tmp_path / "rules.db", tmp_path / "backup.db")
    url = f"sqlite:///{tmp_path}/rules.db"
    with RuleBook(url, author="ann") as book:
        book.replace(5, "price > 7")
        steps_of(book)
    shutil.copy(tmp_path / "backup.db", tmp_path / "rules.db")
    with RuleBook(url, author="ann") as book:
        book.replace(5, "price > 8")
        assert described(steps_of(book)[0]) == described(book.rules().compile(SCHEMA))
        book.replace(6, "price > 9")
        assert described(steps_of(book)[0]) == described(book.rules().compile(SCHEMA))


@pytest.mark.parametrize("place", [0, 9, 400, -5000, -1])
@pytest.mark.parametrize("cut", [False, True])
def test_a_damaged_file_is_noticed_and_made_anew(book: RuleBook, cache: Path, place: int, cut: bool) -> None:
    steps_of(book)
    (file,) = kept_files(cache)
    content = bytearray(file.read_bytes())
    if cut:
        del content[place:]
    else:
        content[place] ^= 1
    file.write_bytes(content)
    made, _ = steps_of(book)
    assert described(made) == described(book.rules().compile(SCHEMA))
    assert not steps_of(book)[1]


def test_faults_are_kept_too(book: RuleBook) -> None:
    book.add(9_000, "ghost > 1")
    wrong = []
    for _ in range(2):
        steps: set[str] = set()
        with pytest.raises(FencepostError) as refused:
            book.check_rules(SCHEMA, progress=lambda step, *_: steps.add(step))  # noqa: B023
        wrong.append((str(refused.value), bool(steps)))
    assert [said for said, _ in wrong] == [wrong[0][0]] * 2
    assert [was_read for _, was_read in wrong] == [True, False]
    assert "rule 9000: " in wrong[0][0]
    book.replace(9_000, "price > 1")
    book.check_rules(SCHEMA)


def test_what_was_checked_is_published_without_reading_it_again(book: RuleBook, tmp_path: Path) -> None:
    book.check_rules(SCHEMA)
    steps: set[str] = set()
    with RuleBook(f"sqlite:///{tmp_path}/rules.db", create=False) as fresh:
        fresh.publish(tmp_path / "published", SCHEMA, progress=lambda step, *_: steps.add(step))
        assert not steps
        fresh.replace(3, "price > 4")
        fresh.publish(tmp_path / "published", SCHEMA)
    from fencepost.published import VersionDirectory

    assert described(VersionDirectory(tmp_path / "published").load()) == described(book.rules().compile(SCHEMA))


def test_no_more_is_kept_than_may_be(book: RuleBook, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps_of(book)
    (first,) = kept_files(cache)
    os.utime(first, (1, 1))
    monkeypatch.setenv("FENCEPOST_KEPT_BYTES", f"{first.stat().st_size * 3 // 2} B")
    steps_of(book, {**SCHEMA, "price": "bigint"})
    (second,) = kept_files(cache)
    assert second != first
    monkeypatch.setenv("FENCEPOST_KEPT_BYTES", "10 B")
    steps_of(book, {**SCHEMA, "price": "decimal(9,2)"})
    assert kept_files(cache) == [second]


def test_drafts_that_a_kill_left_count_and_go(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_KEPT_BYTES", "1500 B")
    keep("a" * 32, "b" * 32, bytes(100))
    young, dead = (cache / f".{'c' * 32}-{'d' * 32}.kept.{number:016x}" for number in range(2))
    for draft, size, used in ((young, 900, time.time()), (dead, 10, 1)):
        draft.write_bytes(bytes(size))
        os.utime(draft, (used, used))
    monkeypatch.setattr(whole, "_LISTED_FOR", 0)
    whole._listed.clear()
    keep("a" * 32, "e" * 32, bytes(100))
    assert (young.exists(), dead.exists()) == (True, False), "the young one may be of a process on another host"
    os.utime(young, (1_000_000_000, 1_000_000_000))
    monkeypatch.setattr(whole, "_ABANDONED", float("inf"))
    keep("a" * 32, "f" * 32, bytes(800))
    assert not young.exists(), "it is what was used longest ago"


def test_a_directory_that_is_not_this_users_alone_is_left_alone(book: RuleBook, cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    for _ in range(2):
        made, steps = steps_of(book)
        assert "parsing" in steps
        assert described(made) == described(book.rules().compile(SCHEMA))
    assert not list(cache.iterdir())


def test_a_few_rules_are_not_kept(tmp_path: Path, cache: Path) -> None:
    with RuleBook(f"sqlite:///{tmp_path}/few.db") as book:
        book.add(1, "price > 4")
        book.compile()
    assert not cache.exists() or not kept_files(cache)


@pytest.mark.slow
def test_what_is_kept_is_read_without_the_import_of_pandas(book: RuleBook) -> None:
    """It would be a quarter of what the second command takes, and nothing of it is needed."""
    book.compile(SCHEMA)
    program = (
        "import sys; from fencepost.book import RuleBook; "
        f"print(len(RuleBook({book.url!r}).compile({SCHEMA!r})), 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.split() == [str(RULES - 1), "False"]
