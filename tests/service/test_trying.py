"""Backtests and searches over the logs: what was refused is left out, what cannot be read is counted, each ends."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.errors import FencepostError
from fencepost.service import event_log
from fencepost.service.event_log import EventFilter
from tests.service.services import Client, serving

RULE = {"condition": "price > 40", "detect": "enter,exit"}


def test_rows_that_were_refused_are_not_tried(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        for price in (39.0, 41.0):
            service.observe([{"object": "IBM", "price": price}])
        with pytest.raises(FencepostError, match="price"):
            service.observe([{"object": "IBM", "price": "much"}, {"object": "A", "price": "more"}])
        service.observe([{"object": "IBM", "price": 39.0}])
        answer = Client(service)("POST", "/v1/backtest", json={"condition": "price > 40"})
        assert (answer.status_code, answer.json()["rows"], answer.json()["unread"]) == (200, 3, 0)
        events = answer.json()["rules"][0]["events"]
        assert (events["enter"], events["exit"]) == (1, 1)
        assert [table.num_rows for table in service.recent_rows(2, 10)] == [2]
        assert sum(table.num_rows for table in service.recent_rows(10, 1)) == 1


def test_stored_rows_that_a_rule_cannot_read_are_counted(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        for value in ("much", 5, 7.5, "more", 3):  # no rule compares it yet, so any type is taken
            service.observe([{"object": "IBM", "lot": value}] * 2)
        answer = Client(service)("POST", "/v1/backtest", json={"condition": "lot > 4", "detect": "enter,exit"})
        assert answer.status_code == 200, answer.text
        assert (answer.json()["rows"], answer.json()["unread"]) == (10, 4)
        events = answer.json()["rules"][0]["events"]
        assert (events["enter"], events["exit"]) == (1, 1)
        given = {"condition": "lot > 4", "rows": [{"object": "IBM", "lot": "much"}]}
        assert Client(service)("POST", "/v1/backtest", json=given).status_code == 422


def test_a_search_of_events_has_an_end_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_BLOCKS_AT_ONCE", 4)
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        for number in range(10):
            service.observe([{"object": "IBM", "price": 41 - 2 * (number % 2)}])
        client, nobody = Client(service), EventFilter(object="nobody")
        page = service.events(0, nobody)
        assert (page.events.num_rows, page.next, page.last) == (0, 4, 10)
        assert [service.events(after, nobody).next for after in (4, 8)] == [8, 10]
        assert service.newest_events(nobody).next == 7
        first, last = service.events(0, limit=1).events, service.newest_events(limit=1).events
        assert client("GET", f"/v1/why/{last['event_id'][0]}").status_code == 200
        assert client("GET", "/v1/why/1").status_code == 200
        for which in (first["event_id"][0], "0" * 32):
            answer = client("GET", f"/v1/why/{which}")
            assert (answer.status_code, "from position 7 on" in answer.json()["got"]) == (404, True)
            assert "position" in answer.json()["remedy"]


def test_what_is_kept_of_events_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_KEPT_BYTES", 1000)
    log = event_log.EventLog(tmp_path)
    table: Any = pa.table({"event_id": ["x" * 300]})
    for number in range(10):
        log.append(table, [event_log.Caused(number, 1)])
    assert len(log._recent) == 3
    assert log._recent_bytes == 3 * table.nbytes
    log.append(pa.table({"event_id": ["x" * 3000]}), [event_log.Caused(10, 1)])
    assert (len(log._recent), log._recent_bytes) == (0, 0)
    assert [stored.first for stored in log.blocks()] == list(range(1, 12))
    log.close()


def test_columns_of_a_service_tell_the_types_of_those_they_are_compared_with(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add({"condition": "venue = 'X'", "detect": "enter,exit"}, "ann")
        service.settle()
        stay = "venue = home OR home = away"
        service.rules.add({"condition": "venue = home", "detect": "enter,exit", "stay": stay}, "ann")
        service.settle()
        row = {"object": "IBM", "venue": "X", "home": "X", "away": "Y"}
        assert service.observe([row]).caused == 2
        given = {"condition": "venue = home AND other = venue", "detect": "enter", "rows": [row | {"other": "X"}]}
        answer = Client(service)("POST", "/v1/backtest", json=given)
        assert answer.status_code == 200, answer.text
        assert answer.json()["rules"][0]["events"]["enter"] == 1
