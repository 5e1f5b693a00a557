"""Files of rules in and out of a book, and books that cannot be used."""

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp


@pytest.fixture
def book(tmp_path: Path) -> Iterator[fp.RuleBook]:
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as opened:
        yield opened


JSON_LINES = [
    '{"id": 1, "condition": "price > 4"}',
    "",
    '{"id": 1, "condition": "price > 5"}',
    '{"id": 2, "condition": "price >"}',
    "nonsense",
    "[3]",
    '{"id": 4}',
    '{"id": 5, "condition": "price > 4", "color": "red"}',
    '{"id": "6", "condition": "price > 4"}',
    '{"id": 7, "condition": "price > 4", "detect": "leave"}',
    '{"id": 8, "condition": "price > 4", "version": 0}',
    '{"id": 9, "condition": "price > 4", "labels": {"a": "\\u0000"}}',
]
CSV_LINES = [
    "id,condition,enabled,labels",
    "1,price > 4,true,",
    "x,price > 4,,",
    "3,price > 4,perhaps,",
    '4,"price > 4",,{',
    "5,price",
]


def parquet(**columns: Any) -> bytes:
    """A Parquet file of one rule."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1], "condition": ["x > 1"], **columns}), sink)
    written: bytes = sink.getvalue().to_pybytes()
    return written


@pytest.mark.parametrize(
    ("name", "content", "messages"),
    [
        (
            "rules.jsonl",
            "\n".join(JSON_LINES),
            [
                "10 faults in 11 lines",
                "no rule was imported",
                "line 3: rule 1 is also in line 1; ids must be unique",
                "line 4: rule 2: `>` cannot be understood here",
                "line 5: `nonsense` is no JSON",
                "line 6: [3] is no rule; expected an object with id and condition",
                "line 7: the field 'condition' is missing",
                "line 8: the field 'color' is unknown",
                "line 9: '6' cannot be the id of a rule",
                "line 10: rule 7: detect='leave'",
                "line 11: version=0",
            ],
        ),
        (
            "rules.csv",
            "\n".join(CSV_LINES),
            [
                "line 3: id 'x'; expected a whole number",
                "line 4: enabled 'perhaps'; expected true or false",
                "line 5: labels '{'",
                "line 6: the line has 2 fields; expected 4, as in the first line",
            ],
        ),
        (
            "rules.csv",
            "id,condition,color\n1,price > 4,red\n",
            ["has the unknown column 'color'; expected the columns"],
        ),
        ("rules.csv", "id\n1\n", ["no column condition"]),
        ("rules.csv", "", ["no column id"]),
        ("rules.csv", b"id,condition\n1,price > \xff\n", ["is no CSV in UTF-8"]),
        ("rules.parquet", "id,condition\n", ["cannot be read as Parquet"]),
        ("rules.jsonl", "[" * 100_000, ["line 1: `[[[["]),
        (
            "rules.jsonl",
            f'{{"id": 1, "condition": "x > 1", "version": {2**63 - 1}}}',
            ["line 1: version=9223372036854775807; expected 1, 2, ... up to 2**62"],
        ),
        ("rules.parquet", parquet(labels=[5]), ["row 0: rule 1: labels=5; expected names and values"]),
        ("rules.parquet", parquet(labels=[["a"]]), ["row 0: rule 1: labels=['a']; expected names and values"]),
        ("rules.parquet", parquet(expires=pa.array([2**62], pa.timestamp("us"))), ["cannot be read as Parquet"]),
        ("rules.txt", "", ["has the extension '.txt'; expected one of .jsonl, .csv, .parquet"]),
    ],
)
def test_faulty_files_are_refused_whole(
    book: fp.RuleBook, tmp_path: Path, name: str, content: str | bytes, messages: list[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(fp.FencepostError) as refused:
        book.import_file(path)
    for message in messages:
        assert message in str(refused.value)
    assert (len(book), book.revision) == (0, 0)


def test_tables_of_rules_are_taken_in(book: fp.RuleBook, tmp_path: Path) -> None:
    """What Rules.to_parquet wrote, ranges of a table among it, and a table of somebody else."""
    rules = fp.Rules()
    table = {"rule_id": [1, 2], "symbol": ["IBM", None], "lower": [40.0, 0.1], "upper": [50.0, None]}
    rules.add_table(table, equal=["symbol"], ranges={"price": ("lower", "upper")})
    rules.add(3, "price > 4", labels={"team": "desk 4"})
    rules.to_parquet(tmp_path / "own.parquet")
    assert book.import_file(tmp_path / "own.parquet").added == 3
    row = {"symbol": ["IBM", "SAP"], "price": [45.0, 0.1]}
    assert book.rules().compile().match(row).sets() == rules.compile().match(row).sets()
    labels = pa.array([[("team", "desk 5")], None], pa.map_(pa.string(), pa.string()))
    instant = datetime(2030, 1, 1, tzinfo=UTC)
    theirs = pa.table(
        {"condition": ["price > 1", "price > 2"], "id": [7, 8], "labels": labels, "expires": [instant] * 2}
    )
    pq.write_table(theirs, tmp_path / "theirs.parquet")
    assert book.import_file(tmp_path / "theirs.parquet").added == 2
    assert book[7] == fp.Rule(7, "price > 1", labels={"team": "desk 5"}, expires=instant)
    with pytest.raises(fp.FencepostError, match="existing='perhaps'"):
        book.import_file(tmp_path / "theirs.parquet", existing="perhaps")  # type: ignore[arg-type]
    with pytest.raises(fp.FencepostError, match="is no file; expected a file of rules"):
        book.import_file(tmp_path / "nowhere.csv")
    with pytest.raises(fp.FencepostError, match="does not exist; expected one that does"):
        book.export_file(tmp_path / "nowhere" / "rules.csv")


def refusal(url: str, **options: bool) -> str:
    with pytest.raises(fp.FencepostError) as refused:
        fp.RuleBook(url, **options).close()  # type: ignore[arg-type]
    return str(refused.value)


def test_what_is_no_book(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("id,condition\n" * 1000)
    assert "is no rule book" in refusal(f"sqlite:///{tmp_path}/text.db")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE customers (id)")
    other.close()
    assert "a database with the table customers and without rules" in refusal(f"sqlite:///{tmp_path}/other.db")
    newer = f"sqlite:///{tmp_path}/newer.db"
    fp.RuleBook(newer).close()
    with sqlite3.connect(tmp_path / "newer.db") as connection:
        connection.execute("UPDATE fencepost_book SET format = 9")
    connection.close()
    assert (
        "a rule book of format 9; expected format 3, or an older one, which is upgraded. Upgrade fencepost."
        in refusal(newer)
    )
    assert "cannot be opened" in refusal(f"sqlite:///{tmp_path}/nowhere/rules.db")
    assert "No rule book is at" in refusal(f"sqlite:///{tmp_path}/nowhere.db", create=False)
    assert not (tmp_path / "nowhere.db").exists()
    assert "a rule book in memory" in refusal("sqlite://")
    assert "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE" in refusal("mysql://host/rules")
    assert "is no address of a rule book" in refusal("rules.db")
    without_server = refusal("postgresql://ann:secret@127.0.0.1:1/rules")
    assert "postgresql+psycopg://ann:***@127.0.0.1:1/rules does not answer" in without_server


def test_a_locked_book_is_read_but_not_written(book: fp.RuleBook, tmp_path: Path) -> None:
    book.add(1, "price > 4")
    other = sqlite3.connect(tmp_path / "rules.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db", wait=0.1) as hasty:
        with pytest.raises(fp.FencepostError, match=r"is locked by another writer; .* Wait for the other writer"):
            hasty.remove(1)
        assert len(hasty) == 1
        other.execute("ROLLBACK")
        hasty.remove(1)
    other.close()


READ_ONLY = """
import sys
import fencepost as fp
with fp.RuleBook(sys.argv[1]) as book:
    print(len(book), book.publish(sys.argv[2]))
    try:
        book.add(2, "price > 4")
    except fp.FencepostError as error:
        print(error)
