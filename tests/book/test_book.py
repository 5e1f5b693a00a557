"""RuleBook against a dictionary, from several processes at once, and killed in the middle."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

import fencepost as fp
from fencepost.published import VersionDirectory
from fencepost.snapshot.store import read_header
from tests import postgres
from tests.book.machine import BookMachine
from tests.book.model import LABELS
from tests.effort import examples

BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.system)]


@pytest.fixture(params=BACKENDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no book is yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/rules.db"
    return postgres.emptied(request.getfixturevalue("postgres_url"))


@pytest.fixture
def book(url: str) -> Iterator[fp.RuleBook]:
    with fp.RuleBook(url, author="ann") as opened:
        yield opened


def test_any_changes_in_sqlite() -> None:
    class Machine(BookMachine):
        def url(self, home: Path) -> str:
            return f"sqlite:///{home}/rules.db"

    run_state_machine_as_test(Machine, settings=examples(25, stateful_step_count=25))


@pytest.mark.system
def test_any_changes_in_postgres(postgres_url: str) -> None:
    class Machine(BookMachine):
        def url(self, home: Path) -> str:  # noqa: ARG002 (as in BookMachine)
            return postgres.emptied(postgres_url)

    run_state_machine_as_test(Machine, settings=examples(8, stateful_step_count=20))


def test_texts_are_never_sql(book: fp.RuleBook, tmp_path: Path) -> None:
    """Whatever stands in conditions, labels and authors is kept as it is, and nothing else happens."""
    nasty = ["'; DROP TABLE fencepost_rules; --", '" OR 1=1', "%s %(id)s ? :id $1", "\\'\n\t\u2028é𝄞", "a\rb"]
    for id, text in enumerate(nasty, start=1):
        quoted = text.replace("'", "''")
        book.add(id, f"symbol = '{quoted}'", labels={text: text}, author=text)
    for id, text in enumerate(nasty, start=1):
        assert book[id].labels == {text: text}
        assert next(book.history(id)).author == text
    book.publish(tmp_path / "published")
    found = VersionDirectory(tmp_path / "published").load().match({"symbol": nasty}).sets()
    assert found == [{id} for id in range(1, len(nasty) + 1)]
    for bad in ("1; DROP TABLE fencepost_rules", "1", 2**63, None, 1.5, True):
        with pytest.raises(fp.FencepostError, match="cannot be the id of a rule; expected an integer of 64 bits"):
            book.replace(bad, "price > 4")  # type: ignore[arg-type]
        assert bad not in book
    for name in ("jsonl", "csv", "parquet"):
        before = list(book)
        book.export_file(tmp_path / f"rules.{name}")
        for rule in before:
            book.remove(rule.id)
        book.import_file(tmp_path / f"rules.{name}")
        assert [(rule.condition, rule.labels) for rule in book] == [(rule.condition, rule.labels) for rule in before]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"condition": "price >"}, "Rule 7: `>` cannot be understood here"),
    ({"condition": "price > 5 AND price < 3"}, "exclude each other"),
    ({"condition": None}, "Rule 7: None is no condition; expected a string"),
    ({"detect": "leave"}, "Rule 7: detect='leave'; expected any of inside, enter, exit, cross"),
    ({"labels": {"team": 4}}, "expected names and values that are strings"),
    ({"labels": {"team": "\0"}}, "expected characters that can be stored"),
    ({"labels": {"\ud800": ""}}, "expected characters that can be stored"),
    ({"expires": "tomorrow"}, "expected a datetime, or its ISO text"),
    ({"enabled": 1}, "expected True or False"),
    ({"author": 7}, "author=7; expected a name"),
]


def test_refused_rules_change_nothing(book: fp.RuleBook) -> None:
    book.add(8, "price > 4")
    for options, message in REFUSED:
        for change, id in ((book.add, 7), (book.replace, 8)):
            with pytest.raises(fp.FencepostError, match=message.replace("Rule 7", f"Rule {id}")):
                change(id, **{"condition": "price > 4", **options})
    assert (len(book), book[8].version, book.revision) == (1, 1, 1)


def test_a_rule_that_another_writer_changed(url: str, book: fp.RuleBook) -> None:
    book.add(1, "price > 4")
    with fp.RuleBook(url, author="bob") as other:
        other.replace(1, "price > 5")
    for change in (book.remove, book.pause, partial(book.replace, condition="price > 6")):
        with pytest.raises(fp.FencepostError) as refused:
            change(1, expect=1)
        assert str(refused.value) == (
            "Rule 1 is at version 2, replaced by bob; expected version 1. "
            "Look at what changed, and make the change again if it is still meant."
        )
    book.remove(1, expect=2)
    with pytest.raises(fp.FencepostError, match=r"Rule 1 was removed by ann; .* Use add.. for a new rule"):
        book.resume(1)
    assert book.add(1, "price > 7").version == 3


# -- several processes ------------------------------------------------------------------------------------

WRITER = """
import sys
import fencepost as fp
url, name, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with fp.RuleBook(url, author=f"writer {name}", wait=120) as book:
    for step in range(count):
        book.add(1000 * name + step, f"price > {step}")
        while True:  # the usual way to edit what others edit, too
            version = book[0].version
            try:
                book.replace(0, f"price > {name}", expect=version)
            except fp.FencepostError as error:
                assert "Look at what changed" in str(error), error
            else:
                break
        print(step, flush=True)
