"""Commands over files of data: match, backtest, why, verify, explain."""

import csv
import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.cli import recorded_run
from fencepost.cli.commands.backtest import backtest
from fencepost.cli.commands.match import match
from fencepost.cli.damped_walk import walk
from fencepost.errors import FencepostError
from tests.cli.shell import Shell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Four rules, and a market in three kinds of files."""
    shell = Shell(tmp_path_factory.mktemp("cli"))
    rules = [
        {"id": 1, "condition": "symbol = 'IBM' AND price BETWEEN 40 AND 50", "detect": "enter,exit"},
        {"id": 2, "condition": "price >= 60 OR volume > 2800"},
        {"id": 3, "condition": "ts >= TIMESTAMP '2024-01-01 00:40:00' AND price < 45", "detect": "inside,enter,exit"},
        {"id": 4, "condition": "symbol = 'nobody'", "detect": "enter"},
    ]
    (shell.home / "rules.jsonl").write_text("".join(json.dumps(rule) + "\n" for rule in rules))
    shell.run("fencepost rules import rules.jsonl && fencepost publish published")
    rng = np.random.default_rng(5)
    names = rng.choice(["IBM", "SAP", "007"], 3000)
    prices = (45 + np.cumsum(rng.normal(0, 0.5, 3000))).round(2)
    stamps = np.datetime64("2024-01-01", "us") + np.arange(3000) * np.timedelta64(1_000_000, "us")
    table = pa.table({"symbol": names, "price": prices, "volume": np.arange(3000), "ts": stamps})
    pq.write_table(table, shell.home / "ticks.parquet")
    rows = [{**row, "ts": row["ts"].isoformat(sep=" ")} for row in table.to_pylist()]
    (shell.home / "ticks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (shell.home / "ticks.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["symbol", "price", "volume", "ts"])
        writer.writeheader()
        writer.writerows(rows)
    return shell


def holding(row: dict[str, object]) -> list[int]:
    """The rules above, once more."""
    price, volume, ts = float(str(row["price"])), float(str(row["volume"])), str(row["ts"]).replace("T", " ")
    holds = [
        row["symbol"] == "IBM" and 40 <= price <= 50,
        price >= 60 or volume > 2800,
        ts >= "2024-01-01 00:40:00" and price < 45,
    ]
    return [id for id, each in enumerate(holds, start=1) if each]


def test_match_tells_the_rules_of_every_row(shell: Shell) -> None:
    for name in ("ticks.jsonl", "ticks.csv", "ticks.parquet"):
        rows = [json.loads(line) for line in shell.run(f"fencepost match {name}").out.splitlines()]
        assert len(rows) == 3000
        assert all(sorted(row["rule_ids"]) == holding(row) for row in rows)
        assert {row["symbol"] for row in rows} == {"IBM", "SAP", "007"}
    counted = json.loads(shell.run("fencepost match ticks.csv --out found.parquet --only-matches --json").out)
    found = pq.read_table(shell.home / "found.parquet").to_pylist()
    assert counted == {"rows": 3000, "matches": sum(len(row["rule_ids"]) for row in found), "file": "found.parquet"}
    assert len(found) == sum(1 for row in rows if holding(row))
    shell.run("fencepost match ticks.parquet --rules published --out found.csv")
    with (shell.home / "found.csv").open() as file:
        assert [sorted(map(int, row["rule_ids"].split())) for row in csv.DictReader(file)] == [
            holding(row) for row in rows
        ]
    done = shell.run("set +o pipefail; fencepost match ticks.jsonl | head -n 1")
    assert done.err == ""


def test_texts_that_look_like_nulls_are_keys(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """CSV finds what JSON lines find: NA is Namibia, null a name, and only an empty field a null."""
    monkeypatch.chdir(shell.home)
    book = fp.RuleBook("sqlite:///keys.db")
    for id, key in enumerate(["NA", "null", "NaN", ""]):
        book.add(id, f"country = '{key}' AND price > 1")
    Path("keys.csv").write_text('country,price\nNA,2\n"null",2\nNaN,2\n,2\nNA,NA\n')
    match(Path("keys.csv"), out=Path("keys.jsonl"), book=book.url)
    rows = [json.loads(line) for line in Path("keys.jsonl").read_text().splitlines()]
    assert [(row["country"], row["rule_ids"]) for row in rows] == [
        ("NA", [0]),
        ("null", [1]),
        ("NaN", [2]),
        (None, []),
        ("NA", []),
    ]
    Path("none.csv").write_text("country,price\n")
    match(Path("none.csv"), out=Path("none.jsonl"), book=book.url)
    assert Path("none.jsonl").read_text() == ""
    Path("twice.csv").write_text("country,price,price\nNA,2,3\n")
    for name, message in (("twice.csv", "two columns named price"), ("keys.jsonl", "with a column rule_ids")):
        with pytest.raises(FencepostError, match=message):
            match(Path(name), out=Path("out.csv"), book=book.url)


def test_backtest_why_and_verify(shell: Shell) -> None:
    watch = "--object symbol --time ts"
    shell.run(f"fencepost backtest ticks.csv {watch} --events events.jsonl --plot events.svg")
    assert "<svg" in (shell.home / "events.svg").read_text()
    told = json.loads(shell.run(f"fencepost backtest ticks.parquet {watch} --events events.parquet --json").out)
    rows = pq.read_table(shell.home / "ticks.parquet").to_pylist()
    expected: dict[tuple[int, str], int] = {}
    last: dict[str, set[int]] = {}
    for row in rows:
        now = set(holding(row))
        before = last.get(row["symbol"], set())
        for kind, ids in (("enter", now - before), ("exit", before - now), ("inside", now)):
            for id in ids:
                expected[id, kind] = expected.get((id, kind), 0) + 1
        last[row["symbol"]] = now
    detects = {1: ["enter", "exit"], 2: ["inside"], 3: ["inside", "enter", "exit"]}
    for fired in told["rules"]:
        kinds = {kind: expected.get((fired["rule_id"], kind), 0) for kind in detects[fired["rule_id"]]}
        assert fired["events"] == {"inside": 0, "enter": 0, "exit": 0, "cross": 0, "silent": 0, **kinds}
    assert {fired["rule_id"] for fired in told["rules"]} == {id for id, _ in expected}
    assert sum(told["over_time"]) == sum(told["events"].values())
    one = json.loads(
        shell.run(f"fencepost backtest ticks.csv {watch} --condition 'price > 40' --detect enter --json").out
    )
    assert [(fired["rule_id"], fired["objects"]) for fired in one["rules"]] == [(0, 3)]
    # An event is explained by the rule as it was.
    event = next(each for each in pq.read_table(shell.home / "events.parquet").to_pylist() if each["rule_id"] == 1)
    shell.run("""fencepost rules replace 1 "symbol = 'IBM' AND price < 4" """)
    for source in ("--events events.parquet", "--events events.jsonl", "--events events.parquet --rules published"):
        shown = shell.run(f"fencepost why {event['event_id']} {source}").out
        assert f"IBM: {event['detect']} of rule 1 (version 1)" in shown
        assert "symbol = 'IBM' and 40.0 <= price <= 50.0" in shown
    assert "No event 00 in events.jsonl" in shell.refused("fencepost why 00 --events events.jsonl")
    assert "ticks.csv without the column event_id" in shell.refused("fencepost why 00 --events ticks.csv")


def test_verify_finds_what_is_wrong(shell: Shell) -> None:
    watch = "--object symbol --time ts"
    shell.call(f"fencepost backtest ticks.parquet {watch} --events run.parquet")
    checked = json.loads(shell.run("fencepost verify ticks.csv --sample 300 --json").out)
    assert (checked["rows"], checked["rules"]) == (300, 4)
    assert (
        "no difference from brute force"
        in shell.call(f"fencepost verify ticks.parquet --events run.parquet {watch}").err
    )
    run = pq.read_table(shell.home / "run.parquet")
    pq.write_table(run.slice(1), shell.home / "short.parquet")
    assert "1 event missing" in shell.call_refused(f"fencepost verify ticks.parquet --events short.parquet {watch}")
    pq.write_table(pa.concat_tables([run, run.slice(0, 2)]), shell.home / "twice.parquet")
    doubled = shell.call_refused(f"fencepost verify ticks.parquet --events twice.parquet {watch}")
    assert "2 events more than once" in doubled
    shell.call("fencepost verify ticks.parquet --events run.parquet", 2)


def test_files_that_lie(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process but for the first two: a refusal is an error here, and its text there."""
    home, url = shell.home, "sqlite:///rules.db"
    monkeypatch.chdir(home)
    (home / "bad.jsonl").write_text('{"symbol": "IBM", "price": 1}\n{"symbol": "IBM", "price": }\n')
    assert "Line 2 of bad.jsonl" in shell.refused("fencepost match bad.jsonl")
    (home / "short.csv").write_text("symbol,price,volume,ts\nIBM,1\n")
    assert "Expected 4 columns, got 2" in shell.refused("fencepost match short.csv")
    (home / "mixed.csv").write_text("symbol,price,volume,ts\nIBM,1,2,2024-01-01\nIBM,cheap,2,2024-01-01\n")
    (home / "no.parquet").write_text("symbol,price\n")
    (home / "few.csv").write_text("symbol,price\nIBM,1\n")
    lies: list[tuple[str, dict[str, Any], str]] = [
        ("mixed.csv", {}, "price"),
        ("no.parquet", {}, "cannot be read as its extension says"),
        ("few.csv", {}, "the column volume, which the schema does not have"),
        ("nowhere.csv", {}, "nowhere.csv does not exist"),
        ("rules.db", {}, "which is no file of data"),
        ("ticks.csv", {"type": ["price"]}, "--type price; expected a name, an equals sign and a value"),
        ("ticks.csv", {"type": ["color=double"]}, "expected one of the columns symbol, price, volume, ts"),
        ("ticks.csv", {"type": ["price=decimal(40,2)"]}, "decimal"),
        ("ticks.csv", {"out": home / "found.xls"}, "extension '.xls'"),
        ("ticks.csv", {"rules": "."}, "without any version"),
        ("ticks.csv", {"book": "sqlite:///nowhere.db"}, "No rule book is at"),
    ]
    for name, options, message in lies:
        with pytest.raises(FencepostError) as refused:
            match(Path(name), **{"book": url, **options})
        assert message in str(refused.value)
    with pytest.raises(FencepostError, match="without the column vehicle; expected one of symbol, price"):
        backtest(Path("ticks.csv"), object="vehicle", time="ts", book=url)
    assert not list(home.glob(".*"))  # no draft stays behind


