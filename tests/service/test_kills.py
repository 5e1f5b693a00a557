"""A service that is killed at any moment: clients count what they were told, and nothing is lost or doubled."""

import json
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.service.processes import Process, running

pytestmark = pytest.mark.slow

RULES = [f"price BETWEEN {low} AND {low + 12}" for low in range(0, 100, 5)]


class Sender(threading.Thread):
    """Sends rows of its own objects, each call until it is answered, and keeps what it was told."""

    def __init__(self, process: Process, number: int, rows: int) -> None:
        super().__init__()
        self.process, self.number, self.rows = process, number, rows
        self.done = threading.Event()
        self.sent: list[dict[str, Any]] = []
        self.told: dict[int, list[dict[str, Any]]] = {}
        self.error: BaseException | None = None

    def run(self) -> None:
        generator, second = random.Random(self.number), 0  # noqa: S311 (a test)
        try:
            while not self.done.is_set():
                rows = []
                for _ in range(self.rows):
                    second += 1
                    at = f"2026-01-05T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
                    name = f"{self.number}-{generator.randrange(3)}"
                    rows.append({"object": name, "time": at, "price": generator.uniform(0, 100)})
                self.send(rows, f"{self.number}-{second}")
                self.sent += rows
        except BaseException as error:
            self.error = error

    def send(self, rows: list[dict[str, Any]], key: str) -> None:
        body = "\n".join(map(json.dumps, rows))
        while True:
            try:
                headers = {"Authorization": f"Bearer {self.process.token}", "Idempotency-Key": key}
                url = f"{self.process.url}/v1/observations?wait=true"
                answer = httpx.post(url, content=body, headers=headers, timeout=30.0)
                if answer.status_code == 200:
                    self.told[answer.json()["position"]] = answer.json()["events"]
                    return
                assert answer.status_code == 503, answer.text
            except httpx.TransportError:
                time.sleep(0.05)


class Reader(threading.Thread):
    """Follows the stream, and goes on behind the last event that it has seen."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process, self.done, self.seen = process, threading.Event(), list[dict[str, Any]]()

    def run(self) -> None:
        while not self.done.is_set():
            last = str(self.seen[-1]["position"]) if self.seen else "0"
            headers = {"Authorization": f"Bearer {self.process.token}", "Last-Event-ID": last}
            try:
                with httpx.stream(
                    "GET", f"{self.process.url}/v1/events/stream", headers=headers, timeout=2.0
                ) as stream:
                    for line in stream.iter_lines():
                        if line.startswith("data: "):
                            self.seen.append(json.loads(line.removeprefix("data: ")))
                        if self.done.is_set():
                            return
            except httpx.TransportError:
                time.sleep(0.05)


def test_nothing_is_lost_or_doubled_when_it_is_killed(tmp_path: Path) -> None:
    generator = random.Random(7)  # noqa: S311 (a test)
    with running(tmp_path) as process:
        with process.client() as client:
            for condition in RULES:
                assert (
                    client.post("/v1/rules", json={"condition": condition, "detect": "enter,exit"}).status_code == 201
                )
        senders = [Sender(process, number, rows) for number, rows in enumerate((1, 1, 40))]
        reader = Reader(process)
        for thread in (*senders, reader):
            thread.start()
        for _ in range(4):
            time.sleep(generator.uniform(0.2, 1.5))
            process.kill()
            process.start()
        time.sleep(0.5)
        for sender in senders:
            sender.done.set()
        for sender in senders:
            sender.join()
            assert sender.error is None, sender.error
        with process.client() as client:
            stored, after = list[dict[str, Any]](), 0
            while page := client.get("/v1/events", params={"after": after, "limit": 1000}).json():
                stored, after = stored + page["events"], page["next"]
                if not page["events"]:
                    break
        deadline = time.monotonic() + 20
        while len(reader.seen) < len(stored) and time.monotonic() < deadline:
            time.sleep(0.05)
        reader.done.set()
        process.kill()
        reader.join()
    assert [event["position"] for event in stored] == list(range(1, len(stored) + 1))
    assert reader.seen == stored
    told = {event["position"]: event for sender in senders for events in sender.told.values() for event in events}
    assert {position: _same(event) for position, event in told.items()} == {
        event["position"]: _same(event) for event in stored if event["position"] in told
    }
    for sender in senders:
        mine = [event["event_id"] for event in stored if event["object"].startswith(f"{sender.number}-")]
        assert sorted(mine) == sorted(_expected(sender.sent))
        assert sender.sent, "it has sent something"


def _same(event: dict[str, Any]) -> dict[str, Any]:
    return {name: event[name] for name in ("event_id", "object", "rule_id", "detect", "price", "time")}


def _expected(rows: list[dict[str, Any]]) -> list[str]:
    """The ids of the events that a Monitor finds, which knows nothing of the service."""
    from datetime import datetime

    rules = Rules()
    for number, condition in enumerate(RULES, start=1):
        rules.add(number, condition, detect="enter,exit")
    monitor = Monitor(rules, object="object", time="time")
    given = [{**row, "time": datetime.fromisoformat(row["time"])} for row in rows]
    return [str(id) for id in monitor.update(given)["event_id"].to_pylist()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_and_saves(tmp_path: Path, number: signal.Signals) -> None:
    process = Process(tmp_path / "data")
    process.start()
    with process.client() as client:
        client.post("/v1/observations", json={"object": "IBM", "price": 1}).raise_for_status()
        with client.stream("GET", "/v1/events/stream") as stream:
            lines = stream.iter_lines()
            next(lines)
            began = time.monotonic()
            said = process.stop(number)
            assert time.monotonic() - began < 4.5, "it waited for the stream"
            list(lines)  # it ends as an answer does, not in the middle
    assert "everything is saved" in said
    assert "Traceback" not in said
    assert list((tmp_path / "data" / "saves").glob("*.save"))
