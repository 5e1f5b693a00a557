"""Timestamps without a zone in conditions, against the zone database itself; tests/spark/test_zones.py asks Spark."""

import pickle
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.ordinals.zones import check_zone, instant_at, instants_of
from fencepost.published import VersionDirectory

ZONES = ["America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana", "+05:45"]
TIMES = {"at": "timestamp", "clock": "timestamp_ntz", "day": "date"}


def micros(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def first(rules: fp.Rules, column: str = "at") -> int:
    """The first ordinal of a rule with one bound."""
    boxes = rules.columns({column: TIMES[column]}).boxes
    return int(boxes[0].firsts[0, 0])


def rules_with(condition: str, zone: str | None) -> fp.Rules:
    rules = fp.Rules(zone)
    rules.add(1, condition)
    return rules


@given(
    st.sampled_from(["America/New_York", "Australia/Lord_Howe", "America/Havana", "Europe/Dublin"]),
    st.datetimes(datetime(1971, 1, 1), datetime(2037, 1, 1)),
)
def test_an_instant_shows_the_clock_that_named_it(zone: str, wall: datetime) -> None:
    wall = wall.replace(fold=0)
    found = instant_at(wall, ZoneInfo(zone))
    shown = found.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)
    if shown != wall:  # the clock skips it: as much later as it skips
        before = (found - timedelta(hours=3)).astimezone(ZoneInfo(zone)).utcoffset()
        after = found.astimezone(ZoneInfo(zone)).utcoffset()
        assert before is not None
        assert after is not None
        assert shown - wall == after - before
    else:  # no earlier instant shows it, too
        for minutes in (30, 60, 90, 120):
            earlier = (found - timedelta(minutes=minutes)).astimezone(ZoneInfo(zone))
            assert earlier.replace(tzinfo=None, fold=0) != wall
    column = pa.array([wall, None], pa.timestamp("us"))
    assert instants_of(column, zone).to_pylist() == [found, None]


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("TIMESTAMP '2013-03-10 01:30:00'", "2013-03-10T06:30:00+00:00"),
        ("TIMESTAMP '2013-03-10 02:30:00'", "2013-03-10T07:30:00+00:00"),  # is skipped: 03:30 in summer
        ("TIMESTAMP '2013-11-03 01:30:00'", "2013-11-03T05:30:00+00:00"),  # is there twice: the earlier one
        ("TIMESTAMP '2013-11-03 01:30:00-05:00'", "2013-11-03T06:30:00+00:00"),
        ("TIMESTAMP '2013-03-09 02:30:00' + INTERVAL '1' DAY", "2013-03-10T07:30:00+00:00"),
        ("TIMESTAMP '2013-03-09 12:00:00' + INTERVAL '1' DAY", "2013-03-10T16:00:00+00:00"),
        ("TIMESTAMP '2013-03-09 12:00:00' + INTERVAL '24' HOUR", "2013-03-10T16:00:00+00:00"),
        ("TIMESTAMP '2013-03-09 12:00:00' + INTERVAL '25' HOUR", "2013-03-10T17:00:00+00:00"),
        ("TIMESTAMP '2013-02-28 12:00:00' + INTERVAL '1' MONTH", "2013-03-28T16:00:00+00:00"),
        ("DATE '2013-07-04'", "2013-07-04T04:00:00+00:00"),
        ("DATE '2013-07-03' + 1", "2013-07-04T04:00:00+00:00"),
    ],
)
def test_constants_in_new_york(written: str, instant: str) -> None:
    expected = micros(datetime.fromisoformat(instant))
    assert first(rules_with(f"at >= {written}", "America/New_York")) == expected
    local = datetime.fromisoformat(instant).astimezone(ZoneInfo("America/New_York")).replace(tzinfo=UTC)
    if "02:30" not in written:
        assert first(rules_with(f"clock >= {written}", "America/New_York"), "clock") == micros(local)


def test_columns_without_a_zone_are_what_the_clock_shows() -> None:
    for zone in (None, *ZONES):
        rules = rules_with("clock >= TIMESTAMP '2013-03-10 02:30:00'", zone)
        assert first(rules, "clock") == micros(datetime(2013, 3, 10, 2, 30, tzinfo=UTC))
        rules = rules_with("day > DATE '2013-03-10'", zone)
        assert first(rules, "day") == (date(2013, 3, 11) - date(1970, 1, 1)).days
        rules = rules_with("day >= TIMESTAMP '2013-03-10 00:00:00'", zone)
        assert first(rules, "day") == (date(2013, 3, 10) - date(1970, 1, 1)).days
    # In Havana clocks go from 1:00 back to 0:00: the first midnight begins the day.
    rules = rules_with("day >= TIMESTAMP '2013-11-03 04:30:00Z'", "America/Havana")
    assert first(rules, "day") == (date(2013, 11, 4) - date(1970, 1, 1)).days
    rules = rules_with("day >= TIMESTAMP '2013-11-03 04:00:00Z'", "America/Havana")
    assert first(rules, "day") == (date(2013, 11, 3) - date(1970, 1, 1)).days


