"""Kafka to Kafka on a real broker: poison, exactly once over a killed broker, rules that arrive on a topic."""

import importlib.util
import json
import random
import threading
import time
from collections import Counter
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tools.kafka import Broker

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.pipeline import check, run
from fencepost.pipeline.runtime.changes import Applied, ChangeFollower
from fencepost.pipeline.runtime.sources import kafka_reader
from fencepost.published import VersionDirectory
from tests.test_examples import says

pytestmark = pytest.mark.system

SCHEMA = pa.schema(
    [
        ("vehicle", pa.string()),
        ("at", pa.int64()),
        ("x", pa.float64()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
    ]
)
POISON = [
    None,
    "garbage",
    '{"vehicle": "v1", "at": 3, "x": "far"}',
    '[{"vehicle": "v1", "at": 3, "x": 1.0}]',
    '{"at": 3, "x": 1.0}',
    '{"vehicle": "v1", "x": 1.0}',
]
FAULTS = ["empty", "not a JSON object", "does not fit the schema", "not a JSON object", "no vehicle", "no at"]


def rules() -> fp.Rules:
    made = fp.Rules()
    for id in range(8):
        made.add(id, f"x BETWEEN {id} AND {id + 2.5}", detect="enter,exit,cross")
    return made


def moves(start: int, count: int) -> list[str]:
    """Rows of twelve vehicles; times tie, so that partition and offset decide."""
    rng = random.Random(start)  # noqa: S311
    return [
        json.dumps({"vehicle": f"v{rng.randrange(12)}", "at": start + i // 4, "x": rng.randrange(24) / 2})
        for i in range(count)
    ]


def produce(spark: Any, broker: Broker, topic: str, values: list[str | None]) -> None:
    """A vehicle's rows go to one partition; what has no vehicle goes anywhere."""
    keyed = [(str(json.loads(v).get("vehicle")) if v and v[0] == "{" else None, v) for v in values]
    frame = spark.createDataFrame(keyed, "key string, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("topic", topic).save()


def messages(spark: Any, broker: Broker, topic: str, headers: bool = False) -> list[Any]:
    """All of a topic; nothing where nobody has written to it yet."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("subscribe", topic)
    try:
        rows: list[Any] = reader.option("includeHeaders", headers).load().collect()
    except Exception as error:
        if "UnknownTopicOrPartition" not in str(error):
            raise
        return []
    return rows


def expected(spark: Any, broker: Broker, topic: str) -> pa.Table:
    """What a Monitor tells of the messages that the topic really has."""
    rows = []
    for message in messages(spark, broker, topic):
        text = message["value"] and message["value"].decode()
        if text not in POISON:
            place = {"kafka_partition": message["partition"], "kafka_offset": message["offset"]}
            rows.append(json.loads(text) | place)
    monitor = fp.Monitor(rules(), object="vehicle", time="at", sequence=["kafka_partition", "kafka_offset"])
    return monitor.update(pa.Table.from_pylist(rows, SCHEMA))


def write_pipeline(home: Path, broker: Broker, rules_section: str, topic: str, trigger: str = "") -> Path:
    (home / "pipeline.toml").write_text(f"""
[source]
format = "kafka"
servers = "{broker.servers}"
topic = "{topic}"
schema = {{ vehicle = "string", at = "bigint", x = "double" }}
dead_letters_topic = "{topic}-dead"
[rules]
{rules_section}
[operator]
kind = "watch"
object = "vehicle"
time = "at"
buckets = 2
[sink]
format = "kafka"
servers = "{broker.servers}"
topic = "{topic}-events"
checkpoint = "checkpoint"
[trigger]
{trigger}
""")
    return home / "pipeline.toml"


class Running:
    """A pipeline in a thread of its own, started again if it fails, as a supervisor would."""

    def __init__(self, file: Path, spark: Any) -> None:
        self._file, self._spark, self._stop = file, spark, threading.Event()
        self.failures: list[str] = []
        self.summaries: list[Any] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.summaries.append(run(self._file, self._spark, out=StringIO(), stop=self._stop))
            except FencepostError as error:
                self.failures.append(str(error))
                time.sleep(1)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def until(holds: Any, what: str, seconds: float = 400) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.5)


def test_poison_and_a_killed_broker_lose_and_double_nothing(spark: Any, broker: Broker, tmp_path: Path) -> None:
    rules().publish(tmp_path / "published")
    produce(spark, broker, "moves", [*moves(0, 300), *POISON])
    file = write_pipeline(tmp_path, broker, 'directory = "published"', "moves", 'every = "200 milliseconds"')
    assert check(file) == []

    def ids(topic: str = "moves-events") -> Counter[str]:
        found = messages(spark, broker, topic)
        return Counter(json.loads(message["value"])["event_id"] for message in found)

    running = Running(file, spark)
    try:
        first = set(expected(spark, broker, "moves")["event_id"].to_pylist())
        until(lambda: set(ids()) == first, "the events of the first rows")
        produce(spark, broker, "moves", list(moves(100, 300)))
        broker.kill()  # while these rows are on their way
        time.sleep(2)
        broker.start()
        produce(spark, broker, "moves", list(moves(200, 300)))
        all_events = expected(spark, broker, "moves")
        assert len(set(all_events["event_id"].to_pylist()) - first) > 100
        until(lambda: set(ids()) == set(all_events["event_id"].to_pylist()), "those of the later ones")
        until(lambda: len(messages(spark, broker, "moves-dead")) >= len(POISON), "the dead letters")
    finally:
        running.stop()
    assert set(ids()) == set(all_events["event_id"].to_pylist()), running.failures
    told = {event["event_id"]: event for event in all_events.to_pylist()}
    for message in messages(spark, broker, "moves-events"):
        event = json.loads(message["value"])
        known = told[event["event_id"]]
        assert message["key"].decode() == event["object"] == known["object"]
        assert (event["detect"], event["time"], event["x"]) == (known["detect"], known["time"], known["x"])
    dead = messages(spark, broker, "moves-dead", headers=True)
    said = {
        ({header["key"]: header["value"].decode() for header in message["headers"]}["fault"], message["value"])
        for message in dead
    }
    assert said == {(fault, text and text.encode()) for fault, text in zip(FAULTS, POISON, strict=True)}
    if not running.failures:
        (summary,) = running.summaries
        assert (summary.rows, summary.dead_letters) == (906, len(POISON))


def send_changes(spark: Any, broker: Broker, changes: list[Any]) -> None:
    texts = [change if isinstance(change, str) else json.dumps(change) for change in changes]
    frame = spark.createDataFrame([("rule", text) for text in texts], "key string, value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("topic", "changes").save()


def test_rules_arrive_on_a_topic(spark: Any, broker: Broker, tmp_path: Path) -> None:
    insert = {"op": "insert", "id": 1, "condition": "x > 4", "detect": "enter"}
    send_changes(spark, broker, [insert, {"op": "insert", "id": 2, "condition": "x > 9"}, "garbage"])
    send_changes(spark, broker, [{"op": "delete", "id": 2}, {**insert, "op": "update", "condition": "x > 5"}])
    heard: list[Applied] = []

    def follow(target: fp.Rules, name: str) -> None:
        path = tmp_path / name
        follower = ChangeFollower(
            target,
            lambda: target.publish(path / "published", {"x": "double"}),
            path,
            {"x": "double"},
            path / "dead",
            heard.append,
        )
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 2}
        stream = kafka_reader(spark, broker.servers, "changes", options)
        writer = stream.writeStream.foreachBatch(follower.take).option("checkpointLocation", str(path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    target = fp.Rules()
    follow(target, "state")
    assert [(rule.id, rule.condition, rule.detect) for rule in target] == [(1, "x > 5", "enter")]
    versions = VersionDirectory(tmp_path / "state" / "published")
    assert versions.load().rules.ids.tolist() == [1]
    (letter,) = [json.loads(file.read_text()) for file in (tmp_path / "state" / "dead").iterdir()]
    assert letter["value"] == "garbage"
    assert sum(applied.dead for applied in heard) == 1
    # The last micro-batch again, as after a kill before Spark noted its end.
    before, count = target[1].version, len(heard)
    newest = max((tmp_path / "state" / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    published = versions.latest()
    follow(target, "state")
    assert (target[1].version, len(heard), versions.latest()) == (before, count, published)


def test_a_pipeline_follows_a_book_that_a_topic_changes(spark: Any, broker: Broker, tmp_path: Path) -> None:
    book = importlib.import_module("fencepost.book").RuleBook(f"sqlite:///{tmp_path}/rules.db")
    book.add(1, "x < 0", detect="enter")
    changes = f'[rules.changes]\nservers = "{broker.servers}"\ntopic = "book-changes"\ndead_letters = "bad"'
    produce(spark, broker, "places", [json.dumps({"vehicle": "v1", "at": 1, "x": 50.0})])
    change = json.dumps({"op": "insert", "id": 2, "condition": "x > 60", "detect": "enter"})
    produce(spark, broker, "book-changes", [change, "garbage"])
    file = write_pipeline(tmp_path, broker, f'book = "sqlite:///rules.db"\n{changes}', "places")
    running = Running(file, spark)

    def told() -> list[tuple[int, str]]:
        found = (json.loads(message["value"]) for message in messages(spark, broker, "places-events"))
        return sorted({(event["rule_id"], event["detect"]) for event in found})

    def move(at: int, x: float) -> None:
        produce(spark, broker, "places", [json.dumps({"vehicle": "v1", "at": at, "x": x})])

    try:
        rules = VersionDirectory(tmp_path / "checkpoint" / "fencepost" / "rules")
        until(lambda: rules.latest() is not None and 2 in rules.load().rules.ids.tolist(), "the rule of the topic")
        move(2, 70.0)
        until(lambda: (2, "enter") in told(), f"an event of it, {running.failures}")
        book.add(3, "x > 80", detect="enter")
        until(lambda: 3 in rules.load().rules.ids.tolist(), "the rule that a person added")
        move(3, 90.0)
        until(lambda: (3, "enter") in told(), f"an event of that, {running.failures}")
    finally:
        running.stop()
        book.close()
    assert sorted(rule.id for rule in book) == [1, 2, 3]
    (summary,) = running.summaries
    assert (summary.rule_changes, summary.bad_changes) == (1, 1)
    assert [json.loads(text)["value"] for text in next((tmp_path / "bad").iterdir()).read_text().splitlines()]


def test_the_example(broker: Broker) -> None:
    said = says("kafka_to_kafka", broker.servers).splitlines()
    assert said[-2:] == ["2: IBM enter rule 1 at 41.5", "3: IBM exit rule 1 at 52.0"]
    assert "4 rows" in said[0]
    assert "1 dead letter" in said[0]
