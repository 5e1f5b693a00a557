"""Change feeds of tables: recorded envelopes of Debezium, and rows of Delta's feed, become rules of a book."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fencepost.book import RuleBook
from fencepost.pipeline import check
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.runtime.changes import Applied, ChangeFollower, Message
from fencepost.pipeline.runtime.feeds import feed_arguments, read_debezium
from tests.pipeline.test_decoding import servers
from tests.pipeline.test_run import SCHEMA, WATCH, json_lines

__all__ = ["servers"]

TABLE = {"id": "alert", "equal": {"symbol": "symbol"}, "ranges": {"price": ("low", "high")}, "labels": ["owner"]}
ALLOWED = {"symbol": "string", "price": "double", "day": "timestamp"}
SOURCE = {"version": "3.0.2", "connector": "postgresql", "name": "rules", "db": "desk", "table": "alerts", "lsn": 3}


def row(alert: Any, low: Any, high: Any, symbol: str = "IBM", owner: str | None = "ann") -> dict[str, Any]:
    return {"alert": alert, "symbol": symbol, "low": low, "high": high, "owner": owner}


def envelope(op: str, before: Any, after: Any) -> str:
    """As Debezium writes it with schemas.enable=false."""
    return json.dumps(
        {"before": before, "after": after, "source": SOURCE, "transaction": None, "op": op, "ts_ms": 1736932312000}
    )


def wrapped(op: str, before: Any, after: Any, fields: list[dict[str, Any]]) -> str:
    """As Debezium writes it with schemas.enable=true."""
    sides = [
        {"type": "struct", "optional": True, "name": "rules.public.alerts.Value", "field": side, "fields": fields}
        for side in ("before", "after")
    ]
    schema = {"type": "struct", "optional": False, "name": "rules.public.alerts.Envelope", "fields": sides}
    return json.dumps({"schema": schema, "payload": json.loads(envelope(op, before, after))})


class Followed:
    """A book, and what it heard."""

    def __init__(self, home: Path, format: Any, table: dict[str, Any]) -> None:
        self.book = RuleBook(f"sqlite:///{home}/rules.db")
        self.heard: list[Applied] = []
        self.home, self._batch = home, 0
        self._follower = ChangeFollower(
            self.book, lambda: None, home / "state", ALLOWED, home / "dead", self.heard.append, format, table
        )

    def take(self, *values: Any) -> Applied:
        messages = [
            Message(f"alerts/0/{n}", json.dumps(value), value)
            if isinstance(value, dict)
            else Message(f"alerts/0/{n}", value)
            for n, value in enumerate(values)
        ]
        self._follower.apply(messages, self._batch)
        self._batch += 1
        return self.heard[-1]

    def rules(self) -> dict[int, str]:
        return {rule.id: str(rule.condition) for rule in self.book}


@pytest.fixture
def followed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Followed]:
    made = Followed(tmp_path, *request.param)
    yield made
    made.book.close()


@pytest.mark.parametrize("followed", [("debezium", TABLE)], indirect=True)
def test_envelopes_of_debezium(followed: Followed) -> None:
    snapshot = [envelope("r", None, row(1, 40, 50)), envelope("r", None, row(2, 10, None, "AAPL"))]
    assert followed.take(*snapshot) == Applied(2, 0, 0)
    assert followed.rules() == {
        1: "symbol = 'IBM' AND price >= 40 AND price < 50",
        2: "symbol = 'AAPL' AND price >= 10",
    }
    assert followed.book[1].labels == {"owner": "ann"}
    followed.book.pause(1)
    changes = [
        envelope("u", row(1, 40, 50), row(1, 40, 55.5)),
        envelope("c", None, row(3, 1, 2)),
        envelope("d", row(2, 10, None, "AAPL"), None),
        None,
        envelope("u", None, row(3, 1, 3)),
    ]
    assert followed.take(*changes) == Applied(3, 2, 0), "a tombstone is no change, and of two the last counts"
    assert followed.rules() == {
        1: "symbol = 'IBM' AND price >= 40.0 AND price < 55.5",
        3: "symbol = 'IBM' AND price >= 1 AND price < 3",
    }
    assert not followed.book[1].enabled, "who paused it decides when it goes on"
    version = followed.book[3].version
    assert followed.take(changes[-1], envelope("d", row(9, 1, 2), None)) == Applied(0, 2, 0)
    assert followed.book[3].version == version


@pytest.mark.parametrize("followed", [("debezium", TABLE)], indirect=True)
def test_what_is_no_envelope_is_a_dead_letter(followed: Followed) -> None:
    bad = [
        "garbage",
        "[1]",
        '{"op": "t", "source": {}}',
        envelope("c", None, None),
        envelope("d", None, None),
        envelope("c", None, {"alert": 5, "symbol": "IBM"}),
        envelope("c", None, row(6, 9, 3)),
        envelope("c", None, row(7, "forty", 50)),
        envelope("c", None, row(None, 1, 2)),
        envelope("c", None, row(2**70, 1, 2)),
    ]
    assert followed.take(*bad, envelope("c", None, row(1, 40, 50))) == Applied(1, 0, len(bad))
    assert list(followed.rules()) == [1], "a good one beside them counts"
    letters = {letter["origin"]: letter["fault"] for letter in json_lines(followed.home / "dead")}
    said = [letters[f"alerts/0/{number}"] for number in range(len(bad))]
    assert said[0].startswith("No JSON")
    assert said[2].startswith("op 't'; expected an envelope with op: c, r, u, d")
    assert said[4].startswith("op 'd' without before")
    assert "without low" in said[5]
    assert "an empty range" in said[6]
    assert "low" in said[7]


def test_a_schema_says_what_numbers_and_texts_mean() -> None:
    fields: list[dict[str, Any]] = [
        {"type": "int64", "field": "alert"},
        {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
            "field": "low",
        },
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "since"},
        {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
        {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "field": "until"},
    ]
    after = {"alert": 1, "low": "D6A=", "since": 1736932312000001, "day": 20103, "until": "2025-01-15T10:11:52Z"}
    change = read_debezium(wrapped("c", None, after, fields))
    assert change is not None
    assert str(change.row["low"]) == "40.00"
    assert change.row["since"] == datetime(2025, 1, 15, 9, 11, 52, 1, tzinfo=UTC)
    assert str(change.row["day"]) == "2025-01-15"
    assert change.row["until"] == datetime(2025, 1, 15, 10, 11, 52, tzinfo=UTC)
    assert read_debezium('{"schema": null, "payload": null}') is None


@pytest.mark.parametrize("followed", [("debezium", {**TABLE, "ranges": {"day": ("low", "high")}})], indirect=True)
def test_times_of_a_schema_become_bounds(followed: Followed) -> None:
    times = [{"type": "int64", "name": "io.debezium.time.Timestamp", "field": name} for name in ("low", "high")]
    assert followed.take(wrapped("c", None, row(1, 1736932312000, None), times)) == Applied(1, 0, 0)
    assert followed.rules() == {1: "symbol = 'IBM' AND day >= TIMESTAMP '2025-01-15 09:11:52Z'"}


@pytest.mark.parametrize("followed", [("debezium", TABLE)], indirect=True)
def test_texts_are_names(followed: Followed) -> None:
    assert followed.take(*(envelope("c", None, row(name, 1, 2)) for name in ("a", "b"))) == Applied(2, 0, 0)
    assert {rule.name for rule in followed.book} == {"a", "b"}
    assert followed.take(envelope("d", row("a", 1, 2), None), envelope("u", None, row("b", 1, 9))) == Applied(2, 0, 0)
    assert [(rule.name, str(rule.condition)) for rule in followed.book] == [
        ("b", "symbol = 'IBM' AND price >= 1 AND price < 9")
    ]


@pytest.mark.parametrize("followed", [("delta", TABLE)], indirect=True)
def test_rows_of_deltas_change_data_feed(followed: Followed) -> None:
    def changed(kind: str, version: int, **columns: Any) -> dict[str, Any]:
        at = "2025-01-15T10:11:52Z"
        return {**columns, "_change_type": kind, "_commit_version": version, "_commit_timestamp": at}

    first = [changed("insert", 1, **row(1, 40.0, 50.0)), changed("insert", 1, **row(2, 1.0, 2.0))]
    assert followed.take(*first) == Applied(2, 0, 0)
    later = [
        changed("update_preimage", 2, **row(1, 40.0, 50.0)),
        changed("update_postimage", 2, **row(1, 40.0, 60.0)),
        changed("delete", 3, **row(2, 1.0, 2.0)),
        changed("merge", 3, **row(3, 1.0, 2.0)),
    ]
    assert followed.take(*later) == Applied(2, 1, 1)
    assert followed.rules() == {1: "symbol = 'IBM' AND price >= 40.0 AND price < 60.0"}


def pipeline(home: Path, changes: str) -> Path:
    (home / "in").mkdir(exist_ok=True)
    RuleBook(f"sqlite:///{home}/rules.db").close()
    (home / "pipeline.toml").write_text(f"""
