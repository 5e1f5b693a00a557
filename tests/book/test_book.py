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
from sqlalchemy import create_engine
from sqlalchemy import text as sql

import fencepost as fp
from fencepost.published import VersionDirectory
from fencepost.rules.checked import UnknownColumnWarning
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
    for name in ("1; DROP TABLE fencepost_rules", "1"):
        with pytest.raises(fp.FencepostError, match="o rule has the name"):
            book.remove(name)
    for bad in (2**63, None, 1.5, True):
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
    ({"name": ""}, "name=''; expected a text of 1 to 500 characters"),
    ({"name": "x" * 501}, "name of 501 characters; expected a text of 1 to 500 characters"),
    ({"name": 7}, "name=7; expected a text of 1 to 500 characters"),
    ({"name": "\ud800"}, "expected characters that can be stored"),
    ({"name": "a\0"}, "expected characters that can be stored"),
]


def test_refused_rules_change_nothing(book: fp.RuleBook) -> None:
    book.add(8, "price > 4")
    for options, message in REFUSED:
        for change, id in ((book.add, 7), (book.replace, 8)):
            with pytest.raises(fp.FencepostError, match=message.replace("Rule 7", f"Rule {id}")):
                change(id, **{"condition": "price > 4", **options})
    assert (len(book), book[8].version, book.revision) == (1, 1, 1)


def test_a_book_from_before_names_is_upgraded(url: str, tmp_path: Path) -> None:
    with fp.RuleBook(url, author="ann") as book:
        book.add(1, "price > 4", labels={"team": "x"})
        book.replace(1, "price > 5")
        before, changes = list(book), list(book.history())
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sql("DROP INDEX ix_fencepost_rules_name"))
        for table in ("fencepost_rules", "fencepost_past"):
            connection.execute(sql(f"ALTER TABLE {table} DROP COLUMN name"))
        connection.execute(sql("UPDATE fencepost_book SET format = 1"))
    engine.dispose()
    if url.startswith("sqlite"):
        (tmp_path / "rules.db").chmod(0o400)
        tmp_path.chmod(0o500)
        try:
            if not os.access(tmp_path, os.W_OK):  # root may write anything
                with pytest.raises(fp.FencepostError, match=r"cannot be upgraded to 2: .* is read-only"):
                    fp.RuleBook(url)
        finally:
            tmp_path.chmod(0o700)
            (tmp_path / "rules.db").chmod(0o600)
    with fp.RuleBook(url, author="bob") as book:
        assert (list(book), list(book.history())) == (before, changes)
        book.replace(1, "price > 6", name="floor")
        assert (book.id_of("floor"), book[1].name) == (1, "floor")
        book.add(2, "price > 7")
    with fp.RuleBook(url) as book, pytest.raises(fp.FencepostError, match="has the name 'floor' of rule 1"):
        book.replace(2, "price > 7", name="floor")


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


def test_a_faulty_rule_does_not_block_the_others(book: fp.RuleBook, url: str, tmp_path: Path) -> None:
    tmp_path /= "published"
    directory = VersionDirectory(tmp_path)
    for id in range(40):
        book.add(id, f"price > {id}", detect="enter,exit")
    assert book.publish(tmp_path) == 1
    monitor = fp.Monitor(directory.load(), object="symbol")
    monitor.update({"symbol": ["IBM"], "price": [100.0]})
    with pytest.warns(UnknownColumnWarning, match=r"rule 1 is stored, but not published .* Did you mean price\?"):
        book.replace(1, "prcie > 4", detect="enter,exit")
    with pytest.warns(UnknownColumnWarning, match=r"To add the column, publish with --type volume=TYPE"):
        book.add(50, "volume > 4", detect="enter,exit")
    with pytest.raises(fp.RuleFaultsError, match="rule 50: `volume > 4` uses the column volume, which the schema"):
        book.publish(tmp_path, strict=True)
    assert directory.latest() == 1
    difference = book.preview(tmp_path, {"volume": "bigint"})
    assert (difference.added, difference.edited, difference.removed, difference.paused) == ((50,), (), (), (1,))
    assert (list(difference.faulty), difference.columns, difference.unchanged) == ([1], {"volume": "bigint"}, 39)
    assert (directory.latest(), directory.schema()) == (1, {"price": "double"}), "nothing was written"
    with pytest.warns(fp.FaultyRulesWarning, match=r"2 faulty rules not published") as warned:
        assert book.publish(tmp_path) == 3
    assert [fault.id for fault in warned[0].message.faults] == [1, 50]  # type: ignore[union-attr]
    left = monitor.follow(directory.load())
    assert left.select(["rule_id", "detect", "reason"]).to_pylist() == [
        {"rule_id": 1, "detect": "exit", "reason": "paused"}
    ]
    faults: list[fp.RuleFault] = []
    with fp.RuleBook(url, create=False) as fresh:  # which remembers nothing
        assert fresh.publish(tmp_path, {"volume": "bigint"}, faults=faults) == 4
    assert [fault.id for fault in faults] == [1]
    assert directory.schema() == {"price": "double", "volume": "bigint"}
    assert directory.load().match({"price": [0.0], "volume": [5]}).sets() == [{50}]
    book.replace(1, "price > 4", detect="enter,exit")
    assert book.publish(tmp_path) == 5, "nobody is faulty any more"
    assert len(directory.load()) == 41
    assert book.columns == {"price": "double", "volume": "bigint"}
    difference = book.preview(tmp_path)
    assert (difference.unchanged, str(difference)) == (41, "unchanged: 41 rules")


def test_a_first_version_without_a_good_rule_is_refused(book: fp.RuleBook, tmp_path: Path) -> None:
    tmp_path /= "published"
    book.add(1, "prize > 4")
    with pytest.raises(fp.RuleFaultsError, match=r"none is left that could be published(.|\n)*rule 1: `prize"):
        book.publish(tmp_path, {"price": "double"})
    assert VersionDirectory(tmp_path).latest() is None
    book.replace(1, "price > 4")
    assert book.publish(tmp_path, {"price": "double"}) == 2
    with pytest.warns(UnknownColumnWarning):
        book.replace(1, "prize > 4")
    with pytest.warns(fp.FaultyRulesWarning):
        assert book.publish(tmp_path) == 3, "what was in force ends"


def test_types_beside_inferred_ones(book: fp.RuleBook, tmp_path: Path) -> None:
    book.add(1, "price > 4 AND symbol = 'IBM'")
    book.publish(tmp_path, {"Price": "decimal(9,2)", "gate": "string"}, infer=True)
    assert VersionDirectory(tmp_path).schema() == {"Price": "decimal(9,2)", "gate": "key", "symbol": "key"}
    faults: list[fp.RuleFault] = []
    with pytest.warns(UnknownColumnWarning):
        book.add(2, "volume > 4")
    book.publish(tmp_path, infer=True, faults=faults)
    assert [fault.id for fault in faults] == [2], "only the first version infers"


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