"""


def program(text: str, *arguments: object) -> "subprocess.Popen[str]":
    source = Path(fp.__file__).parents[1]
    return subprocess.Popen(  # noqa: S603 (our own interpreter)
        [sys.executable, "-c", text, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


@pytest.mark.slow
def test_writers_at_once_lose_nothing(url: str, book: fp.RuleBook) -> None:
    book.add(0, "price > 0")
    writers = [program(WRITER, url, name, 12) for name in (1, 2, 3)]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert {rule.id for rule in book} == {0, *(1000 * name + step for name in (1, 2, 3) for step in range(12))}
    assert book[0].version == 37
    changes = list(book.history())
    assert [change.revision for change in changes] == sorted({change.revision for change in changes})
    versions = [change.after.version for change in changes if change.id == 0 and change.after]
    assert versions == list(range(1, 38))


@pytest.mark.slow
def test_a_killed_writer_leaves_what_it_was_told_is_stored(url: str, book: fp.RuleBook) -> None:
    book.add(0, "price > 0")
    with program(WRITER, url, 1, 100_000) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(20)]
        writer.send_signal(signal.SIGKILL)
        told += [int(line) for line in writer.stdout.read().split()]
    stored = {rule.id - 1000 for rule in book if rule.id}
    assert set(told) <= stored <= {*told, len(told)}
    assert book[0].version - 1 in (len(told), len(told) + 1)
    book.add(-1, "price > 4")  # nothing is left locked


IMPORTER = """
import sys
import fencepost as fp
def tell(step, done, total):
    print(step, done, total, flush=True)
with fp.RuleBook(sys.argv[1]) as book:
    book.import_file(sys.argv[2], progress=tell)
    print("done")
