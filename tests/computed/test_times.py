"""Fields of times against Python's calendar and zones, also when clocks change."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import fencepost as fp

START = datetime(2024, 1, 1, tzinfo=UTC)
INSTANTS = [START + timedelta(minutes=int(each)) for each in np.random.default_rng(3).integers(-(10**6), 10**6, 300)]
INSTANTS += [datetime(2024, 3, 31, 0, 59, tzinfo=UTC), datetime(2024, 3, 31, 1, 0, tzinfo=UTC)]
INSTANTS += [datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 1, 30, tzinfo=UTC)]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "+05:30"])
def test_fields_are_those_that_a_clock_shows(zone: str) -> None:
    own = ZoneInfo(zone) if "/" in zone or zone == "UTC" else None
    walls = [each.astimezone(own) if own else each + timedelta(hours=5, minutes=30) for each in INSTANTS]
    fields = {
        "HOUR": [each.hour for each in walls],
        "MINUTE": [each.minute for each in walls],
        "DAY": [each.day for each in walls],
        "MONTH": [each.month for each in walls],
        "YEAR": [each.year for each in walls],
        "QUARTER": [(each.month + 2) // 3 for each in walls],
        "WEEK": [each.isocalendar()[1] for each in walls],
        "DOY": [each.timetuple().tm_yday for each in walls],
        "DAYOFWEEK": [each.isoweekday() % 7 + 1 for each in walls],
        "ISODOW": [each.isoweekday() for each in walls],
    }
    for field, expected in fields.items():
        inside, named = fp.Rules(zone=zone), fp.Rules()
        for id, value in enumerate(sorted(set(expected))):
            inside.add(id, f"EXTRACT({field} FROM ts) = {value}")
            named.add(id, f"EXTRACT({field} FROM ts AT TIME ZONE '{zone}') = {value}")
        ids = {value: id for id, value in enumerate(sorted(set(expected)))}
        for rules in (inside, named):
            found = rules.compile({"ts": "timestamp"}).match({"ts": INSTANTS}).sets()
            assert found == [{ids[value]} for value in expected], field


def test_dates_and_walls() -> None:
    rules = fp.Rules(zone="America/New_York")
    rules.add(1, "DAYOFWEEK(day) IN (1, 7) AND HOUR(wall) >= 9")
    snapshot = rules.compile({"day": "date", "wall": "timestamp_ntz"})
    days = [date(2024, 6, 1), date(2024, 6, 2), date(2024, 6, 3)]
    walls = [datetime(2024, 6, 1, 9), datetime(2024, 6, 2, 8, 59), datetime(2024, 6, 3, 12)]
    assert snapshot.match({"day": days, "wall": walls}).sets() == [{1}, set(), set()]
