"""Files that fail under a service: 507 on a full disk, nothing lost, it recovers; damage is refused at the start."""

import errno
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from fencepost._files.whole import draft_beside
from fencepost.errors import FencepostError
from fencepost.service.engine import Engine, _Call
from fencepost.service.monitoring import Watcher
from fencepost.service.refusals import DiskFullError
from fencepost.service.service import Service
from fencepost.service.settings import Limits
from fencepost.service.upkeep import Upkeep
from tests.service.services import Client, serving
from tests.service.test_segments import failing

RULE = {"condition": "price > 40", "detect": "enter,exit"}


def send(service: Service, price: float) -> list[str]:
    events = service.observe([{"object": "IBM", "price": price}]).events
    return [] if events is None else [str(each) for each in events["detect"].to_pylist()]


@pytest.mark.parametrize("after", range(4))
def test_a_full_disk_refuses_rows_and_loses_nothing(tmp_path: Path, after: int) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        assert send(service, 41) == ["enter"]
        told = ["enter"]
        with failing("write", errno.ENOSPC, after):
            for price in (39, 41, 39, 41):
                try:
                    told += send(service, price)
                except DiskFullError:
                    answer = Client(service)("POST", "/v1/observations", json={"object": "IBM", "price": 1})
                    assert (answer.status_code, "Make room" in answer.json()["remedy"]) == (507, True)
                    break
            else:
                pytest.fail("the disk was never full")
        inside = told[-1] == "enter"
        told += send(service, 39 if inside else 41)
        expected = ["enter", "exit"] * 3
        assert told == expected[: len(told)]
        stored = service.events().events["detect"].to_pylist()
        assert stored == told
    with serving(tmp_path) as service:
        assert service.events().events["detect"].to_pylist() == told