"""


@pytest.mark.slow
def test_a_killed_import_leaves_nothing(url: str, book: fp.RuleBook, tmp_path: Path) -> None:
    file = tmp_path / "rules.jsonl"
    file.write_text("".join(f'{{"id": {id}, "condition": "price > {id}"}}\n' for id in range(25_000)))
    with program(IMPORTER, url, file) as importer:
        assert importer.stdout is not None
        while not importer.stdout.readline().startswith("storing"):
            pass
        importer.send_signal(signal.SIGKILL)
        assert "done" not in importer.stdout.read()
    assert (len(book), list(book.history())) == (0, [])
    told: list[tuple[str, int, int | None]] = []
    assert book.import_file(file, progress=lambda *each: told.append(each)).added == 25_000
    assert told[-1] == ("storing", 25_000, 25_000)


# -- publishing -------------------------------------------------------------------------------------------


def layers_of(directory: Path, version: int) -> list[str | None]:
    """Where each layer of a version is kept, None for its own."""
    header, _ = read_header(directory / f"{version:08}")
    return [layer.get("in") for layer in header["layers"]]


def test_publishing_builds_on_what_this_book_published(url: str, book: fp.RuleBook, tmp_path: Path) -> None:
    directory = tmp_path / "published"
    file = tmp_path / "rules.jsonl"
    file.write_text("".join(f'{{"id": {id}, "condition": "price > {id}"}}\n' for id in range(100)))
    book.import_file(file)
    assert book.publish(directory) == 1
    book.add(100, "price > 1000")
    book.remove(0)
    parsed: list[int] = []
    with fp.RuleBook(url, create=False) as fresh:  # as another process would
        assert fresh.publish(directory, progress=lambda *_: parsed.append(1)) == 2
    assert layers_of(directory, 2) == ["00000001", None]
    snapshot = VersionDirectory(directory).load()
    assert snapshot.match({"price": [2000.0]}).sets() == [set(range(1, 101))]
    moved = tmp_path / "moved"
    directory.rename(moved)
    book.pause(5)
    assert book.publish(moved) == 3
    assert "00000001" in layers_of(moved, 3)
    assert VersionDirectory(moved).load().paused == {5: 2}
    # Somebody else publishes there: never built upon.
    others = fp.Rules()
    others.add(7, "price > 1", detect="exit")
    others.publish(moved)
    assert book.publish(moved) == 5
    assert VersionDirectory(moved).load().match({"price": [2000.0]}).sets() == [{*range(1, 5), *range(6, 101)}]
    assert not parsed


def test_a_restored_book_publishes_what_it_has(tmp_path: Path) -> None:
    directory = tmp_path / "published"
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        for id in range(20):
            book.add(id, f"price > {id}")
        book.publish(directory)
    shutil.copy(tmp_path / "rules.db", tmp_path / "backup.db")
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.replace(3, "price > 1000")
        book.publish(directory)
    with fp.RuleBook(f"sqlite:///{tmp_path}/backup.db") as book:
        book.replace(4, "price > 1000")  # takes the same revision
        assert book.publish(directory) == 3
    found = VersionDirectory(directory).load().match({"price": [500.0]}).sets()
    assert found == [{*range(20)} - {4}]


def test_a_version_that_needs_another_column_is_refused(book: fp.RuleBook, tmp_path: Path) -> None:
    book.add(1, "price > 4")
    book.publish(tmp_path)
    book.add(2, "volume > 4")
    with pytest.raises(fp.RuleFaultsError, match="rule 2: `volume > 4` uses the column volume, which the schema"):
        book.publish(tmp_path)
    assert VersionDirectory(tmp_path).latest() == 1
    book.remove(2)
    assert book.publish(tmp_path) == 3


def test_old_versions_are_collected(book: fp.RuleBook, tmp_path: Path) -> None:
    for id in range(30):
        book.add(id, f"price > {id}")
    book.publish(tmp_path)
    for step in range(4):
        book.replace(step, "price > 99")
        book.publish(tmp_path, keep=timedelta(0))
    versions = VersionDirectory(tmp_path).versions()
    assert versions[-1] == 5
    assert len(versions) < 5
    assert len(VersionDirectory(tmp_path).load()) == 30


def test_rules_keep_their_versions_in_events(book: fp.RuleBook) -> None:
    book.add(1, "price > 4", detect="enter")
    book.remove(1)
    book.add(1, "price > 5", detect="enter")
    monitor = fp.Monitor(book.rules(), object="symbol")
    events = monitor.update({"symbol": ["IBM"], "price": [6.0]})
    assert events["rule_version"].to_pylist() == [2]


def test_history_of_many(book: fp.RuleBook, tmp_path: Path) -> None:
    rows = [{"id": id, "condition": "price > 4", "labels": LABELS[2]} for id in range(10)]
    (tmp_path / "rules.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    book.import_file(tmp_path / "rules.jsonl", author="bob")
    book.pause(4)
    last = list(book.history(last=2))
    assert [(change.id, change.action, change.author) for change in last] == [(9, "added", "bob"), (4, "paused", "ann")]
    assert last[0].revision == 1
    assert last[1].before == fp.Rule(4, "price > 4", labels=LABELS[2])
    assert len(list(book.history())) == 11
