"""A monitor that coroutines share."""

import asyncio
import threading
from typing import Any

from tests.monitor.examples import ONE, monitor_of


def test_coroutines_get_what_plain_calls_would() -> None:
    beside, alone = monitor_of("x >= 1"), monitor_of("x >= 1")
    rows = [(7, time, float(time % 3)) for time in range(1, 20)]

    async def play() -> list[Any]:
        told = [event for id, time, x in rows for event in await beside.aupdate_one(id, time, x=x)]
        table = await beside.aupdate({"vehicle": [8], "ts": [1], "x": [1.0]})
        return [*told, *table.to_pylist()]

    expected: list[Any] = [event for id, time, x in rows for event in alone.update_one(id, time, x=x)]
    expected += alone.update({"vehicle": [8], "ts": [1], "x": [1.0]}).to_pylist()
    assert asyncio.run(play()) == expected


def test_calls_are_made_in_the_order_in_which_they_were_awaited() -> None:
    monitor = monitor_of("x >= 1")

    async def play() -> None:
        await asyncio.gather(*(monitor.aupdate_one(7, time, x=1.0) for time in range(200)))

    asyncio.run(play())
    assert monitor.counters["rows"] == 200
    assert monitor.counters["late"] == 0, "a row that overtook another would make that one late"


def test_the_event_loop_goes_on_while_the_monitor_works() -> None:
    go_on = threading.Event()
    monitor = monitor_of("x >= 1", late=lambda _: go_on.wait(10))
    monitor.update(ONE)

    async def play() -> int:
        late = asyncio.create_task(monitor.aupdate({"vehicle": [7], "ts": [0], "x": [1.0]}))
        ticks = 0
        while not late.done():
            await asyncio.sleep(0.001)
            ticks += 1
            if ticks == 5:
                go_on.set()
        await late
        return ticks

    assert asyncio.run(play()) >= 5
    assert monitor.counters["late"] == 1


def test_several_loops_may_use_one_monitor() -> None:
    monitor = monitor_of("x >= 1")
    for time in range(3):
        asyncio.run(monitor.aupdate_one(7, time, x=1.0))
    assert monitor.counters["rows"] == 3
