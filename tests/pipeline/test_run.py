"""Pipelines that run on a real Spark, by source and sink, against the Monitor."""

import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.deliveries.spool import Spool
from fencepost.errors import FencepostError
from fencepost.pipeline import run
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.runtime.changes import Applied, ChangeFollower, Message
from fencepost.pipeline.runtime.identity import clear_drafts
from fencepost.published import VersionDirectory

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
TICKS = [("IBM", 39.0), ("IBM", 41.5), ("AAPL", 120.0), ("IBM", 60.0), ("AAPL", None), ("IBM", 45.0)]
SCHEMA = 'schema = { symbol = "string", price = "double", ts = "timestamp" }'
BAD = [
    "garbage",
    '{"symbol": "IBM", "price": "much", "ts": "2024-01-01T00:00:09Z"}',
    '[{"symbol": "IBM"}]',
    '{"symbol": "IBM", "ts": "2024-01-01T00:00:09Z"} {"symbol": "AAPL", "ts": "2024-01-01T00:00:09Z"}',
    '{"price": 44.0, "ts": "2024-01-01T00:00:09Z"}',
    '{"symbol": "IBM", "price": 44.0}',
]
FAULTS = ["not a JSON object"] * 3 + ["does not fit the schema", "no symbol", "no ts"]


def rules() -> fp.Rules:
    made = fp.Rules()
    made.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit", name="ibm", labels={"desk": "4"})
    made.add(2, "price > 100")
    return made


def ticks() -> list[dict[str, Any]]:
    return [{"symbol": s, "price": p, "ts": EPOCH + timedelta(seconds=i)} for i, (s, p) in enumerate(TICKS)]


def expected() -> pa.Table:
    schema = pa.schema([("symbol", pa.string()), ("price", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))])
    monitor = fp.Monitor(rules(), object="symbol", time="ts")
    return monitor.update(pa.Table.from_pylist(ticks(), schema))


def line(row: dict[str, Any]) -> str:
    unnamed = {"nested": {"text": "} {"}}  # fields that no schema names are no fault
    return json.dumps(row | {"ts": row["ts"].isoformat()} | (unnamed if row["price"] == 41.5 else {}))


def write_pipeline(home: Path, source: str, operator: str, sink: str, trigger: str = "once = true") -> Path:
    if not (home / "published").exists():
        rules().publish(home / "published")
    text = f"[source]\n{source}\n[rules]\ndirectory = 'published'\n[operator]\n{operator}\n[sink]\n{sink}\n"
    (home / "pipeline.toml").write_text(f"{text}[trigger]\n{trigger}\n")
    return home / "pipeline.toml"


WATCH = 'kind = "watch"\nobject = "symbol"\ntime = "ts"\nbuckets = 2'
JSON = f'format = "json"\npath = "in"\n{SCHEMA}'


def json_lines(path: Path) -> list[dict[str, Any]]:
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    return [json.loads(text) for file in files for text in file.read_text().splitlines()]