def test_explain_and_exact_numbers(shell: Shell) -> None:
    explained = json.loads(shell.run("fencepost explain --json").out)
    assert (explained["rules"], explained["types"]["price"]) == (4, "double")
    assert "SliceList" in shell.run("fencepost explain").out
    (shell.home / "large.csv").write_text("symbol,price,volume,ts\nx,1,9007199254740993,\nx,1,9007199254740992,\n")
    found = shell.run(
        "fencepost rules add 1 'volume > 9007199254740992' --book sqlite:///large.db"
        " && fencepost match large.csv --book sqlite:///large.db"
    )
    assert [json.loads(line)["rule_ids"] for line in found.out.splitlines()] == [[1], []]


def test_damped_rules_are_compared_with_brute_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(tmp_path)
    rng = random.Random(7)  # noqa: S311
    rows = [{"id": rng.randrange(3), "ts": time, "price": rng.choice([35.0, 39.0, 41.0, 45.0])} for time in range(90)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "ticks.parquet")
    rules = fp.Rules()
    rules.add(1, "price < 40", detect="enter,exit", for_=4, keep_firing_for="2 rows", margin={"price": 2}, limit=3)
    rules.add(2, "price < 40", detect="enter,exit,cross", cooldown=5)
    rules.add(3, "price < 40", detect="enter,exit,inside", cooldown=5, stay="price < 40 OR id = 1")
    rules.to_parquet(tmp_path / "rules.parquet")
    columns = "--object id --time ts"
    shell.call("fencepost rules import rules.parquet")
    shell.call(f"fencepost backtest ticks.parquet {columns} --timeout 9 --events events.parquet")
    verify = f"fencepost verify ticks.parquet {columns} --timeout 9 --events events.parquet"
    told = shell.call(verify).err
    assert "90 rows compared, 1 rule compared by id alone: no difference from brute force" in told
    monkeypatch.setattr(recorded_run, "walk", lambda *given: walk(*given)[1:])
    assert "0, by comparing every rule" in shell.call_refused(verify)


