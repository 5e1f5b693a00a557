"""The pages of a pipeline on a real Spark: a rule that is added in the page fires in the sink."""

import html
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.book import RuleBook
from fencepost.console.pipelined import open_console
from fencepost.console.served import ServiceSource
from fencepost.console.stream_rows import StreamRows
from fencepost.errors import FencepostError
from fencepost.pipeline import run
from fencepost.pipeline.file.document import read_pipeline
from fencepost.published import VersionDirectory
from fencepost.service.service import Service
from fencepost.service.settings import Settings

PIPELINE = """
[source]
format = "json"
path = "in"
schema = { symbol = "string", price = "double", at = "bigint" }
[rules]
book = "sqlite:///rules.db"
[operator]
kind = "watch"
object = "symbol"
time = "at"
buckets = 2
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
every = "200 milliseconds"
"""


def put(home: Path, name: str, *rows: dict[str, Any]) -> None:
    draft = home / "in" / f".{name}"
    draft.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    draft.rename(home / "in" / f"{name}.json")


def wait_for(client: httpx.Client, path: str, text: str) -> str:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        found = client.get(path).text
        if text in found:
            return found
        time.sleep(0.3)
    raise AssertionError(f"{text} is not on {path}: {found}")


@contextmanager
def running(home: Path, spark: Any) -> Iterator[httpx.Client]:
    """A pipeline with its console; a client that has entered."""
    said: list[str] = []
    faults: list[BaseException] = []
    stop = threading.Event()

    def beside(file: Any, progress: Any, rules: str, _: Any) -> Any:
        return open_console(file, progress, rules, said.append)

    def work() -> None:
        try:
            run(home / "pipeline.toml", spark, out=StringIO(), stop=stop, beside=beside)
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        while not said and thread.is_alive():
            time.sleep(0.05)
        assert not faults, faults
        place = Path(said[0].rpartition(" is in ")[2])
        assert (place.parent.parent, place.stat().st_mode & 0o077) == (home / "checkpoint", 0)
        address = place.read_text().strip()
        base = address.partition("/?")[0]
        assert said[0].startswith(f"console at {base}; "), "a log does not open the pages"
        with httpx.Client(base_url=base, follow_redirects=True, headers={"origin": base}, timeout=30) as client:
            assert client.get("/").status_code == 401
            assert client.get(address).status_code == 200
            yield client
    finally:
        stop.set()
        thread.join()
    assert not faults, faults
    assert not place.exists()


def test_a_rule_is_added_in_the_page_and_its_events_appear(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    with RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") as book:
        book.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    put(tmp_path, "a", {"symbol": "IBM", "price": 39.0, "at": 1}, {"symbol": "IBM", "price": 41.5, "at": 2})
    with running(tmp_path, spark) as client:
        wait_for(client, "/events", "39 → 41.5")
        overview = wait_for(client, "/", "2 in all")
        assert "are not shown" not in overview
        known = client.get("/objects").text
        assert "those that had an event of late" in known
        assert "41.5" in known.split(">IBM</a>")[1]
        about = client.get("/object?name=IBM").text
        assert 'class="line s0"' in about
        assert '/rules/1">' in about.split("Rules it is inside")[1]
        fields = {"condition": "symbol = 'SAP' AND price > 90", "detect": "enter", "name": "sap high"}
        assert "The rule was added." in client.post("/rules/add", data=fields).text
        wait_for(client, "/versions", ">2</a>")
        put(tmp_path, "b", {"symbol": "SAP", "price": 95.0, "at": 3})
        assert "sap high" in wait_for(client, "/events?object=SAP", "</span> 95</span>")
        found = client.get("/rules?holds=symbol+%3D+IBM%2C+price+%3D+47").text
        assert "BETWEEN 40 AND 50" in found
        assert "sap high" not in found
        event = client.get("/events?object=SAP").text.partition("/events/")[2]
        assert client.get("/rules/1").status_code == 200
        assert event
        for path in ("/objects", "/versions/1", "/versions/diff?from=1&to=2", "/rules/new"):
            assert client.get(path).status_code == 200


ROWS = [
    {"symbol": symbol, "price": float(38 + (7 * step + 3 * place) % 9), "at": step}
    for step in range(1, 60)
    for place, symbol in enumerate(["IBM", "HP", "SAP"])
    if (step + place) % 3
]


def test_conditions_are_tried_and_why_not_is_answered_as_a_service_does(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows through a pipeline and into a service: the same trials, and the same standing."""
    monkeypatch.setattr("fencepost.console.stream_rows._FRESH", 0.0)
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    rules: list[tuple[int, str, dict[str, Any]]] = [
        (1, "price BETWEEN 40 AND 43", {}),
        (2, "symbol = 'IBM' AND price > 44", {"for_": 3}),
        (3, "price > 100", {}),
    ]
    with RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") as book:
        for id, condition, options in rules:
            book.add(id, condition, detect="enter,exit", **options)
    half = len(ROWS) // 2
    put(tmp_path, "a", *ROWS[:half], {"symbol": "IBM"})  # without a time: no row
    with (
        running(tmp_path, spark) as client,
        Service(Settings(data=tmp_path / "service", object="symbol", time="at", types={"price": "double"})) as service,
    ):
        wait_for(client, "/events", "HP")
        put(tmp_path, "b", *ROWS[half:])
        for id, condition, options in rules:
            damping = {"for": options["for_"]} if options else {}
            service.rules.add({"id": id, "condition": condition, "detect": "enter,exit", **damping}, "ann")
        service.settle()
        service.observe(ROWS)
        theirs = ServiceSource(service)
        with RuleBook(f"sqlite:///{tmp_path}/rules.db", author="ann") as book:
            versions = VersionDirectory(tmp_path / "checkpoint" / "fencepost" / "rules")
            stream = StreamRows(read_pipeline(tmp_path / "pipeline.toml")[0], versions, book)
            end = time.monotonic() + 90
            while (kept := stream.kept()) != f"the last {len(ROWS)} rows of the source, since 1":
                assert time.monotonic() < end, kept
            monkeypatch.undo()
            known = {"detect": "enter,exit"}
            for old in (None, book[1], book[2]):
                for condition, options in (("price > 41", {}), ("price < 45", {"for_": 1}), ("symbol = 'HP'", {})):
                    own = stream.try_condition(old, condition, {**known, **options})
                    assert own == theirs.rows.try_condition(old, condition, {**known, **options})
                    assert own.new.total or condition.startswith("symbol")
            with pytest.raises(FencepostError, match="colum"):
                stream.try_condition(None, "price > AND", known)
            for id, _, _ in rules:
                for name in ("IBM", "HP", "SAP"):
                    assert stream.why_not(book[id], name) == theirs.objects.why_not(id, name)
        theirs.close()
        tried = client.post("/rules/try", data={"condition": "price > 41", "detect": ["enter", "exit"]}).text
        assert f"On the last {len(ROWS)} rows" in tried
        answer = client.get("/object?name=SAP&rule=3").text
        assert "Found in the last" in answer
        assert service.why_not(3, "SAP").text in html.unescape(answer)
        assert "No rule has the id or the name" in client.get("/object?name=SAP&rule=77").text
        assert client.get("/object?name=nobody").status_code == 404
        assert ">SAP</a>" in client.get("/objects?q=SAP").text