def test_bounds_around_a_skipped_hour_are_compared_as_instants() -> None:
    text = "at >= TIMESTAMP '2013-03-10 03:15:00' AND at <= TIMESTAMP '2013-03-10 02:30:00'"
    boxes = rules_with(text, "America/New_York").columns({"at": "timestamp"}).boxes
    assert boxes[0].firsts[0, 0] < boxes[0].lasts[0, 0], "2:30 is 3:30"
    with pytest.raises(FencepostError, match="exclude each other"):
        rules_with(text, None)
    with pytest.raises(FencepostError, match="exclude each other"):
        rules_with("at > TIMESTAMP '2013-07-04 00:00:00' AND at < TIMESTAMP '2013-07-03 23:00:00'", "America/New_York")
    with pytest.raises(FencepostError, match="exclude each other"):  # a date and an instant
        rules_with("at >= DATE '2013-07-04' AND at <= TIMESTAMP '2013-07-04 03:59:59Z'", "America/New_York")
    rules_with("at >= DATE '2013-07-04' AND at <= TIMESTAMP '2013-07-04 04:00:00Z'", "America/New_York")


def test_names_of_zones() -> None:
    assert [check_zone(zone) for zone in ("utc", "Etc/UTC", "GMT", "+00:00", "UTC+0")] == ["UTC"] * 5
    assert [check_zone(zone) for zone in ("GMT-7", "+0530", ZoneInfo("Asia/Kolkata"))] == [
        "-07:00",
        "+05:30",
        "Asia/Kolkata",
    ]
    for wrong in ("Amerika/New_York", "", "../../etc/passwd", 5, "+25:00"):
        with pytest.raises(FencepostError, match="expected the name of a time zone"):
            fp.Rules(wrong)  # type: ignore[arg-type]
    with pytest.raises(FencepostError, match=r"Did you mean America/New_York\?"):
        fp.Rules("Amerika/New_York")


def test_snapshots_directories_and_monitors_keep_the_zone(tmp_path: Path) -> None:
    condition = "at >= TIMESTAMP '2013-07-04 00:00:00'"
    rules = rules_with(condition, "America/New_York")
    snapshot = rules.compile({"at": "timestamp"})
    snapshot.save(tmp_path / "saved")
    loaded = fp.Snapshot.load(tmp_path / "saved")
    assert (loaded.zone, loaded.with_version(3).zone, loaded.explain().zone) == ("America/New_York",) * 3
    assert "timestamps without a zone are read in America/New_York" in str(loaded.explain())
    rows = {"at": [datetime(2013, 7, 4, 3, 59, tzinfo=UTC), datetime(2013, 7, 4, 4, tzinfo=UTC)], "car": ["a", "a"]}
    assert loaded.match(rows).sets() == [set(), {1}]
    monitor = fp.Monitor(loaded, object="car")
    monitor.add(2, condition)
    assert monitor.update(rows)["rule_id"].to_pylist() == [1, 2], "a rule that comes later has the same zone"
    rules.publish(tmp_path / "published")
    assert VersionDirectory(tmp_path / "published").zone() == "America/New_York"
    plain = rules_with(condition, None)
    plain.publish(tmp_path / "published")
    newest = VersionDirectory(tmp_path / "published").load()
    assert newest.match(rows).sets() == [set(), {1}], "rules without a zone of their own take that of the directory"
    with pytest.raises(FencepostError, match=r"whose zone is Asia/Kolkata; expected America/New_York, the zone of "):
        rules_with(condition, "Asia/Kolkata").publish(tmp_path / "published")
    moment = next(iter(rules._texts.values())).parsed.boxes[0][0].lower  # type: ignore[union-attr]
    again = pickle.loads(pickle.dumps(moment))
    assert (again, again.wall, again.zone) == (moment, moment.wall, moment.zone)  # type: ignore[union-attr]


def test_a_book_keeps_its_zone(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rules.db"
    condition = "at >= TIMESTAMP '2013-07-04 00:00:00'"
    with fp.RuleBook(url, zone="America/New_York") as book:
        book.add(1, condition)
        book.publish(tmp_path / "published")
    with fp.RuleBook(url) as book:
        assert book.zone == "America/New_York"
        book.add(2, condition)
        book.publish(tmp_path / "published")
        rows = {"at": [datetime(2013, 7, 4, 3, 59, tzinfo=UTC), datetime(2013, 7, 4, 4, tzinfo=UTC)]}
        assert VersionDirectory(tmp_path / "published").load().match(rows).sets() == [set(), {1, 2}]
        assert book.rules().zone == "America/New_York"
    with pytest.raises(FencepostError, match=r"zone='UTC' for .*; expected America/New_York, the zone of this book"):
        fp.RuleBook(url, zone="UTC")
    with fp.RuleBook(f"sqlite:///{tmp_path}/other.db") as book:
        assert book.zone == "UTC"
