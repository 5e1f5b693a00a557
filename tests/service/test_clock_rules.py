"""Rules that the clock of a service cannot do with: refused where they come, and never in the way of others."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fencepost.book import RuleBook
from tests.service.services import Client, serving

GOOD = {"condition": "price > 40", "detect": "enter,exit"}
SILENT = {"condition": "price > 1", "detect": "silent"}
COUNTED = {"condition": "price > 1", "detect": "enter,exit", "for": 5}
TIMED = {"condition": "price > 1", "detect": "enter,exit", "for": "5 minutes"}
EXPIRING = {"condition": "price > 1", "detect": "enter,exit", "expires": "2030-01-01T00:00:00Z"}
AT = {"object": "IBM", "price": 41.5, "time": "2026-01-05T09:31:00Z"}
NUMBERED = {"object": "IBM", "price": 41.5, "time": 10}
BEYOND: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "silence": (SILENT, AT, "detects silent, but there is no timeout"),
    "number": (COUNTED, AT, "length of 5, and time as timestamp"),
    "duration": (TIMED, NUMBERED, "length of 0:05:00, and time as bigint"),
    "expiry": (EXPIRING, NUMBERED, "which expires, and time as bigint"),
}


def told(call: Client) -> list[tuple[str, int]]:
    return [(event["detect"], event["rule_id"]) for event in call("GET", "/v1/events").json()["events"]]


@pytest.mark.parametrize("kind", BEYOND)
def test_a_rule_is_refused_before_it_is_stored(tmp_path: Path, kind: str) -> None:
    rule, row, message = BEYOND[kind]
    with serving(tmp_path, tick=None) as service:
        call = Client(service)
        assert call("POST", "/v1/observations?wait=true", json=[row]).status_code == 200
        refused = call("POST", "/v1/rules", json={"id": 7, **rule})
        assert refused.status_code == 422
        assert refused.json()["message"].startswith("Rule 7")
        assert message in refused.json()["message"]
        assert call("PUT", "/v1/rules/7", json=rule).status_code == 422
        assert call("GET", "/v1/rules").json()["rules"] == []
        assert call("POST", "/v1/rules", json={"id": 1, **GOOD}).status_code == 201
        assert call("PUT", "/v1/rules/1", json=rule).status_code == 422
        assert call("GET", "/v1/rules/1").json()["condition"] == GOOD["condition"]
        assert call("PUT", "/v1/rules/1", json={**GOOD, "condition": "price > 30"}).status_code == 200
        assert [each.version for each in service.versions()] == [2, 1]


@pytest.mark.parametrize("kind", BEYOND)
def test_a_rule_that_comes_another_way_is_named_and_the_others_are_published(tmp_path: Path, kind: str) -> None:
    rule, row, message = BEYOND[kind]
    with serving(tmp_path, tick=None) as service:
        call = Client(service)
        call("POST", "/v1/observations?wait=true", json=[{**row, "price": 1.0}])
        call("POST", "/v1/rules", json={"id": 1, **GOOD})
        with RuleBook(service.settings.book_url) as book:
            options = {name: value for name, value in rule.items() if name not in ("condition", "for")}
            book.add(7, rule["condition"], for_=rule.get("for"), **options)
        preview = call("POST", "/v1/publish?dry_run=true").json()
        assert [fault["id"] for fault in preview["faulty"]] == [7]
        published = call("POST", "/v1/publish").json()
        [fault] = published["faulty"]
        assert fault["id"] == 7
        assert message in fault["reason"]
        assert service.metrics()["faulty"] == 1
        assert call("POST", "/v1/rules", json={"id": 2, **GOOD, "condition": "price > 30"}).status_code == 201
        assert call("DELETE", "/v1/rules/2").status_code == 200
        assert call("POST", "/v1/rules/1:pause").status_code == 200
        assert call("POST", "/v1/rules/1:resume").status_code == 200
    with serving(tmp_path, tick=None) as service:
        call = Client(service)
        assert call("POST", "/v1/rules", json={"id": 3, **GOOD, "condition": "price > 20"}).status_code == 201
        assert service.metrics()["faulty"] == 1
        later = {**row, "time": 20 if row is NUMBERED else "2026-01-05T09:32:00Z"}
        assert call("POST", "/v1/observations?wait=true", json=[later]).status_code == 200
        assert told(call) == [("enter", 1), ("enter", 3)]
        assert call("PUT", "/v1/rules/7", json={**GOOD, "initial": True}).status_code == 200
        assert call("POST", "/v1/publish").json()["faulty"] == []
        assert told(call)[2:] == [("enter", 7)]


@pytest.mark.parametrize("kind", [kind for kind in BEYOND if kind != "silence"])
def test_the_first_row_decides_and_leaves_out_what_does_not_suit(tmp_path: Path, kind: str) -> None:
    rule, row, message = BEYOND[kind]
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(data, tick=None) as service:
        call = Client(service)
        assert call("POST", "/v1/rules", json={"id": 7, **rule}).status_code == 201
        assert call("POST", "/v1/rules", json={"id": 1, **GOOD}).status_code == 201
        assert call("POST", "/v1/observations?wait=true", json=[{**row, "price": {}}]).status_code == 422
        assert service.metrics()["faulty"] == 0, "nothing was decided"
        assert call("POST", "/v1/observations?wait=true", json=[row]).status_code == 200
        assert told(call) == [("enter", 1)]
        assert service.metrics()["faulty"] == 1
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("lock", "saves"))
    shutil.rmtree(copy / "events")
    for place in (data, copy):  # from a save, and from the rows alone
        with serving(place, tick=None) as service:
            call = Client(service)
            assert told(call) == [("enter", 1)]
            assert service.metrics()["faulty"] == 1
            [fault] = call("POST", "/v1/publish").json()["faulty"]
            assert (fault["id"], message in fault["reason"]) == (7, True)
            assert service.metrics()["faulty"] == 1


def test_silence_is_taken_where_there_is_a_timeout(tmp_path: Path) -> None:
    with serving(tmp_path, tick=None, timeout="10 minutes") as service:
        call = Client(service)
        assert call("POST", "/v1/rules", json={"id": 7, **SILENT}).status_code == 201
        call("POST", "/v1/observations?wait=true", json=[AT])
        assert call("POST", "/v1/tick", json={"time": "2026-01-05T10:00:00Z"}).status_code == 200
        assert told(call) == [("silent", 7)]


def test_a_backtest_has_the_timeout_of_the_service(tmp_path: Path) -> None:
    rows = [AT, {**AT, "object": "SAP", "time": "2026-01-05T10:31:00Z"}, {**AT, "time": "2026-01-05T11:31:00Z"}]
    with serving(tmp_path, tick=None, timeout="10 minutes") as service:
        call = Client(service)
        rule = {"condition": "price > 40", "detect": "enter,exit,silent"}
        assert call("POST", "/v1/rules", json={"id": 7, **rule}).status_code == 201
        call("POST", "/v1/observations?wait=true", json=rows)
        tried = call("POST", "/v1/backtest", json={"rule": 7})
        assert tried.status_code == 200
        wanted = told(call)
        assert ("silent", 7) in wanted
        assert [(event["detect"], 7) for event in tried.json()["events"]] == wanted


def test_a_backtest_refuses_what_the_times_of_its_rows_do_not_suit(tmp_path: Path) -> None:
    with serving(tmp_path, tick=None) as service:
        refused = Client(service)("POST", "/v1/backtest", json={"condition": "price > 40", "for": 5, "rows": [AT]})
        assert refused.status_code == 422
        assert "length of 5, and time as timestamp" in refused.json()["message"]


def test_a_wider_condition_may_use_other_columns(tmp_path: Path) -> None:
    with serving(tmp_path, tick=None) as service:
        call = Client(service)
        rule = {"id": 1, "condition": "x < 3", "stay": "x < 5 OR y > 7", "detect": "enter,exit"}
        assert call("POST", "/v1/rules", json=rule).status_code == 201
        for x, y in ((2, 0), (6, 8), (6, 1)):
            assert call("POST", "/v1/observations?wait=true", json=[{"object": "a", "x": x, "y": y}]).status_code == 200
        assert told(call) == [("enter", 1), ("exit", 1)]