[source]
format = "json"
path = "in"
{SCHEMA}
[rules]
book = "sqlite:///rules.db"
[rules.changes]
{changes}
[operator]
{WATCH}
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[session]
packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "io.delta:delta-spark_2.13:4.0.0"]
""")
    return home / "pipeline.toml"


def test_settings_of_feeds(tmp_path: Path, servers: str) -> None:
    topic = f'servers = "{servers}"\ntopic = "alerts"\n'
    mapped = 'id = "alert"\nequal = "symbol"\nrange = ["price=low,high"]\nlabel = ["owner"]\noption = "detect=kind"'
    good = pipeline(tmp_path, f'format = "debezium"\n{topic}{mapped}')
    assert check(good) == []
    assert feed_arguments(read_pipeline(good)[0]) == {**TABLE, "options": {"detect": "kind"}}
    assert check(pipeline(tmp_path, f'format = "delta"\npath = "alerts"\n{mapped}')) == []
    assert check(pipeline(tmp_path, topic)) == []
    assert check(pipeline(tmp_path, f'format = "json"\n{topic}')) == []
    for changes, got in (
        (f'format = "debezium"\n{topic}', "a feed without equal, range and condition"),
        (f'format = "debezium"\n{topic}range = "price"', "range price"),
        (f'format = "debezium"\n{topic}range = "price=low,high"\noption = "colour=kind"', "options={'colour': 'kind'}"),
        (f'format = "debezium"\n{mapped}', "no servers"),
        (f'format = "delta"\n{mapped}', "no path and no table"),
        (f'format = "delta"\npath = "a"\ntable = "b"\n{mapped}', "both path and table"),
        (f'format = "maxwell"\n{topic}', "'maxwell'"),
        (f'{topic}equal = "symbol"', "the key equal"),
    ):
        found = [fault.got for fault in check(pipeline(tmp_path, changes))]
        assert any(got in each for each in found), (changes, found)
