"""Why an event happened, of boxes and of bands."""

from fencepost.monitor import BandReason, Reason
from tests.monitor.band_examples import CLOSE
from tests.monitor.band_examples import monitor_of as band_monitor_of
from tests.monitor.examples import monitor_of


def test_why_shows_the_boxes_and_the_values() -> None:
    monitor = monitor_of("symbol = 'IBM' AND price BETWEEN 40 AND 50 OR price > 100", object="symbol")
    monitor.update({"symbol": ["IBM"], "ts": [1], "price": [39.0]})
    event = monitor.update_one("IBM", 2, price=41.5)[0]
    reason = monitor.why(event)
    assert str(reason) == (
        "IBM: enter of rule 1 (version 1)\n"
        "  price: 39.0 -> 41.5\n"
        "  100.00000000000001 <= price: neither\n"
        "  symbol = 'IBM' and 40.0 <= price <= 50.0: after"
    )
    events = monitor.update({"symbol": ["IBM"], "ts": [3], "price": [55.0]})
    assert monitor.why(events).detect == "exit"
    told = monitor.why(events.to_pylist()[0])
    assert isinstance(told, Reason)
    assert told.boxes[1].held_before


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
        "1 and 2: enter of rule 1 (version 1)",
        "  price: None -> 5.5",
        "  -1.0 <= left.price - right.price <= 1.0",
        "  left.symbol = right.symbol",
        "  left.side = 'bid'",
    ]