@pytest.fixture(name="home")
def a_directory_with_ticks(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    lines = [line(row) for row in ticks()]
    (tmp_path / "in" / "a.json").write_text("\n".join([*lines[:3], *BAD, "", *lines[3:]]) + "\n")
    return tmp_path


@pytest.mark.oldest
def test_watch_of_json_to_parquet_with_dead_letters_and_a_second_run(spark: Any, home: Path) -> None:
    sink = 'format = "parquet"\npath = "out"\ncheckpoint = "checkpoint"'
    file = write_pipeline(home, JSON + '\ndead_letters = "dead"\noptions = { maxFilesPerTrigger = 1 }', WATCH, sink)
    out = StringIO()
    summary = run(file, spark, out=out)
    found = pq.read_table(home / "out")
    assert sorted(found["event_id"].to_pylist()) == sorted(expected()["event_id"].to_pylist())
    assert (summary.events, summary.dead_letters, summary.rule_version) == (expected().num_rows, len(BAD), 1)
    dead = json_lines(home / "dead")
    assert Counter(letter["fault"] for letter in dead) == Counter(FAULTS)
    assert sorted(letter["value"] for letter in dead) == sorted(BAD)
    assert all(letter["origin"].endswith("in/a.json") for letter in dead)
    again = run(file, spark, out=out)
    assert (again.rows, again.dead_letters) == (0, 0), "everything is taken once"
    assert pq.read_table(home / "out").num_rows == found.num_rows
    assert pq.read_table(home / "out").num_rows == summary.events
    names, later = found.schema.names, ticks()[0] | {"ts": EPOCH + timedelta(minutes=1)}
    assert names[-4:] == ["symbol", "symbol_before", "name", "labels"]
    told = {row["rule_id"]: (row["symbol"], row["name"], row["labels"]) for row in found.to_pylist()}
    assert told == {1: ("IBM", "ibm", [("desk", "4")]), 2: ("AAPL", None, None)}
    # The checkpoint goes on where events carry more.
    (home / "in" / "b.json").write_text(line(later) + "\n")
    file.write_text(file.read_text().replace("[sink]", 'carry = ["ts"]\ncondition = true\n[sink]'))
    assert run(file, spark, out=out).events == 1
    written = max((home / "out").glob("*.parquet"), key=lambda path: path.stat().st_mtime)
    (event,) = pq.read_table(written).to_pylist()
    assert (event["detect"], event["ts"], event["symbol"]) == ("exit", later["ts"].replace(tzinfo=None), "IBM")
    assert event["condition"] == "symbol = 'IBM' AND price BETWEEN 40 AND 50"


@pytest.mark.oldest
def test_match_of_csv_to_csv_and_of_parquet_to_json(spark: Any, tmp_path: Path) -> None:
    for name in ("csv", "parquet"):
        (tmp_path / name / "in").mkdir(parents=True)
    rows = pa.Table.from_pylist([row | {"n": i} for i, row in enumerate(ticks())])
    pc.write_csv(rows.drop_columns(["ts"]), tmp_path / "csv" / "in" / "a.csv")
    with (tmp_path / "csv" / "in" / "a.csv").open("a") as opened:
        opened.write('"IBM",many,9\n')
    pq.write_table(rows, tmp_path / "parquet" / "in" / "a.parquet")
    source = 'format = "csv"\npath = "in"\nschema = { symbol = "string", price = "double", n = "int" }'
    sink = 'format = "csv"\npath = "out"\ncheckpoint = "checkpoint"'
    summary = run(write_pipeline(tmp_path / "csv", source, 'kind = "match"', sink), spark, out=StringIO())
    assert (summary.rows, summary.events, summary.dead_letters) == (7, 3, 1)
    (written,) = (file for file in (tmp_path / "csv" / "out").glob("*.csv") if file.read_text())
    answers = {row["n"]: json.loads(row["rule_ids"]) for row in pc.read_csv(written).to_pylist()}
    assert answers == {0: [], 1: [1], 2: [2], 3: [], 4: [], 5: [1]}
    source = 'format = "parquet"\npath = "in/*.parquet"\ncolumns = { price = "price / 2", m = "n + 1" }'
    sink = 'format = "json"\npath = "out"\ncheckpoint = "checkpoint"'
    file = write_pipeline(tmp_path / "parquet", source, 'kind = "match"\nexplode = true', sink)
    assert run(file, spark, out=StringIO()).events == 0
    cheap = fp.Rules()
    cheap.add(1, "symbol = 'IBM' AND price BETWEEN 22 AND 25")
    cheap.publish(tmp_path / "parquet" / "published")
    (tmp_path / "parquet" / "pipeline.toml").write_text(
        file.read_text().replace('"out"', '"o2"').replace('point"', '2"')
    )
    assert run(file, spark, out=StringIO()).events == 1
    (answer,) = json_lines(tmp_path / "parquet" / "o2")
    assert (answer["rule_id"], answer["price"], answer["m"]) == (1, 22.5, 6)


class Hook(BaseHTTPRequestHandler):
    """Fails every event at first; refuses one for good."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key, taken = self.headers["Idempotency-Key"], self.server.taken  # type: ignore[attr-defined]
        assert self.headers["X-Team"] == "desk"
        if body["rule_id"] == 2:
            status = 422
        else:
            self.server.attempts[key] += 1  # type: ignore[attr-defined]
            status = 503 if self.server.attempts[key] == 1 else 200  # type: ignore[attr-defined]
        if status == 200:
            taken.append((key, body))
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_webhook_that_fails_at_first_and_one_event_that_it_never_takes(spark: Any, home: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.taken, server.attempts = [], Counter()  # type: ignore[attr-defined]
    sink = f'format = "webhook"\nurl = "http://127.0.0.1:{server.server_port}/"\nheaders = {{ X-Team = "desk" }}\n'
    sink += 'checkpoint = "checkpoint"\nbackoff = "10 milliseconds"\nretries = 2\ndead_letters = "undelivered"'
    with serving(server):
        summary = run(write_pipeline(home, JSON, WATCH, sink), spark, out=StringIO())
    told = expected().to_pylist()
    wanted = sorted(event["event_id"] for event in told if event["rule_id"] == 1)
    taken = server.taken  # type: ignore[attr-defined]
    assert sorted(key for key, _ in taken) == wanted
    assert all(key == body["event_id"] for key, body in taken)
    assert {(body["name"], body["labels"]["desk"], body["symbol"]) for _, body in taken} == {("ibm", "4", "IBM")}
    dead = [json.loads(text) for file in (home / "undelivered").iterdir() for text in file.read_text().splitlines()]
    assert sorted(letter["key"] for letter in dead) == sorted(e["event_id"] for e in told if e["rule_id"] == 2)
    assert {(letter["attempts"], letter["said"].split()[0]) for letter in dead} == {(1, "422")}
    assert (summary.posted, summary.undelivered) == (len(taken), len(dead))
    # Nobody listens any more: the events are kept, and the pipeline ends in order.
    text = (home / "pipeline.toml").read_text().replace('"checkpoint"', '"second"')
    (home / "pipeline.toml").write_text(text.replace('dead_letters = "undelivered"', ""))
    out = StringIO()
    summary = run(home / "pipeline.toml", spark, out=out)
    assert (summary.posted, summary.undelivered) == (0, len(told))
    assert f"{len(told)} events not delivered; the last answer: " in out.getvalue()
    assert f"fencepost deliveries retry {home / 'second'}" in out.getvalue()
    # They are sent again when somebody listens, though the stream has nothing new.
    assert Spool(home / "second" / "fencepost" / "deliveries").retry(1) == len(told)
    server = ThreadingHTTPServer(("127.0.0.1", server.server_port), Hook)
    server.taken, server.attempts = [], Counter()  # type: ignore[attr-defined]
    with serving(server):
        summary = run(home / "pipeline.toml", spark, out=StringIO())
    assert sorted(key for key, _ in server.taken) == wanted  # type: ignore[attr-defined]
    assert (summary.rows, summary.posted, summary.undelivered) == (0, len(wanted), len(dead))


def test_a_socket_to_the_console_until_it_is_stopped(spark: Any, home: Path) -> None:
    class Lines(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for row in ticks():
                self.wfile.write(f"{line(row)}\n".encode())
            stop.wait()

    stop = threading.Event()
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Lines)
    server.daemon_threads = True
    source = f'format = "socket"\nhost = "127.0.0.1"\nport = {server.server_address[1]}\n{SCHEMA}'
    file = write_pipeline(home, source, 'kind = "match"', 'format = "console"', 'every = "100 milliseconds"')
    out = StringIO()

    def stop_when_told() -> None:
        deadline = time.monotonic() + 120
        while "3 events" not in out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.1)
        stop.set()

    with serving(server):
        watcher = threading.Thread(target=stop_when_told)
        watcher.start()
        summary = run(file, spark, out=out, stop=stop)
        watcher.join()
    assert (summary.rows, summary.events) == (6, 3)
    assert "6 rows" in out.getvalue()


def test_a_query_that_fails_is_a_refusal_with_its_cause(spark: Any, home: Path) -> None:
    source = 'format = "rate"\ncolumns = { price = "CAST(raise_error(concat(value, \'no price\')) AS double)" }'
    file = write_pipeline(home, source, 'kind = "match"', 'format = "json"\npath = "out"\ncheckpoint = "checkpoint"')
    prices = fp.Rules()
    prices.add(1, "price > 4")
    prices.publish(home / "prices")
    file.write_text(file.read_text().replace("published", "prices").replace("once = true", ""))
    with pytest.raises(FencepostError, match=r"The pipeline, which stopped: .*") as refused:
        run(file, spark, out=StringIO())
    assert "no price" in str(refused.value)
    assert "it goes on from its checkpoint" in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("group", [False, True], ids=["SIGINT to the process", "SIGTERM to its group"])
@pytest.mark.oldest
def test_the_command_ends_in_order_on_a_signal(home: Path, group: bool) -> None:
    sink = 'format = "parquet"\npath = "out"\ncheckpoint = "checkpoint"'
    write_pipeline(home, JSON, WATCH, sink, 'every = "100 milliseconds"')
    command = [sys.executable, "-m", "fencepost", "run", "pipeline.toml", "--json"]
    with (home / "errors").open("w") as errors_file:
        process = subprocess.Popen(  # noqa: S603
            command, cwd=home, stdout=subprocess.PIPE, stderr=errors_file, text=True, start_new_session=True
        )
    deadline = time.monotonic() + 180
    while "5 events" not in (home / "errors").read_text() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.2)
    number = signal.SIGTERM if group else signal.SIGINT
    if group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    errors = (home / "errors").read_text()
    assert process.returncode == 0, errors
    assert json.loads(said)["events"] == expected().num_rows, errors
    assert f"{number.name}: stopping" in errors
    assert "Traceback" not in errors
    assert "Exception" not in errors


def test_changes_may_name_rules_by_text(tmp_path: Path) -> None:
    heard = list[Applied]()
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.add(5, "price > 1", name="floor")
        follower = ChangeFollower(book, lambda: None, tmp_path / "state", report=heard.append)
        changes = [
            {"op": "update", "id": "floor", "condition": "price > 2"},
            {"op": "insert", "id": "roof", "condition": "price > 9"},
            {"op": "delete", "id": "nobody"},
            {"op": "insert", "id": "bad\0name", "condition": "price > 9"},
        ]
        follower.apply([Message(f"rules/0/{n}", json.dumps(each)) for n, each in enumerate(changes)], 0)
        assert heard == [Applied(2, 1, 1)]
        assert [(rule.id, rule.name, rule.condition, rule.version) for rule in book] == [
            (5, "floor", "price > 2", 2),
            (6, "roof", "price > 9", 1),
        ]
        follower.apply([Message("rules/0/9", json.dumps({"op": "delete", "id": "roof"}))], 1)
        assert [rule.id for rule in book] == [5]


def test_changes_of_rules_are_applied_in_order_and_once(tmp_path: Path) -> None:
    target, heard = fp.Rules(), list[Applied]()
    schema = {"price": "double", "symbol": "string"}
    follower = ChangeFollower(
        target,
        lambda: target.publish(tmp_path / "published", schema),
        tmp_path / "state",
        schema,
        tmp_path / "dead",
        heard.append,
    )

    def take(batch: int, *changes: Any) -> Applied:
        texts = [change if isinstance(change, str) else json.dumps(change) for change in changes]
        follower.apply([Message(f"rules/0/{batch * 100 + n}", text) for n, text in enumerate(texts)], batch)
        return heard[-1]

    first = {"op": "insert", "id": 1, "condition": "price > 4", "detect": "enter,exit", "labels": {"desk": "a"}}
    assert take(0, first, {"op": "insert", "id": 2, "condition": "price > 9"}) == Applied(2, 0, 0)
    assert take(1, {**first, "op": "update", "condition": "price > 5"}, {"op": "delete", "id": 2}) == Applied(2, 0, 0)
    assert [(rule.id, rule.condition, rule.version) for rule in target] == [(1, "price > 5", 2)]
    assert take(2, {"op": "delete", "id": 1}, {**first, "condition": "price > 5"}) == Applied(0, 2, 0), (
        "the last counts"
    )
    bad = [
        "garbage",
        "[1]",
        {"op": "upsert", "id": 1},
        {"op": "insert", "id": "1", "condition": "price > 4"},
        {"op": "insert", "id": 5},
        {"op": "insert", "id": 5, "condition": "price >"},
        {"op": "insert", "id": 5, "condition": "volume > 4"},
        {"op": "insert", "id": 5, "condition": "price > 4", "colour": "red"},
    ]
    assert take(3, *bad, {"op": "delete", "id": 77}) == Applied(0, 1, len(bad))
    letters = json_lines(tmp_path / "dead")
    assert [letter["origin"] for letter in letters] == [f"rules/0/{300 + n}" for n in range(len(bad))]
    said = [letter["fault"] for letter in letters]
    assert said[0].startswith("No JSON")
    assert "expected an object with op: insert, update, delete" in said[2]
    assert "the field 'condition' is missing" in said[4]
    assert "volume" in said[6]
    named = [{"op": "insert", "id": id, "condition": "price > 4", "name": name} for id, name in ((7, "a"), (8, "b"))]
    assert take(4, *named) == Applied(2, 0, 0)
    exchanged = [{**one, "name": other["name"]} for one, other in zip(named, reversed(named), strict=True)]
    assert take(5, *exchanged) == Applied(0, 0, 2), "no one lets go first"
    assert take(6, {**named[1], "name": "a"}, {**named[0], "name": "c"}) == Applied(2, 0, 0), "the later lets go"
    assert take(7, {**named[0], "id": 9, "name": "c"}, {"op": "delete", "id": 7}) == Applied(2, 0, 0)
    assert {rule.name: rule.id for rule in target if rule.name} == {"a": 8, "c": 9}
    assert "has the name 'b' of rule 8" in json_lines(tmp_path / "dead")[len(bad)]["fault"]
    before, versions = [rule.version for rule in target], VersionDirectory(tmp_path / "published")
    published = versions.latest()
    take(7, {"op": "delete", "id": 1})
    assert [rule.version for rule in target] == before, "a micro-batch that was applied is not applied again"
    assert versions.latest() == published
    (tmp_path / "state" / "applied.json").unlink()
    assert take(2, {"op": "delete", "id": 1}, {**first, "condition": "price > 5"}) == Applied(0, 2, 0)
    assert [rule.version for rule in target] == before, "nor one whose note was lost"


def test_what_a_kill_left_of_the_first_micro_batch_is_removed(home: Path) -> None:
    sink = 'format = "parquet"\npath = "out"\ncheckpoint = "checkpoint"'
    file, _ = read_pipeline(write_pipeline(home, JSON, WATCH, sink))
    offsets = home / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    drafts = [offsets / ".0.bef4d9fd.tmp", offsets / "..0.bef4d9fd.tmp.crc"]
    for noted in (False, True):  # once there is a micro-batch, drafts are Spark's own affair
        for draft in drafts:
            draft.write_text("v1")
        if noted:
            (offsets / "0").write_text("v1")
        clear_drafts(file)
        assert [draft.exists() for draft in drafts] == [noted, noted]
