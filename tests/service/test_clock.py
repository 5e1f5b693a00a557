"""The clock moves by itself where something can end by it, and a replay of the log has the same events."""

import shutil
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fencepost.errors import FencepostError
from fencepost.service.clock import Clock
from fencepost.service.service import Service
from fencepost.service.settings import Limits
from tests.service.services import Client, serving

SECOND = 1_000_000
HELD = {"condition": "price > 40", "detect": "enter,exit", "for": "1 second"}


def told(service: Service) -> list[tuple[str, str | None, str]]:
    return [(each["detect"], each["reason"], each["event_id"]) for each in service.events().events.to_pylist()]


def until_told(service: Service, number: int) -> list[tuple[str, str | None, str]]:
    ends = time.monotonic() + 20
    while service.last_event < number and time.monotonic() < ends:
        time.sleep(0.02)
    return told(service)


def test_a_wait_ends_without_a_row_and_a_replay_tells_the_same(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with serving(data, tick=0.1) as service:
        service.rules.add(HELD, "ann")
        service.rules.add({"condition": "price > 30", "detect": "exit", "keep_firing_for": "1 second"}, "ann")
        service.settle()
        service.observe([{"object": "IBM", "price": 41}])
        first = until_told(service, 1)
        assert [each[:2] for each in first] == [("enter", "held")]
        service.observe([{"object": "IBM", "price": 1}])
        first = until_told(service, 3)
        assert [each[:2] for each in first] == [("enter", "held"), ("exit", None), ("exit", "kept")]
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("lock", "saves"))
    shutil.rmtree(copy / "events")  # the replay has nothing but rows, versions and ticks
    with serving(copy, tick=None) as service:
        assert told(service) == first


def test_no_tick_where_nothing_ends_by_time_or_ticks_are_off(tmp_path: Path) -> None:
    for number, (rule, tick) in enumerate([({"condition": "price > 40"}, 0.05), (HELD, None)]):
        with serving(tmp_path / str(number), tick=tick) as service:
            service.rules.add(rule, "ann")
            service.settle()
            position = service.observe([{"object": "IBM", "price": 41, "time": "2026-01-05T09:31:00Z"}]).position
            time.sleep(0.3)
            assert service.metrics()["position"] == position


def test_a_time_that_counts_moves_only_when_asked(tmp_path: Path) -> None:
    with serving(tmp_path, tick=0.05) as service:
        service.observe([{"object": "IBM", "price": 1, "time": 1}])
        service.rules.add({**HELD, "for": 5}, "ann")
        service.settle()
        position = service.observe([{"object": "IBM", "price": 41, "time": 3}]).position
        time.sleep(0.3)
        assert service.metrics()["position"] == position
        call = Client(service)
        assert call("POST", "/v1/tick", json={"time": 8}).json()["events"] == []
        assert [each["time"] for each in call("POST", "/v1/tick", json={"time": 9}).json()["events"]] == [8]
        assert call("POST", "/v1/tick", json={"time": "2026-01-05"}).status_code == 422


def test_ticks_by_hand(tmp_path: Path) -> None:
    with serving(tmp_path, tick=None) as service:
        with pytest.raises(FencepostError, match="before the first row"):
            service.tick("2026-01-05")
        service.rules.add(HELD, "ann")
        service.settle()
        service.observe([{"object": "IBM", "price": 41, "time": "2026-01-05T09:31:00Z"}])
        for wrong in (5, "soon", (datetime.now(UTC) + timedelta(hours=1)).isoformat()):
            with pytest.raises(FencepostError):
                service.tick(wrong)
        assert service.tick("2026-01-05T09:31:01.000001").caused == 1
        assert service.tick("2025-01-05").caused == 0  # a time that has been has no effect


def test_ticks_alone_are_not_saved(tmp_path: Path) -> None:
    with serving(tmp_path, tick=0.05, limits=Limits(save_seconds=0.2)) as service:
        service.rules.add(HELD, "ann")
        service.settle()
        service.observe([{"object": "IBM", "price": 1}])
        time.sleep(0.5)
        saves = sorted(path.name for path in (tmp_path / "saves").iterdir())
        position = service.metrics()["position"]
        time.sleep(0.3)
        assert service.metrics()["position"] > position
        assert saves
        assert sorted(path.name for path in (tmp_path / "saves").iterdir()) == saves


def test_a_restart_waits_for_rows_that_could_not_be_sent() -> None:
    about = {"newest": 0, "at": 0.0}
    here = Clock(60.0, now=0)
    here.see(about)
    live = Clock(60.0, here.as_json(), now=3600 * SECOND)
    live.resume()
    assert live.due(3601 * SECOND) is None
    assert live.due(3660 * SECOND) == "1970-01-01T01:00:00+00:00"
    history = Clock(60.0, now=0)
    history.see({"newest": 0, "at": 86_400.0})
    again = Clock(60.0, history.as_json(), now=2 * 86_400 * SECOND)
    again.resume()  # time has stood while the service did not run
    assert again.due((2 * 86_400 + 90) * SECOND) == "1970-01-01T00:00:30+00:00"


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-(10**6), 10**6)), min_size=1, max_size=20))
def test_a_tick_stays_behind_rows_as_they_came(calls: list[tuple[int, int]]) -> None:
    """Whatever rows say: ticks go forward, and are a lateness behind now."""
    now, clock, before = 10**12, Clock(1.0, now=10**12), ""
    for gap, off in calls:
        now += gap
        clock.see({"newest": now + off, "at": now / 1e6})
        now += 2 * SECOND
        at = clock.due(now)
        if at is not None:
            number = (datetime.fromisoformat(at) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            assert number <= now - SECOND
            assert before < at
            before = at
