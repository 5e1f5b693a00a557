"""Time zones: which instant a wall clock shows.

As in Java, and so in Spark: of a time that the clock shows twice, the earlier instant is meant; a time that it skips
is as much later as it skips.
"""

import difflib
import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from typing import Any, NamedTuple, Self
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.errors import FencepostError

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_UTC = frozenset(["UTC", "Z", "GMT", "UT", "ETC/UTC", "ETC/GMT", "UCT", "ETC/UCT", "ZULU", "ETC/ZULU", "GMT0"])
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = 86_400_000_000
_CYCLE = 146_097
"""Days after which the calendar repeats itself, weekdays included."""
_FIRST_DAY, _LAST_DAY = ((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).days for year in (2, 9999))
_DAYS_KEPT = 100_000


def check_zone(zone: Any) -> str:
    """The name of a time zone, "UTC" however that is spelled; refuses what is none.

    >>> check_zone("America/New_York"), check_zone("Etc/UTC"), check_zone("GMT+5:30")
    ('America/New_York', 'UTC', '+05:30')
    """
    if isinstance(zone, ZoneInfo):
        zone = zone.key
    if isinstance(zone, str):
        if zone.upper() in _UTC:
            return "UTC"
        if offset := _OFFSET.fullmatch(zone):
            hours, minutes = int(offset[2]), int(offset[3] or 0)
            if hours <= 18 and minutes < 60:
                return f"{offset[1]}{hours:02}:{minutes:02}" if hours or minutes else "UTC"
        elif _known(zone):
            return zone
    near = difflib.get_close_matches(str(zone), available_timezones(), n=1)
    raise FencepostError(
        f"zone={zone!r}",
        "the name of a time zone, such as America/New_York, or an offset, such as +01:00",
        f"Did you mean {near[0]}?" if near else "Correct the name.",
    )


def _known(zone: str) -> bool:
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        return False
    return True


@cache
def rules_of_zone(zone: str) -> tzinfo | None:
    """The zone that `check_zone` named; None for UTC."""
    if zone == "UTC":
        return None
    if offset := _OFFSET.fullmatch(zone):
        east = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(east if offset[1] == "+" else -east)
    return ZoneInfo(zone)


def zone_name(zone: tzinfo | None) -> str:
    """The name that `check_zone` gave what `rules_of_zone` made of it."""
    if zone is None:
        return "UTC"
    return zone.key if isinstance(zone, ZoneInfo) else str(zone).removeprefix("UTC")


def instant_at(wall: datetime, zone: tzinfo, offset: timedelta | None = None) -> datetime:
    """The instant, in UTC, at which the clock of a zone shows this; of two, that with the offset, or the earlier."""
    earlier, later = (wall.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1))
    assert earlier is not None, "a zone has an offset"
    assert later is not None, "a zone has an offset"
    chosen = later if offset == later and later < earlier else earlier
    return (wall - chosen).replace(tzinfo=UTC, fold=0)


