"""Values at the ends of their types, no rows at all, and letters that are rare."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

import fencepost as fp
from fencepost.ordinals.zones import walls_of


def holds(condition: str, schema: dict[str, str], **columns: object) -> list[bool]:
    rules = fp.Rules()
    rules.add(1, condition)
    return [bool(found) for found in rules.compile(schema).match(columns).sets()]


@pytest.mark.parametrize(
    ("condition", "n", "expected"),
    [
        ("LEAST(n, 0.5) > 0.2", -(10**18), False),
        ("LEAST(n, 0.5) > 0.2", 10**18, True),
        ("GREATEST(n, 0.5) > 3", 10**18, False),  # the largest does not fit the decimals that both are
        ("GREATEST(n, 0.5) > 0.2", -(10**18), True),
        ("COALESCE(n, 0.5) > 3", 10**18, False),
        ("COALESCE(n, 0.5) = 0.5", 10**18, False),
        ("COALESCE(n, 0.5) = 0.5", None, True),
        ("COALESCE(n, 0.5) IS NULL", 10**18, True),
        ("NULLIF(n, d) IS NOT NULL", 10**18, True),
        ("n > d", 10**18, True),
        ("n > d", 9 * 10**18, True),
        ("n < d", -(10**18), True),
        ("n <> d", 2**63 - 1, True),
        ("d < n", -(2**63) + 1, False),
    ],
)
def test_bigints_beside_decimals(condition: str, n: int | None, expected: bool) -> None:
    schema = {"n": "bigint", "d": "decimal(5,2)"}
    (found,) = holds(condition, schema, n=pa.array([n], pa.int64()), d=pa.array([3], pa.decimal128(5, 2)))
    assert found == expected


def test_bigints_as_decimals_or_constants_are_chosen_exactly() -> None:
    """What the bigint of ten to the eighteenth is beside a half has one digit too many: it has no value, no other."""
    for condition in ("GREATEST(n, 0.5) IS NULL", "COALESCE(n, 0.5) IS NULL"):
        assert holds(condition, {"n": "bigint"}, n=[10**18, 10**16]) == [True, False]


@pytest.mark.parametrize("name", ["inside", "add", "replace", "remove"])
def test_a_monitor_that_knows_no_object_takes_nullif_of_strings(name: str) -> None:
    rules = fp.Rules()
    rules.add(1, "NULLIF(s, 'A') = 'B' OR NULLIF('A', s) = 'A'", detect="enter,exit")
    schema = {"s": "string", "t": "string", "o": "string", "ts": "bigint"}
    monitor = fp.Monitor(rules, object="o", time="ts", schema=schema)
    if name == "inside":
        assert monitor.inside(1) == []
    elif name == "remove":
        monitor.remove(1)
    elif name == "add":
        monitor.add(2, "NULLIF(t, 'A') = 'B'", detect="enter,exit", initial=True)
    else:
        monitor.replace(1, "NULLIF(t, 'A') = 'B'")
    assert len(monitor.rules) == {"add": 2, "remove": 0}.get(name, 1)


@pytest.mark.parametrize("condition", ["NULLIF(s, t) = 'B'", "COALESCE('a', s) IS NULL", "GREATEST('a', s) > t"])
def test_no_rows(condition: str) -> None:
    nothing = pa.array([], pa.string())
    assert holds(condition, {"s": "string", "t": "string"}, s=nothing, t=nothing) == []


def test_parts_of_strings_have_sane_ends() -> None:
    assert holds("SUBSTR(s, 1, 99999999999999999999) = 'AB'", {"s": "string"}, s=["AB", "A"]) == [True, False]
    assert holds("SUBSTR(s, 2147483648) = ''", {"s": "string"}, s=["AB"]) == [True]
    for start in (2**31 + 1, 2**63 - 1, 10**30):
        with pytest.raises(fp.FencepostError, match="a part of a string that depends on its length"):
            fp.Rules().add(1, f"SUBSTR(s, {start}, 2) = 'A'")


@pytest.mark.parametrize("text", ["İx", "ΑΣ", "ẞ", "Ω", "K", "Dž"])
def test_ilike_lowers_patterns_as_it_lowers_data(text: str) -> None:
    assert holds(f"s ILIKE '{text}%'", {"s": "string"}, s=[text, text + "a", "zz"]) == [True, True, False]


def test_what_no_clock_shows_has_no_value() -> None:
    walls = [datetime(9999, 12, 31, 23, 59, 59), datetime(2024, 7, 1, 12)]
    assert holds("tn AT TIME ZONE 'America/New_York' IS NULL", {"tn": "timestamp_ntz"}, tn=walls) == [True, False]
    early = [datetime(1, 1, 1), datetime(2024, 7, 1, 12)]
    assert holds("tn AT TIME ZONE 'Europe/Berlin' IS NULL", {"tn": "timestamp_ntz"}, tn=early) == [True, False]
    ends = pa.array([-(2**63) + 1, 2**63 - 1, 0]).view(pa.timestamp("us", "UTC"))
    for zone, expected in (("Europe/Berlin", [False, True, False]), ("America/New_York", [True, False, False])):
        schema = {"ts": "timestamp"}
        assert holds(f"ts AT TIME ZONE '{zone}' IS NULL", schema, ts=ends) == expected
        assert holds(f"EXTRACT(YEAR FROM ts AT TIME ZONE '{zone}') IS NULL", schema, ts=ends) == expected


def test_daylight_saving_goes_on_beyond_2037() -> None:
    rules = fp.Rules(zone="Europe/Berlin")
    rules.add(1, "HOUR(ts) = 14")
    rules.add(2, "HOUR(ts AT TIME ZONE 'Europe/Berlin') = 14")
    at = [
        datetime(2045, 7, 1, 12, tzinfo=UTC),
        datetime(2045, 1, 1, 13, tzinfo=UTC),
        datetime(2045, 7, 1, 13, tzinfo=UTC),
    ]
    assert rules.compile({"ts": "timestamp"}).match({"ts": at}).sets() == [{1, 2}, {1, 2}, set()]


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Gaza", "+05:30"])
def test_walls_are_those_of_the_zone_database(zone: str) -> None:
    rng = np.random.default_rng(7)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    own = ZoneInfo(zone) if "/" in zone else None
    counts = np.concatenate(
        [rng.integers(-60 * 10**15, 250 * 10**15, 300), 1_711_846_800_000_000 + rng.integers(-2, 2, 9)]
    )
    expected = []
    for each in counts.tolist():
        instant = epoch + timedelta(microseconds=each)
        shown = instant.astimezone(own) if own else instant + timedelta(hours=5, minutes=30)
        expected.append((shown.replace(tzinfo=UTC) - epoch) // timedelta(microseconds=1))
    assert walls_of(counts, zone).counts.tolist() == expected


def test_beyond_the_calendar_the_rules_of_400_years_before_count() -> None:
    day, cycle = 86_400_000_000, 146_097 * 86_400_000_000
    at = np.array([(datetime(9990, 7, 1, 12, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days * day], np.int64)
    for times in (1, 20, 600):
        assert (walls_of(at + times * cycle, "Europe/Berlin").counts - at - times * cycle).tolist() == [7_200_000_000]