def test_damped_rules_are_replayed_as_a_monitor_does(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    start = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
    prices = [41.0, 39.0, 39.0, 39.0, 42.0, 39.0, 39.0, 39.0, 42.0, 42.0, 39.0, 41.0, 39.0]
    rows = [{"id": "IBM", "ts": start + timedelta(minutes=2 * at), "price": price} for at, price in enumerate(prices)]
    rows += [{"id": "SAP", "ts": start + timedelta(hours=hour), "price": 39.0} for hour in (0, 1)]
    rules = fp.Rules()
    rules.add(7, "price < 40", detect="enter,exit", for_="3 minutes", keep_firing_for="3 minutes", name="floor")
    rules.add(8, "price < 40", detect="enter,exit,silent", margin={"price": 1}, cooldown="5 minutes")
    rules.add(9, "price < 40", detect="enter,exit,inside")
    rules.to_parquet(tmp_path / "rules.parquet")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "ticks.parquet")
    columns = "--object id --time ts --timeout '20 minutes'"
    shell.run("fencepost rules import rules.parquet")
    shell.run(f"fencepost backtest ticks.parquet {columns} --events events.parquet")
    found = pq.read_table(tmp_path / "events.parquet")
    monitor = fp.Monitor(rules, object="id", time="ts", timeout=timedelta(minutes=20))
    expected = monitor.update(rows)
    assert {"held", "kept", "cooldown", "timeout"} <= set(expected["reason"].to_pylist())
    assert "silent" in expected["detect"].to_pylist()
    assert found["event_id"].to_pylist() == expected["event_id"].to_pylist()
    told = shell.run(f"fencepost verify ticks.parquet --events events.parquet {columns}").err
    assert f"{expected.num_rows} events" in told
    assert f"{len(rows)} rows compared, 0 rules compared by id alone: no difference" in told
    pq.write_table(found.slice(1), tmp_path / "fewer.parquet")
    assert "1 event missing" in shell.refused(f"fencepost verify ticks.parquet --events fewer.parquet {columns}")
    shell.run(f"fencepost backtest ticks.parquet {columns} --rule 7 --plot episode.svg")
    assert "keep_firing_for 3 minutes" in (tmp_path / "episode.svg").read_text()
    shell.run("fencepost rules add 10 'price < 40' --detect enter --for '9 hours'")
    shell.run(f"fencepost backtest ticks.parquet {columns} --rule 10 --plot waits.svg")
    assert "for 9 hours" in (tmp_path / "waits.svg").read_text()
    shell.run("fencepost rules replace 10 'price < 40' --margin price=2.5")
    assert "margin    price 2.5" in shell.run("fencepost rules show 10").out.splitlines()
    shell.run("fencepost rules remove 10")
    tried = f"fencepost backtest ticks.parquet {columns} --condition 'price < 40'"
    shell.run(f"{tried} --for '3 minutes' --keep-firing-for '3 minutes' --margin price=1 --events tried.parquet")
    alone = fp.Rules()
    alone.add(0, "price < 40", detect="enter,exit", for_="3 minutes", keep_firing_for="3 minutes", margin={"price": 1})
    ids = fp.Monitor(alone, object="id", time="ts", timeout=timedelta(minutes=20)).update(rows)["event_id"]
    assert pq.read_table(tmp_path / "tried.parquet")["event_id"].to_pylist() == ids.to_pylist()
    assert "belong to --condition" in shell.run(f"fencepost backtest ticks.parquet {columns} --for '3 minutes'", 2).err
    asked = "--rows ticks.parquet --object-column id --time ts"
    told = shell.run(f"fencepost why --rule floor --object IBM {asked} --timeout 1h").out
    assert told.startswith("IBM has been inside rule 7 since 09:24; `for` 3 minutes is not over before 09:27.")
    answer = json.loads(shell.run(f"fencepost why --rule 8 --object SAP {asked} --timeout '20 minutes' --json").out)
    assert (answer["raw"], answer["reported"], answer["waits_for"]) == (True, True, None)
    assert "EVENT_ID and --events" in shell.run("fencepost why --rule 7", 2).err
    said = " ".join(shell.run("fencepost why --rule 7 --object IBM", 2).err.replace("│", " ").split())
    assert "its absence --rule, --object, --rows and --object-column" in said
    assert "--time" not in said.split("absence")[1]


def test_backtest_shows_names(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.call("fencepost rules add 'ibm floor' 'price > 40' --detect enter")
    shell.call("fencepost rules add 8 'price > 41' --detect enter")
    (tmp_path / "rows.csv").write_text("symbol,ts,price\nIBM,1,39\nIBM,2,42\n")
    asked = "fencepost backtest rows.csv --object symbol --time ts"
    header, *rows = [line.split("\t") for line in shell.call(asked).out.splitlines()]
    assert [(row[0], row[header.index("name")]) for row in rows] == [("1", "ibm floor"), ("8", "")]
    assert [rule["name"] for rule in json.loads(shell.call(f"{asked} --json").out)["rules"]] == ["ibm floor", None]
