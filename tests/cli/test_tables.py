"""`fencepost rules import` and `rules sync` of tables, from every kind of source."""

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from fencepost.published import VersionDirectory
from tests.cli.shell import Shell

COLUMNS = "--id alert --equal carrier --range delay=low,high --label owner"
ROWS = pa.table(
    {
        "alert": [7, 8, 9],
        "carrier": ["007", None, "it's"],
        "low": [1.5, None, 10.0],
        "high": [30.0, 5.0, None],
        "owner": ["ann", "4", None],
        "unused": [1, 2, 3],
    }
)
CONDITIONS = {
    7: "carrier = '007' AND delay >= 1.5 AND delay < 30.0",
    8: "delay < 5.0",
    9: "carrier = 'it''s' AND delay >= 10.0",
}


def conditions(shell: Shell, **environment: str) -> dict[int, str]:
    return {
        rule["id"]: rule["condition"]
        for rule in json.loads(shell.call("fencepost rules list --json", 0, **environment).out)
    }


def write_sources(home: Path) -> dict[str, str]:
    """The same table as everything that can be mirrored, by the arguments that name it."""
    pq.write_table(ROWS, home / "alerts.parquet")
    pa_csv.write_csv(ROWS, home / "alerts.csv")
    lines = "".join(json.dumps(row) + "\n" for row in ROWS.to_pylist())
    (home / "alerts.jsonl").write_text(lines)
    with sqlite3.connect(home / "alerts.db") as database:
        database.execute("CREATE TABLE alerts (alert INTEGER, carrier TEXT, low REAL, high REAL, owner TEXT)")
        rows = [tuple(row.values())[:5] for row in ROWS.to_pylist()]
        database.executemany("INSERT INTO alerts VALUES (?, ?, ?, ?, ?)", rows)
    return {
        "Parquet": "alerts.parquet",
        "CSV": "alerts.csv",
        "JSON lines": "alerts.jsonl",
        "SQL": "sqlite:///alerts.db --query \"SELECT * FROM alerts WHERE owner IS NOT ':x' OR 1\" --origin alerts",
    }


@pytest.mark.parametrize("kind", ["Parquet", "CSV", "JSON lines", "SQL"])
def test_the_same_rules_from_every_source(tmp_path: Path, kind: str) -> None:
    shell, sources = Shell(tmp_path), write_sources(tmp_path)
    shell.call(f"fencepost rules sync {sources[kind]} {COLUMNS}")
    assert conditions(shell) == CONDITIONS
    listed = json.loads(shell.call("fencepost rules list --json --label owner=4").out)
    assert [(rule["id"], rule["labels"]) for rule in listed] == [(8, {"owner": "4"})]
    again = shell.call(f"fencepost rules sync {sources[kind]} {COLUMNS}")
    assert again.err == "0 rules added, 0 replaced, 0 removed, 3 unchanged\n"


