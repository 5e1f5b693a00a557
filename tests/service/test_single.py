"""Single rows: as dicts they are what they would be as tables."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost._files.whole import read_note, write_note
from fencepost.errors import FencepostError
from fencepost.service.clock import newest_time
from fencepost.service.records import ROW, Record, rows_of
from fencepost.service.rows import TIMES, table_of, with_times
from fencepost.service.service import Service
from fencepost.service.settings import Settings
from fencepost.service.single import as_table, load_row, newest_of, plain_row, write_row
from tests.effort import seeds

NOW = datetime(2026, 1, 5, 12, 30, 0, 123456, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANTS = st.one_of(
    st.none(),
    st.integers(-(2**64), 2**64),
    st.datetimes().map(lambda each: each.isoformat() + "Z"),
    st.datetimes(timezones=st.timezones()).map(datetime.isoformat),
    st.sampled_from([
        "2026-01-05T09:31:00Z", "2026-01-05 09:31:00.5Z", "2026-01-05T09:31:00.123+05:30", "2026-01-05",
        "2026-01-05T24:00:00Z", "2026-01-05T23:59:60Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00",
        "0000-01-01T00:00:00Z", "2026-01-05T09:31:00", "٢٠٢٦-01-05T09:31:00Z",
    ]),
)  # fmt: skip
VALUES = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(-(2**64), 2**64), st.text(), st.just("\ud800"),
    st.just(NOW), st.just([1]),
)  # fmt: skip
NAMES = st.sampled_from(["object", "Object", "time", "TIME", "x", "price", "", "ä", "\ud800", 1])


def whole(record: dict[Any, Any], clock: Any) -> pa.Table | None:
    try:
        return with_times(table_of([record]), "object", "time", NOW, clock)
    except (FencepostError, AttributeError, TypeError, UnicodeEncodeError):
        return None


@given(st.dictionaries(NAMES, VALUES), INSTANTS, st.sampled_from([TIMES, pa.int64(), pa.timestamp("us"), None]))
@example({"object": "IBM", "x": 1e308}, None, TIMES)
@example({"object": 5, "TIME": "2026-01-05T09:31:00Z"}, None, TIMES)
def test_a_single_row_is_what_a_table_of_it_is(record: dict[Any, Any], time: Any, clock: Any) -> None:
    if time is not None:
        record = {**record, "time": time}
    row = plain_row(record, "object", "time", NOW, clock)
    if row is None:
        return
    expected = whole(record, clock)
    assert expected is not None, (record, row)
    assert as_table(row).equals(expected)
    assert as_table(row).schema == expected.schema
    assert newest_of(row, "time") == newest_time(expected["time"])
    logged = load_row(write_row(row))
    assert logged == row
    assert list(logged) == list(row)
    assert as_table(logged).schema == expected.schema


def test_usual_rows_are_plain() -> None:
    for time in ({}, {"time": None}, {"time": "2026-01-05T09:31:00Z"}, {"time": "2026-01-05T09:31:00.250+01:00"}):
        assert plain_row({"object": "IBM", "x": 1.5, "n": 3, **time}, "object", "time", NOW, TIMES) is not None
    assert plain_row({"object": 5, "time": 7, "s": "ä"}, "object", "time", NOW, pa.int64()) is not None


@pytest.mark.parametrize("seed", seeds(6))
def test_calls_with_one_row_give_the_same_events_as_tables_also_after_a_replay(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)  # noqa: S311 (rows, no secrets)
    rows: list[dict[str, Any]] = []
    for number in range(300):
        row = {"object": draw.choice(["a", "b", "c"]), "price": draw.choice([1, 1.5, None, 3, 4.5, 7])}
        if draw.random() < 0.5:
            row["note"] = draw.choice(["ü", True, None, 2**62])
        row["time"] = (EPOCH + timedelta(seconds=number - draw.choice([0, 0, 0, 5]))).isoformat()
        rows.append(row)
    found = []
    for name, as_rows in (("single", lambda row: [row]), ("table", lambda row: table_of([row]))):
        with Service(Settings(data=tmp_path / name, types={"price": "double"})) as service:
            service.rules.add({"condition": "price > 2 AND price < 5", "detect": "enter,exit,inside"}, "ann")
            service.settle()
            for row in rows:
                service.observe(as_rows(row))
            state = service.state()
            events = service.events(0, limit=10_000).events
            service._upkeep.save = lambda: None  # type: ignore[method-assign]  # as if it had been killed
        with Service(Settings(data=tmp_path / name, types={"price": "double"})) as service:
            again = service.events(0, limit=10_000).events
            assert again.equals(events)
            assert service.state().equals(state)
            kept = [row for table in service.recent_rows(10_000, 10_000) for row in table.to_pylist()]
        found.append((events.to_pylist(), state.to_pylist(), kept))
    assert found[0] == found[1]
    assert len(found[0][0]) > 20


def test_a_log_of_a_later_version_is_refused() -> None:
    with pytest.raises(FencepostError, match="kind 9"):
        rows_of(Record(1, 9, {}, memoryview(b"")))
    assert rows_of(Record(1, ROW, {}, memoryview(b'{"object":1,"time":[1000000]}'))) == {
        "object": 1, "time": EPOCH + timedelta(seconds=1),
    }  # fmt: skip


def test_a_directory_of_the_version_before_goes_on_as_this_one(tmp_path: Path) -> None:
    with Service(Settings(data=tmp_path)) as service:
        service.observe([{"object": "a", "x": 1}])
    note = tmp_path / "service.json"
    bound = read_note(note, {"format": int}, "")
    assert bound is not None
    write_note(note, {name: value for name, value in {**bound, "format": 1}.items() if name != "checksum"})
    with Service(Settings(data=tmp_path)) as service:
        assert service.metrics()["position"] >= 1
    assert (read_note(note, {"format": int}, "") or {})["format"] == 2
