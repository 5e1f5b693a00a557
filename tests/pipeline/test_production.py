"""The unit file of the page on production: its commands are run, killed and stopped as systemd would."""

import configparser
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import urllib.request
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fencepost as fp
from fencepost.book import RuleBook
from fencepost.pipeline import run
from fencepost.pipeline.file.document import read_pipeline
from fencepost.pipeline.runtime.session import settings_in_zone
from fencepost.pipeline.status import read_status
from tests.deliveries.receivers import receiver
from tests.docs.blocks import blocks_of
from tests.pipeline.test_run import expected, line, rules, ticks

PAGE = "docs/production.md"


def unit() -> configparser.ConfigParser:
    [text] = [block.text for block in blocks_of(PAGE) if block.language == "ini"]
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return parser


@pytest.mark.slow
def test_the_unit_is_started_killed_started_again_and_stopped(tmp_path: Path) -> None:
    service = unit()["Service"]
    assert (service["KillMode"], service["Restart"], service["SuccessExitStatus"]) == ("mixed", "on-failure", "3")
    [text] = [block.text for block in blocks_of(PAGE) if block.language == "toml"]
    several = '[[sink]]\nformat = "json"\npath = "/var/lib/fencepost/copy/"\n[[sink]]\nformat = "webhook"\n'
    several += 'url = "http://ann:hush-hush@127.0.0.1:9/"\n[trigger]'
    text = text.replace("[sink]", "[[sink]]").replace("[trigger]", several).replace(":9464", ":0")
    (tmp_path / "pipeline.toml").write_text(text.replace("/var/lib/fencepost", str(tmp_path)))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "a.json").write_text("\n".join(map(line, ticks())) + "\n")
    rules().publish(tmp_path / "published")

    def words(name: str) -> list[str]:
        program, *rest = service[name].replace("\\\n", " ").replace("/etc/fencepost", str(tmp_path)).split()
        assert program.endswith("/fencepost")
        return [sys.executable, "-m", "fencepost", *rest]

    def start(name: str) -> "subprocess.Popen[bytes]":
        with (tmp_path / name).open("wb") as out, (tmp_path / "answer").open("wb") as answer:
            return subprocess.Popen(  # noqa: S603
                words("ExecStart"), stdout=answer, stderr=out, start_new_session=True, umask=int(service["UMask"], 8)
            )

    def until(word: str, log: str, process: "subprocess.Popen[bytes]") -> str:
        deadline = time.monotonic() + 240
        while word not in (said := (tmp_path / log).read_text()):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.2)
        return said

    subprocess.run(words("ExecStartPre"), check=True, capture_output=True)  # noqa: S603
    process = start("first")
    until("reading; the first", "first", process)
    running = read_status(tmp_path / "checkpoint")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)
    killed = read_status(tmp_path / "checkpoint")
    assert (running["state"] in ("starting", "running"), killed["state"]) == (True, "killed")

    process = start("second")
    said = until('"events": 5', "second", process)
    [address] = [word for word in said.split() if word.startswith("http://127.0.0.1:")]
    assert b"fencepost_rows_total 6.0" in urllib.request.urlopen(address.rstrip('",}')).read()  # noqa: S310
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 0
    lines: list[Any] = [json.loads(each) for each in (tmp_path / "second").read_text().splitlines()]
    assert "SIGTERM: stopping" in [each["message"] for each in lines]
    assert {each["level"] for each in lines} <= {"info", "warning"}
    assert read_status(tmp_path / "checkpoint")["state"] == "stopped"
    ids = sorted(expected()["event_id"].to_pylist())
    assert sorted(pq.read_table(tmp_path / "alerts")["event_id"].to_pylist()) == ids
    own = tmp_path / "checkpoint" / "fencepost"
    for name in ("spark.log", "spark.log.1", "status.json", "pipeline.json"):
        assert stat.S_IMODE((own / name).stat().st_mode) == 0o600, name
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "pipeline.toml"]
    assert not [path for path in written if b"hush-hush" in path.read_bytes()]


BACKED_UP = """
[source]
format = "json"
path = "in"
schema = { symbol = "string", price = "double", ts = "timestamp" }
[rules]
book = "sqlite:///rules.db"
[operator]
kind = "watch"
object = "symbol"
time = "ts"
buckets = 1
[sink]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
[trigger]
once = true
"""