class Moment(datetime):
    """An instant, in UTC, of a rule whose zone is another one: what its clock shows counts where columns have no zone.

    It compares with others as the instant that it is.
    """

    zone: tzinfo
    wall: datetime

    @classmethod
    def of(cls, instant: datetime, zone: tzinfo, wall: datetime | None = None) -> Self:
        """The instant in a zone, which may be written as a time that the clock skips."""
        utc = instant.astimezone(UTC)
        made = cls(utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, tzinfo=UTC)
        made.zone = zone
        made.wall = utc.astimezone(zone).replace(tzinfo=None, fold=0) if wall is None else wall
        return made

    @classmethod
    def shown(cls, wall: datetime, zone: tzinfo) -> Self:
        """The instant at which the clock of a zone shows this."""
        return cls.of(instant_at(wall, zone), zone, wall)

    def __reduce_ex__(self, _: Any) -> Any:  # a copy keeps its zone
        return type(self).of, (datetime.fromisoformat(self.isoformat()), self.zone, self.wall)

    def later(self, months: int, days: int, rest: timedelta) -> Self:
        """The instant after months and days of the zone's calendar, then an exact time."""
        local = self.astimezone(self.zone)
        month = local.year * 12 + local.month - 1 + months
        year, month = month // 12, month % 12 + 1
        last = (datetime(year + month // 12, month % 12 + 1, 1) - timedelta(days=1)).day
        wall = local.replace(tzinfo=None, fold=0, year=year, month=month, day=min(local.day, last))
        return type(self).of(instant_at(wall + timedelta(days=days), self.zone, local.utcoffset()) + rest, self.zone)

    def begun_day(self) -> tuple[date, bool]:
        """The last day of the zone that has begun, and whether it begins just now."""
        day = self.astimezone(self.zone).date() + timedelta(days=1)
        while (begin := _midnight(day, self.zone)) > self:
            day -= timedelta(days=1)
        return day, begin == self


class Day(date):
    """A day of a rule whose zone is not UTC."""

    zone: tzinfo

    @classmethod
    def of(cls, day: date, zone: tzinfo) -> Self:
        """The day in a zone."""
        made = cls(day.year, day.month, day.day)
        made.zone = zone
        return made

    def __reduce_ex__(self, _: Any) -> Any:  # a copy keeps its zone
        return type(self).of, (date(self.year, self.month, self.day), self.zone)


def _midnight(day: date, zone: tzinfo) -> datetime:
    return instant_at(datetime(day.year, day.month, day.day), zone)


def at_midnight(day: date) -> datetime:
    """A date as the instant at which it begins, in its zone or UTC; an instant as it is."""
    if isinstance(day, datetime):
        return day
    if isinstance(day, Day):
        return Moment.shown(datetime(day.year, day.month, day.day), day.zone)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def days_after(day: date, days: int) -> date:
    """The date so many days later, in the same zone."""
    later = date(day.year, day.month, day.day) + timedelta(days=days)
    return Day.of(later, day.zone) if isinstance(day, Day) else later


def clock_of(instant: datetime) -> datetime:
    """What the clock shows at an instant, in the zone of the rule or UTC."""
    return instant.wall if isinstance(instant, Moment) else instant.replace(tzinfo=None)


def bound_as(bound: Any, kind: str) -> Any:
    """A constant as a bound of columns of a kind: instants, what a clock shows, or dates."""
    if isinstance(bound, Moment):
        if kind == "timestamp_ntz":
            return bound.wall.replace(tzinfo=UTC)
        if kind == "date":
            day, is_begin = bound.begun_day()
            return day if is_begin else datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    elif isinstance(bound, Day) and kind == "timestamp":
        return at_midnight(bound)
    return bound


class Shifted(NamedTuple):
    """Microseconds moved by the offset of a zone."""

    counts: npt.NDArray[np.int64]
    fits: npt.NDArray[np.bool_] | None
    """Which of them there are; None where all."""


@lru_cache(_DAYS_KEPT)
def _offsets_on(zone: str, day: int) -> tuple[int, int, int]:
    """Of a day of UTC: the offset at its begin, when another begins to count, and that one; no day has a third."""
    own = rules_of_zone(zone)
    assert own is not None, "UTC has no offsets"
    if day > _LAST_DAY:
        day -= -((_LAST_DAY - day) // _CYCLE) * _CYCLE
    begin = _EPOCH + timedelta(days=max(day, _FIRST_DAY))

    def offset(at: int) -> int:
        shown = (begin + at * _MICROSECOND).astimezone(own).utcoffset()
        assert shown is not None, "a zone has an offset"
        return shown // _MICROSECOND

    first, last = offset(0), offset(_DAY)
    if first == last:
        return first, _DAY, last
    low, high = 0, _DAY
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset(middle) == first else (low, middle)
    return first, high, last


def walls_of(instants: npt.NDArray[np.int64], zone: str) -> Shifted:
    """What the clock of a zone shows at instants, in microseconds; nothing where int64 does not hold it.

    By the zone database of Python, whose rules go on for ever; beyond the years of its calendar, by those of 400 years
    before.
    """
    if rules_of_zone(zone) is None or not len(instants):
        return Shifted(instants, None)
    days = instants // _DAY
    low = int(days.min())
    span = int(days.max()) - low + 1
    if span <= _DAYS_KEPT + len(days):  # as a rule, and then nothing is sorted
        is_there = np.zeros(span, np.bool_)
        is_there[days - low] = True
        distinct, where = np.flatnonzero(is_there) + low, (np.cumsum(is_there) - 1)[days - low]
    else:
        distinct, where = np.unique(days, return_inverse=True)
    first, begin, last = np.array([_offsets_on(zone, day) for day in distinct.tolist()], np.int64).T
    offsets = first[where]
    if (first != last).any():
        offsets = np.where(instants - days * _DAY >= begin[where], last[where], offsets)
    walls = instants + offsets
    fits = ((instants ^ walls) & (offsets ^ walls)) >= 0
    return Shifted(walls, None if fits.all() else fits)


def instants_at(walls: npt.NDArray[np.int64], zone: str) -> Shifted:
    """The instants at which the clock of a zone shows this, in microseconds; none beyond the years 1 to 9999."""
    own = rules_of_zone(zone)
    if own is None:
        return Shifted(walls, None)
    distinct, where = np.unique(walls, return_inverse=True)
    naive = _EPOCH.replace(tzinfo=None)
    found, fits = np.zeros(len(distinct), np.int64), np.ones(len(distinct), np.bool_)
    for place, each in enumerate(distinct.tolist()):
        try:
            found[place] = (instant_at(naive + each * _MICROSECOND, own) - _EPOCH) // _MICROSECOND
        except OverflowError:
            fits[place] = False
    return Shifted(found[where], None if fits.all() else fits[where])


def instants_of(walls: Any, zone: str) -> Any:
    """An Arrow array of timestamps without a zone as instants of a zone, in microseconds; null where there is none."""
    utc = pa.timestamp("us", tz="UTC")
    if rules_of_zone(zone) is None:
        return walls.cast(utc)
    encoded = (walls.combine_chunks() if isinstance(walls, pa.ChunkedArray) else walls).cast(pa.timestamp("us"))
    found, fits = instants_at(np.asarray(encoded.fill_null(0).view(pa.int64())), zone)
    valid = np.asarray(encoded.is_valid())
    return pa.array(found, mask=~(valid if fits is None else valid & fits)).view(utc)