"""


@pytest.mark.slow
def test_a_read_only_book_is_read_and_published_but_not_written(book: fp.RuleBook, tmp_path: Path) -> None:
    book.add(1, "price > 4")
    book.close()
    url = f"sqlite:///file:{tmp_path}/rules.db?mode=ro&uri=true"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", READ_ONLY, url, str(tmp_path / "published")],
        env={**os.environ, "PYTHONPATH": str(Path(fp.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    counted, refused = done.stdout.strip().splitlines()
    assert counted == "1 1"
    assert "is read-only; expected one that may be written" in refused
    assert len(book) == 1


def test_a_damaged_book_is_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "rules.db"
    with fp.RuleBook(f"sqlite:///{file}", author="ann") as book:
        for id in range(30):
            book.add(id, f"price > {id}", labels={"team": "x"}, expires=datetime(2030, 1, 1, tzinfo=UTC))
        book.pause(3)
        book.remove(4)
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    whole = file.read_bytes()
    draw = random.Random(1)  # noqa: S311
    damaged = tmp_path / "damaged.db"
    for _ in range(60):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 4, 50])):
            content[draw.randrange(len(content))] = draw.randrange(256)
        damaged.write_bytes(content)
        with contextlib.suppress(fp.FencepostError), fp.RuleBook(f"sqlite:///{damaged}", create=False) as book:
            assert len(list(book)) <= len(list(book.history()))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE fencepost_rules SET expires = 9000000000000000000",
        "UPDATE fencepost_rules SET at = 'soon'",
        "UPDATE fencepost_rules SET labels = '{'",
        "UPDATE fencepost_rules SET author = CAST(x'ff' AS TEXT)",
        "UPDATE fencepost_book SET format = 'new'",
    ],
)
def test_rows_that_no_book_writes_are_refused(book: fp.RuleBook, tmp_path: Path, change: str) -> None:
    book.add(1, "price > 4", labels={"team": "x"})
    with sqlite3.connect(tmp_path / "rules.db") as connection:
        connection.execute(change)
    connection.close()

    def read() -> None:
        with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as again:
            list(again.history())

    with pytest.raises(fp.FencepostError, match="backup"):
        read()