@pytest.mark.slow
@pytest.mark.parametrize("sinks", ["only", "several"])
def test_what_was_backed_up_is_restored(spark: Any, tmp_path: Path, sinks: str) -> None:
    """As the page says: checkpoint and book together, with the files of an only sink; those of several stay."""
    saved = ["checkpoint", "rules.db", *(["out"] if sinks == "only" else [])]
    (tmp_path / "in").mkdir()
    second = '[[sink]]\nname = "copy"\nformat = "json"\npath = "copy"\n[trigger]'
    several = BACKED_UP.replace("[sink]", "[[sink]]").replace("[trigger]", second)
    (tmp_path / "pipeline.toml").write_text(BACKED_UP if sinks == "only" else several)
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        for rule in rules():
            book.add(rule.id, str(rule.condition), detect=rule.detect, name=rule.name, labels=rule.labels)
    rows = ticks()

    def read(name: str, some: list[dict[str, Any]]) -> None:
        (tmp_path / "in" / name).write_text("".join(f"{line(row)}\n" for row in some))
        run(tmp_path / "pipeline.toml", spark, out=StringIO())

    def copy(start: Path, end: Path) -> None:
        for name in saved:
            if (start / name).is_dir():
                shutil.rmtree(end / name, ignore_errors=True)
                shutil.copytree(start / name, end / name)
            else:
                shutil.copy(start / name, end / name)

    read("a.json", rows[:2])
    (tmp_path / "backup").mkdir()
    copy(tmp_path, tmp_path / "backup")
    read("b.json", rows[2:4])
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.remove(1)  # and this is undone
    read("c.json", rows[4:5])
    copy(tmp_path / "backup", tmp_path)
    read("d.json", rows[5:])
    found = pq.read_table(tmp_path / "out", columns=["event_id"])["event_id"].to_pylist()
    assert sorted(found) == sorted(expected()["event_id"].to_pylist())


NEW_YORK = """
[source]
format = "json"
path = "in"
schema = { symbol = "string", price = "double", ts = "timestamp", seen = "timestamp" }
[rules]
directory = "published"
[operator]
kind = "watch"
object = "symbol"
time = "ts"
buckets = 1
[sink]
format = "webhook"
url = "URL"
retries = 0
checkpoint = "checkpoint"
[trigger]
once = true
"""


def test_a_session_takes_the_zone_of_its_rules(tmp_path: Path) -> None:
    def zone(text: str) -> str:
        (tmp_path / "pipeline.toml").write_text(text)
        file, _ = read_pipeline(tmp_path / "pipeline.toml")
        return settings_in_zone(file)["spark.sql.session.timeZone"]

    for place, name in (("published", "America/New_York"), ("other", "UTC")):
        rules = fp.Rules(zone=name)
        rules.add(1, "price > 1")
        rules.publish(tmp_path / place)
    with fp.RuleBook(f"sqlite:///{tmp_path}/rules.db", zone="Asia/Tokyo") as book:
        book.add(1, "price > 1")
    text = NEW_YORK.replace("URL", "http://127.0.0.1:9/")
    assert zone(text) == "America/New_York"
    assert zone(text.replace("published", "other")) == "UTC"
    assert zone(text.replace('directory = "published"', 'book = "sqlite:///rules.db"')) == "Asia/Tokyo"
    own = '[session]\nsettings = { "spark.sql.session.timeZone" = "Europe/Berlin" }\n'
    assert zone(text + own) == "Europe/Berlin"


@pytest.mark.slow
def test_what_was_not_delivered_is_exit_code_3_and_times_are_those_of_the_rules(tmp_path: Path) -> None:
    rules = fp.Rules(zone="America/New_York")
    rules.add(1, "price BETWEEN 40 AND 50 AND seen >= TIMESTAMP '2024-01-01 09:30:00'", detect="enter,exit")
    rules.publish(tmp_path / "published")
    (tmp_path / "in").mkdir()
    clocks = {39.0: "09:00:00", 41.0: "09:15:00", 42.0: "09:30:00", 60.0: "10:00:00"}
    rows = [{"symbol": "IBM", "price": price, "ts": f"2024-01-01T{clock}"} for price, clock in clocks.items()]
    (tmp_path / "in" / "a.json").write_text("".join(json.dumps({**row, "seen": row["ts"]}) + "\n" for row in rows))
    with receiver(lambda body: 422 if body["detect"] == "exit" else 200) as heard:
        (tmp_path / "pipeline.toml").write_text(NEW_YORK.replace("URL", heard.url))
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "fencepost", "run", str(tmp_path / "pipeline.toml"), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 3, done
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["posted"], summary["undelivered"]) == (4, 1, 1)
    assert "1 event not delivered; the last answer: " in done.stderr
    assert [(body["detect"], body["time"]) for body in heard.bodies] == [("enter", "2024-01-01T09:30:00.000-05:00")]