def test_a_sync_that_fails_takes_the_rows_back(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        with pytest.MonkeyPatch.context() as patch:
            real = os.fdatasync

            def fail(file: int) -> Any:
                patch.setattr(os, "fdatasync", real)
                raise OSError(errno.EIO, "broken", file)

            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(FencepostError, match="disk"):
                send(service, 41)
        assert service.events().last == 0
        assert send(service, 42) == ["enter"]
    with serving(tmp_path) as service:
        assert service.events().events["price"].to_pylist() == [42.0]


def test_rows_that_cannot_be_applied_are_left_out_by_a_replay(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        assert send(service, 41) == ["enter"]
        with pytest.raises(FencepostError, match="price"):
            service.observe([{"object": "IBM", "price": "much"}, {"object": "A", "price": "more"}])
        assert send(service, 39) == ["exit"]
        for save in (tmp_path / "saves").iterdir():
            save.unlink()
        before = service.events().events
    for save in (tmp_path / "saves").iterdir():
        save.unlink()
    with serving(tmp_path) as service:
        assert service.events().events.equals(before)
        assert service.inside(1) == []


@pytest.mark.parametrize("part", ["rows", "events", "saves"])
def test_a_changed_byte_is_refused_at_the_start(tmp_path: Path, part: str) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        for price in (41, 39, 41):
            send(service, price)
    if part == "rows":
        for save in (tmp_path / "saves").iterdir():
            save.unlink()
    for file in (tmp_path / part).iterdir():
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    with pytest.raises(FencepostError, match="Restore"), serving(tmp_path):
        pass


def _zero_page(data: bytearray) -> bytearray:
    page = (len(data) * 3 // 4) // 4096 * 4096
    data[page : page + 4096] = bytes(4096)
    return data


def _garbage(data: bytearray) -> bytearray:
    data[-1000:] = bytes(range(7, 207)) * 5
    return data


def _cut(data: bytearray) -> bytearray:
    return data[: len(data) * 3 // 4]


@pytest.mark.parametrize("harm", [_zero_page, _garbage, _cut])
@pytest.mark.parametrize("is_saved", [False, True])
def test_events_that_a_loss_of_power_took_are_found_again(tmp_path: Path, harm: Any, is_saved: bool) -> None:
    """Events are synced with the saves alone, so behind the last of them any page may be lost and others kept."""
    with pytest.MonkeyPatch.context() as patch, serving(tmp_path, tick=None) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        for number in range(10):
            send(service, 41 - 2 * (number % 2))
        if is_saved:
            service._upkeep.save()
        patch.setattr(Upkeep, "save", lambda _: None)
        for number in range(30):
            send(service, 41 - 2 * (number % 2))
        expected = service.events(limit=1000).events
    [file] = (tmp_path / "events").iterdir()
    file.write_bytes(harm(bytearray(file.read_bytes())))
    with serving(tmp_path, tick=None) as service:
        assert service.events(limit=1000).events.equals(expected)
        assert send(service, 41) == ["enter"]
        assert service.last_event == 41


def test_events_before_a_save_are_never_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        for number in range(10):
            send(service, 41 - 2 * (number % 2))
    [file] = (tmp_path / "events").iterdir()
    whole = file.read_bytes()
    for harmed in (_zero_page(bytearray(whole)), whole[:-10]):
        file.write_bytes(harmed)
        with pytest.raises(FencepostError, match="events") as refused, serving(tmp_path):
            pass
        assert "Restore" in refused.value.remedy


def test_one_directory_has_one_service_and_keeps_its_columns(tmp_path: Path) -> None:
    with serving(tmp_path), pytest.raises(FencepostError, match="another process"), serving(tmp_path):
        pass
    with pytest.raises(FencepostError, match="--object"), serving(tmp_path, object="vehicle"):
        pass


@pytest.mark.parametrize("fault", [OverflowError("out of range"), FencepostError("a", "b", "c")])
def test_a_crash_before_a_refusal_is_noted_does_not_keep_it_from_starting(tmp_path: Path, fault: Exception) -> None:
    """The row is in the log, what says that it was refused is not, and the process has gone."""
    real = Watcher.take

    def take(watcher: Watcher, table: Any) -> Any:
        if "bad" in table["object"].to_pylist():
            raise fault
        return real(watcher, table)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Watcher, "take", take)
        with serving(tmp_path) as service:
            service.rules.add(RULE, "ann")
            service.settle()
            assert send(service, 41) == ["enter"]
            patch.setattr(Engine, "_do", lambda engine, items: engine._log(items))
            service.submit([{"object": "bad", "price": 50.0}])
            while service.engine.waiting:
                time.sleep(0.01)
            patch.setattr(Upkeep, "save", lambda _: None)
        with serving(tmp_path) as service:
            assert service.events().events["object"].to_pylist() == ["IBM"]


def test_an_upkeep_that_fails_in_an_unknown_way_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as service, pytest.MonkeyPatch.context() as patch:
        looks = []

        def look(_: Upkeep) -> None:
            looks.append(1)
            raise RuntimeError("dictionary changed size during iteration")

        patch.setattr(Upkeep, "_look", look)
        until = time.monotonic() + 10
        while len(looks) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(looks) >= 2
        fault = service._upkeep.fault
        assert fault is not None
        assert "dictionary changed" in fault.got


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_whoever_asks_an_engine_that_stops_is_answered(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        engine, waits = service.engine, _Call(lambda: 1)

        def fail() -> None:
            engine._queue.put(waits)
            raise SystemError("broken")

        engine.on_idle = fail
        with pytest.raises(FencepostError, match="stopped"):
            waits.answer.result(10)


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00"])
def test_times_that_no_calendar_has_are_refused(tmp_path: Path, time: str) -> None:
    with serving(tmp_path) as service:
        assert send(service, 41) == []
        for rows in ([{"object": "IBM", "time": time}], [{"object": "IBM", "time": time}, {"object": "B"}]):
            answer = Client(service)("POST", "/v1/observations", json=rows)
            assert (answer.status_code, "year" in answer.text or "ISO" in answer.text) == (422, True)
        assert Client(service)("GET", "/v1/objects/IBM").status_code == 200


def test_a_refusal_that_has_no_room_on_the_disk_is_noted_later(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        assert send(service, 41) == ["enter"]
        with failing("write", errno.ENOSPC, 1), pytest.raises(FencepostError, match="string"):
            service.observe([{"object": "IBM", "price": "high"}])
        assert service.engine.failure is None
        assert service.engine.is_behind()
        assert send(service, 39) == ["exit"]
        assert not service.engine.is_behind()
    with serving(tmp_path) as service:
        assert service.events().events["detect"].to_pylist() == ["enter", "exit"]


def test_events_and_versions_that_the_oldest_save_needs_are_kept(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(events_age=0.0)) as service:
        service._events.segments._roll = 1
        service._upkeep._done.set()
        service.rules.add(RULE, "ann")
        for number in range(4):
            service.rules.add({"condition": f"price > {number}"}, "ann")
            service.settle()
            send(service, 41)
            send(service, 39)
            service._upkeep.save()
        event, version = service._saves.needs()
        assert 0 < event < service.last_event
        assert version == service.version - 1
        assert sorted(service.publishing._leases) == [version, version + 1]
        service._upkeep._look()
        assert 1 < service.first_event <= event + 1


def test_rows_that_each_have_other_columns_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        rows = [{"object": "IBM", f"c{number}": 1} for number in range(10_001)]
        answer = Client(service)("POST", "/v1/match", json=rows)
        assert (answer.status_code, "10,001 rows" in answer.json()["got"]) == (413, True)


def test_events_that_a_save_has_are_missed(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        service.rules.add(RULE, "ann")
        service.settle()
        assert [send(service, price) for price in (41, 39)] == [["enter"], ["exit"]]
    [file] = (tmp_path / "events").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(FencepostError, match=r"ends at event 1;.*up to 2.*Restore"), serving(tmp_path):
        pass


def test_nobody_else_may_read_data_that_is_begun_here(tmp_path: Path) -> None:
    there, used = tmp_path / "there", tmp_path / "used"
    for directory in (there, used):
        directory.mkdir(mode=0o755)
    (used / "of-somebody.txt").touch()
    modes = {}
    for directory in (tmp_path / "new", there, used):
        with serving(directory):
            modes[directory.name] = stat.S_IMODE(directory.stat().st_mode)
    assert modes == {"new": 0o700, "there": 0o700, "used": 0o755}
    there.chmod(0o750)
    with serving(there):
        assert stat.S_IMODE(there.stat().st_mode) == 0o750, "its owner has opened it"


def test_drafts_of_saves_that_a_kill_left_are_deleted(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        send(service, 41)
        dead = tmp_path / "saves" / ".00000000000000000831.monitor.0000000000000000"
        dead.write_text("half")
        os.utime(dead, (0, 0))
        with draft_beside(tmp_path / "saves" / "00000000000000000832.monitor") as draft:
            service._upkeep.save()
            assert draft.exists(), "its writer lives"
    assert sorted(file.suffix for file in (tmp_path / "saves").iterdir()) == [".monitor", ".save"]
