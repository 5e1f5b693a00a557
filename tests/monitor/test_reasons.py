"""Why an event happened, of boxes and of bands."""

from datetime import UTC, date, datetime

from fencepost.monitor import BandReason, Monitor, Reason
from fencepost.rules import Rules
from tests.monitor.band_examples import CLOSE
from tests.monitor.band_examples import monitor_of as band_monitor_of
from tests.monitor.examples import monitor_of


def test_why_shows_the_boxes_and_the_values() -> None:
    monitor = monitor_of("symbol = 'IBM' AND price BETWEEN 40 AND 50 OR price > 100", object="symbol")
    monitor.update({"symbol": ["IBM"], "ts": [1], "price": [39.0]})
    event = monitor.update_one("IBM", 2, price=41.5)[0]
    reason = monitor.why(event)
    assert str(reason) == (
        "IBM: enter of rule 1 (version 1) at 2\n"
        "  price: 39.0 -> 41.5\n"
        "  symbol: IBM -> IBM\n"
        "  100.0 < price: neither\n"
        "  symbol = 'IBM' and 40.0 <= price <= 50.0: after, because of 40.0 <= price <= 50.0"
    )
    events = monitor.update({"symbol": ["IBM"], "ts": [3], "price": [55.0]})
    assert monitor.why(events).detect == "exit"
    reason = monitor.why(events.to_pylist()[0])
    assert isinstance(reason, Reason)
    assert reason.boxes[1].held_before


def test_why_names_what_was_decisive() -> None:
    rules = Rules()
    rules.add(1, "venue = 'X' AND price BETWEEN 40 AND 50 AND volume > 7", detect="enter,exit")
    monitor = Monitor(rules, object="symbol", time="ts")

    def after(ts: int, **row: object) -> tuple[bool, bool, tuple[str, ...], str]:
        reason = monitor.why(monitor.update({"symbol": ["IBM"], "ts": [ts], **{key: [row[key]] for key in row}}))
        assert isinstance(reason, Reason)
        assert (reason.time, set(reason.before)) == (ts, {"price", "volume", "venue"})
        (box,) = reason.boxes
        return box.held_before, box.holds_after, box.decisive, str(box).partition(": ")[2]

    first = after(1, venue="X", price=41.0, volume=9.0)
    assert first == (False, True, ("venue", "price", "volume"), "after"), "all of it is new"
    moved = after(2, venue="Y", price=42.0, volume=9.0)
    assert moved == (True, False, ("venue",), "before, not after, because of venue = 'X'")
    assert after(3, venue="X", price=43.0, volume=9.0)[2] == ("venue",)
    assert after(4, venue="X", price=60.0, volume=1.0)[2] == ("price", "volume")
    monitor.update({"symbol": ["IBM"], "ts": [5], "venue": ["X"], "price": [45.0], "volume": [2.0]})
    event = monitor.update({"symbol": ["IBM"], "ts": [6], "venue": ["X"], "price": [45.0], "volume": [9.0]})
    reason = monitor.why(event)
    assert isinstance(reason, Reason)
    assert reason.boxes[0].decisive == ("volume",)
    without = {name: value for name, value in event.to_pylist()[0].items() if not name.startswith("venue")}
    assert "venue" not in monitor.why(without).after, "an event may come from a file of before"


def test_why_tells_the_band() -> None:
    monitor = band_monitor_of(f"{CLOSE} AND left.symbol = right.symbol AND left.side = 'bid'")
    events = monitor.update(
        left={"id": [1], "ts": [1], "price": [5.0], "symbol": ["x"], "side": ["bid"]},
        right={"id": [2], "ts": [3], "price": [5.5], "symbol": ["x"]},
    )
    reason = monitor.why(events.to_pylist()[0])
    assert isinstance(reason, BandReason)
    assert (reason.lower, reason.upper, reason.before, reason.after) == (-1.0, 1.0, {"price": None}, {"price": 5.5})
    assert str(reason).splitlines() == [
        "1 and 2: enter of rule 1 (version 1) at 3",
        "  price: None -> 5.5",
        "  -1.0 <= left.price - right.price <= 1.0",
        "  left.symbol = right.symbol",
        "  left.side = 'bid'",
    ]


def test_why_leaves_open_ends_of_times_open() -> None:
    rules = Rules()
    rules.add(1, "seen >= TIMESTAMP '2026-01-01 00:00:00' AND day < DATE '2026-02-01'", detect="enter")
    monitor = Monitor(rules, object="vehicle")
    row = {"vehicle": [7], "seen": [datetime(2026, 1, 2, tzinfo=UTC)], "day": [date(2026, 1, 2)]}
    reason = monitor.why(monitor.update(row))
    assert isinstance(reason, Reason)
    assert reason.boxes[0].ranges["seen"] == (datetime(2026, 1, 1, tzinfo=UTC), None)
    assert reason.boxes[0].ranges["day"] == (None, date(2026, 1, 31))
