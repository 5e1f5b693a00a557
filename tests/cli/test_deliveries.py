"""The commands for events that a webhook did not take."""

import json
from pathlib import Path

from typer.testing import CliRunner

from fencepost.cli.app import app
from fencepost.deliveries.hook import Hook
from fencepost.deliveries.sender import Sender
from fencepost.deliveries.spool import Spool
from fencepost.errors import FencepostError
from tests.deliveries.receivers import receiver
from tests.deliveries.test_deliveries import events, put


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["deliveries", *words])
    assert done.exit_code == 0, done
    return done.output


def test_events_that_were_not_taken_are_listed_sent_again_and_dropped(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "fencepost" / "deliveries")
    put(spool, 0, events(6))
    with receiver(lambda body: 400 if body["number"] in (2, 3) else 200) as heard:
        sender = Sender(spool, Hook(heard.url)).start()
        sender.drain()
        sender.stop()
    place = str(tmp_path)
    listed = run("list", place)
    assert "to be sent: 0 events; not taken: 2 events" in listed
    assert "id3\tobject 3\t1\t400 Bad Request" in listed
    assert "2 times: 400 Bad Request" in listed
    found = json.loads(run("list", place, "--json"))
    assert sorted(each["event"]["number"] for each in found["undelivered"]) == [2, 3]  # two objects: in any order
    assert json.loads(run("retry", place, "--json")) == {"again": 2}
    assert json.loads(run("list", place, "--json")) == {"waiting": 2, "undelivered": []}
    with receiver(lambda body: 400 if body["number"] == 2 else 200) as heard:
        sender = Sender(spool, Hook(heard.url)).start()
        sender.drain()
        sender.stop()
    assert [body["number"] for body in heard.bodies] == [3]
    assert "1 event deleted" in run("drop", place)
    assert json.loads(run("list", place, "--json")) == {"waiting": 0, "undelivered": []}


def test_a_place_without_deliveries_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["deliveries", "list", str(tmp_path)])
    assert isinstance(done.exception, FencepostError)
    assert "the checkpoint of a pipeline with a webhook" in str(done.exception)
