"""What time a pipeline tells itself: late enough to be of use, never ahead of a row that is still to come."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.pipeline.file.ticks import Ticks
from fencepost.published.markers import Markers

SECOND = 1_000_000
LOOK = SECOND // 5
NOW = 1_800_000_000 * SECOND


def report(begun: int, lasted: int = 0, **newest: int | None) -> dict[str, Any]:
    """Progress as Spark reports it: when a micro-batch began, how long it lasted, the newest time of each source."""
    at = datetime.fromtimestamp(begun // SECOND, UTC) + timedelta(microseconds=begun % SECOND)
    return {
        "timestamp": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "durationMs": {"triggerExecution": lasted // 1000},
        "observedMetrics": {name: {"faults": 0, "newest": time} for name, time in newest.items()},
    }


class Remembered(Markers):
    """Markers that are no files."""

    def __init__(self) -> None:
        self.time: int | None = None

    def mark_time(self, time: datetime | int) -> None:
        assert isinstance(time, int)
        assert self.time is None or time > self.time
        self.time = time

    def newest(self) -> tuple[int, int | None]:
        return 0, self.time

    def forget_times(self, kept: int) -> None:
        assert kept > 1


class Clock:
    """Ticks, in a directory of their own where there is one."""

    def __init__(
        self, home: Path | None, tick: int = 60, every: int = 0, sources: Sequence[str] = ("a",), **options: Any
    ):
        self.markers = Remembered() if home is None else Markers(home)
        given = {"dates": False, "now": NOW, **options}
        self.ticks = Ticks(self.markers, sources, timedelta(seconds=tick), timedelta(seconds=every), **given)

    def tell(self, seconds: float, *, idle: bool = True, wanted: bool = True) -> int | None:
        """What was told so many seconds after the start."""
        self.ticks.tick(NOW + int(seconds * SECOND), idle=idle, wanted=lambda: wanted)
        return self.markers.newest()[1]


def test_time_goes_on_with_the_rows_and_without_them_with_the_wall_clock(tmp_path: Path) -> None:
    old = NOW - 10**9 * SECOND  # a replay
    clock = Clock(tmp_path)
    assert clock.tell(300) is None, "no row has come, so no time is known"
    clock.ticks.see(report(NOW + 300 * SECOND, a=old))
    assert clock.tell(300.1, idle=False) == old - 60 * SECOND
    assert clock.tell(330) == old - 60 * SECOND, "once a minute"
    assert clock.tell(361) == old, "a minute without a row, beside the second that a look may be late"
    clock.ticks.see(report(NOW + 370 * SECOND, a=old + 500 * SECOND))
    assert clock.tell(425, idle=False) == old + 440 * SECOND
    clock.ticks.see(report(NOW + 430 * SECOND, a=old))
    assert clock.tell(490, idle=False) == old + 440 * SECOND, "it does not go back"
    assert len(list(tmp_path.iterdir())) == 3


def test_no_time_ahead_of_the_wall_clock_and_none_while_nothing_can_end(tmp_path: Path) -> None:
    clock = Clock(tmp_path)
    clock.ticks.see(report(NOW + 5 * SECOND, a=NOW + 10**9 * SECOND))
    assert clock.tell(5, wanted=False) is None
    assert clock.tell(64, wanted=True, idle=False) is None, "once a minute"
    assert clock.tell(65, wanted=True, idle=False) == NOW - 55 * SECOND, "one row is years ahead"


def test_rows_that_wait_for_the_end_of_a_long_micro_batch_are_not_overtaken(tmp_path: Path) -> None:
    clock = Clock(tmp_path, tick=1, every=10)
    clock.ticks.see(report(NOW, lasted=100 * SECOND, a=NOW))
    assert clock.tell(100.1) == NOW - SECOND
    assert clock.tell(110.9) == NOW - SECOND, "the next trigger may be about to take what came since the last began"
    assert clock.tell(111) == NOW + 99 * SECOND


def test_of_two_sources_the_slower_one_counts_and_dates_go_on_by_the_day(tmp_path: Path) -> None:
    clock = Clock(tmp_path / "two", sources=("left", "right"))
    clock.ticks.see(report(NOW, left=NOW, right=None))
    assert clock.tell(0) == NOW - 60 * SECOND
    clock.ticks.see(report(NOW + SECOND, left=NOW + SECOND, right=NOW - 30 * SECOND))
    assert clock.tell(61) == NOW - 31 * SECOND, "the right is where it is, and the wall clock goes on"
    day = 86_400 * SECOND
    clock = Clock(tmp_path / "dates", dates=True)
    today = NOW - NOW % day
    clock.ticks.see(report(NOW, a=today))
    assert [clock.tell(hour * 3600) for hour in (0, 23, 24, 25, 26)] == [today - day, today, today, *[today + day] * 2]
    assert len(list((tmp_path / "dates").iterdir())) == 3, "one a day"


def test_a_clock_stands_while_the_pipeline_is_stopped_and_few_markers_stay(tmp_path: Path) -> None:
    clock = Clock(tmp_path, tick=1)
    clock.ticks.see(report(NOW, a=NOW))
    for second in range(2, 300):
        clock.tell(second)
    told = clock.tell(300)
    assert told == NOW + 298 * SECOND
    assert len(list(tmp_path.iterdir())) == 100
    again = Clock(tmp_path, tick=1, now=NOW + 5000 * SECOND)
    assert again.tell(5000.5) == told
    assert again.tell(5011) == told + 10 * SECOND, "what is silent ends although no row comes after the restart, either"


@st.composite
def streams(draw: st.DrawFn) -> dict[str, Any]:
    """Rows that are delayed by less than a tick more than others, and micro-batches of any length."""
    tick = draw(st.integers(1, 10))
    apart = draw(st.lists(st.integers(0, 15 * SECOND), min_size=1, max_size=8))
    behind = draw(st.sampled_from([0, 5 * SECOND, 10**9 * SECOND]))
    rows, arrived = [], NOW
    for each in apart:
        arrived += each
        rows.append((arrived, arrived - behind - draw(st.integers(0, tick * SECOND))))
    lasting = st.one_of(st.integers(1000, LOOK), st.integers(SECOND, 25 * SECOND))
    return {
        "tick": tick,
        "every": draw(st.sampled_from([0, 1, 9])),
        "rows": rows,
        "lasting": draw(st.lists(lasting, min_size=1, max_size=8)),
        "delays": draw(st.lists(st.integers(0, 9 * SECOND // 10), min_size=1, max_size=5)),
        "looks": draw(st.integers(LOOK, 3 * LOOK)),
    }


@settings(max_examples=80, deadline=None)
@given(streams())
def test_the_promise_is_kept_and_silence_is_noticed(case: dict[str, Any]) -> None:
    last = case["rows"][-1][0]
    every, lasting = case["every"] * SECOND, case["lasting"]
    longest = max(lasting) + 2 * every
    clock = Clock(None, case["tick"], case["every"])
    rows, heard, told = list(case["rows"]), -(10**30), -(10**30)
    trigger, busy_until, batches, triggers, ended = NOW, NOW, 0, 0, list[tuple[int, dict[str, Any]]]()
    at = NOW
    while at < last + 6 * longest + 10 * (case["tick"] + 2) * SECOND:
        while trigger <= at:  # all that came before a trigger is taken, markers before rows
            taken = [event for arrived, event in rows if arrived <= trigger]
            rows = [row for row in rows if row[0] > trigger]
            works = bool(taken) or told > heard
            heard = max(heard, told)
            assert all(event >= heard for event in taken), "a tick was ahead of a row"
            busy_until = trigger + (lasting[batches % len(lasting)] if works else 1000)
            if works:
                batches += 1
                ended.append((busy_until, report(trigger, busy_until - trigger, a=max(taken, default=None))))
            triggers += 1
            trigger = busy_until if not every else busy_until + (-(busy_until - NOW)) % every
            trigger += case["delays"][triggers % len(case["delays"])]
        for _, each in [one for one in ended if one[0] <= at]:
            clock.ticks.see(each)
        ended = [one for one in ended if one[0] > at]
        clock.ticks.tick(at, idle=busy_until <= at, wanted=lambda: True)
        told = clock.markers.newest()[1] or told
        at += case["looks"]
    newest = max(event for _, event in case["rows"])
    assert told > newest + at - last - 5 * longest - 4 * (case["tick"] + 2) * SECOND