def test_delta_and_iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltalake = pytest.importorskip("deltalake")
    place = {"URI": f"sqlite:///{tmp_path}/catalog.db", "TYPE": "sql", "WAREHOUSE": f"file://{tmp_path}/lake"}
    for name, value in place.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAB__{name}", value)  # which pyiceberg reads once, when it is imported
    catalog = pytest.importorskip("pyiceberg.catalog")
    shell = Shell(tmp_path)
    deltalake.write_deltalake(str(tmp_path / "delta"), ROWS)
    shell.call(f"fencepost rules sync delta {COLUMNS}")
    assert conditions(shell) == CONDITIONS
    deltalake.write_deltalake(str(tmp_path / "delta"), ROWS.slice(0, 2), mode="overwrite")
    assert "1 removed" in shell.call(f"fencepost rules sync delta:{tmp_path}/delta {COLUMNS}").err
    (tmp_path / "lake").mkdir()
    lab = catalog.load_catalog("lab", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    lab.create_namespace("desk")
    lab.create_table("desk.alerts", schema=ROWS.schema).append(ROWS)
    other = {"FENCEPOST_BOOK": "sqlite:///iceberg.db"}
    shell.call(f"fencepost rules sync iceberg:lab/desk.alerts {COLUMNS}", 0, **other)
    assert conditions(shell, **other) == CONDITIONS
    missing = shell.call_refused(f"fencepost rules sync iceberg:lab/desk.nothing {COLUMNS}", **other)
    assert "iceberg:lab/desk.nothing cannot be read" in missing
    assert "names no Iceberg table" in shell.call_refused(f"fencepost rules sync iceberg:lab {COLUMNS}")
    (tmp_path / "none").mkdir()
    assert "cannot be read" in shell.call_refused(f"fencepost rules sync delta:none {COLUMNS}")


def test_import_and_sync_from_the_first_to_the_last(tmp_path: Path) -> None:
    shell, _ = Shell(tmp_path), write_sources(tmp_path)
    assert "3 rules added" in shell.call(f"fencepost rules import alerts.parquet {COLUMNS} --detect enter,exit").err
    assert conditions(shell) == CONDITIONS
    refused = shell.call_refused(f"fencepost rules import alerts.csv {COLUMNS}")
    assert "row 0: rule 7 is already in the book" in refused
    assert "and was not made from this table" in shell.call_refused(f"fencepost rules sync alerts.csv {COLUMNS}")
    told = json.loads(shell.call(f"fencepost rules sync alerts.csv {COLUMNS} --adopt --dry-run --json").out)
    assert (told["replaced"], told["revision"], told["examples"][0]["id"]) == (3, None, 7)
    shell.call(f"fencepost rules sync alerts.csv {COLUMNS} --adopt --publish published")
    assert len(VersionDirectory(tmp_path / "published").load()) == 3
    pq.write_table(ROWS.slice(0, 0), tmp_path / "empty.parquet")
    origin = f"--origin {tmp_path.resolve()}/alerts.csv"
    assert "3 of 3 rules would go; expected at most 10% to be removed" in shell.call_refused(
        f"fencepost rules sync empty.parquet {COLUMNS} {origin}"
    )
    assert "3 removed" in shell.call(f"fencepost rules sync empty.parquet {COLUMNS} {origin} --remove-at-most 100%").err
    pq.write_table(ROWS.append_column("key", pa.array(["x-1", "x-2", "7"])), tmp_path / "keys.parquet")
    shell.call("fencepost rules import keys.parquet --id key --range delay=low,high --bounds []")
    shell.call("fencepost rules pause x-1 --until '2100-01-01 08:00'")
    assert json.loads(shell.call("fencepost rules show x-1 --json").out)["paused_until"] == "2100-01-01T08:00:00+00:00"
    assert "\tpaused until 2100-01-01 08:00:00\n" in shell.call("fencepost rules list --state paused").out
    shell.call("fencepost rules replace x-2 'delay > 4'")
    assert "restored rule" in shell.call("fencepost rules restore x-2 1").err
    held = json.loads(shell.call("fencepost rules list --holds delay=3 --text DELAY --json").out)
    assert {rule["name"] for rule in held} == {"x-1", "x-2"}
    shell.call("fencepost rules remove x-2")
    assert len(json.loads(shell.call("fencepost rules history x-2 --json").out)) == 4
    for options, fault in {
        "--id alert": "without --equal, --range and --condition",
        "--range delay=low": "two columns with a comma between them",
        f"{COLUMNS} --remove-at-most some": "is no limit of removals",
        f"{COLUMNS} --query x": "--query without --origin",
        f"{COLUMNS} --follow never": "a number and milliseconds",
        "--id alert --range delay=low,top": "table has no column top",
        "--range delay=low,high --holds x": None,
    }.items():
        command = f"fencepost rules sync alerts.csv {options}"
        if fault is None:
            shell.call(command, 2)
        else:
            assert fault in shell.call_refused(command), command
    secret = shell.call_refused(
        f"fencepost rules sync postgresql://ann:secret@127.0.0.1:1/x {COLUMNS} --query 'SELECT 1' --origin x"
    )
    assert "secret" not in secret


@pytest.mark.slow
def test_following_a_table(tmp_path: Path) -> None:
    shell, _ = Shell(tmp_path), write_sources(tmp_path)
    script = f"""
{sys.executable} -m fencepost rules sync alerts.jsonl {COLUMNS} --follow 200ms --publish published 2> told &
one=$!
for i in $(seq 200); do grep -q 'published version 1' told && break; sleep 0.1; done
echo nonsense > alerts.jsonl
for i in $(seq 100); do grep -q 'the rules stay as they were' told && break; sleep 0.1; done
head -n 2 good.jsonl > new.jsonl; mv new.jsonl alerts.jsonl
for i in $(seq 100); do grep -q 'published version 2' told && break; sleep 0.1; done
kill $one; wait $one
"""
    (tmp_path / "good.jsonl").write_text((tmp_path / "alerts.jsonl").read_text())
    shell.run(script)
    told = (tmp_path / "told").read_text()
    assert told.count("the rules stay as they were") == 1, told
    assert "1 removed, 2 unchanged; published version 2" in told
    assert _ids(tmp_path) == {7, 8}


def _ids(home: Path) -> set[Any]:
    snapshot = VersionDirectory(home / "published").load()
    return {int(snapshot.rules.ids[row]) for row in snapshot.in_force}


def test_what_is_refused_leaves_no_book_behind(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    pq.write_table(ROWS.set_column(3, "high", pa.array([1.0, 5.0, None])), tmp_path / "faulty.parquet")
    (tmp_path / "rules.jsonl").write_text('{"id": 1, "condition": "price >"}\n')
    for words in (
        f"import faulty.parquet {COLUMNS}",
        "import rules.jsonl --zone America/New_York",
        "import nothing.jsonl",
        f"sync faulty.parquet {COLUMNS}",
        "add 1 'price >'",
    ):
        shell.call_refused(f"fencepost rules {words}")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["faulty.parquet", "rules.jsonl"], words
    (tmp_path / "rules.jsonl").write_text('{"id": 1, "condition": "price > 4"}\n')
    odd = {"FENCEPOST_BOOK": "sqlite:///what%3Fever.db"}
    for environment in ({}, odd):
        shell.call("fencepost rules import rules.jsonl --zone America/New_York", 0, **environment)
        assert conditions(shell, **environment) == {1: "price > 4"}
        assert "already" in shell.call_refused("fencepost rules import rules.jsonl", **environment)
        assert conditions(shell, **environment) == {1: "price > 4"}
    assert "zone" in shell.call_refused("fencepost rules add 2 'price > 5' --zone Asia/Tokyo")
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]
