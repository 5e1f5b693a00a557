"""The service beside the Monitor alone: durable batches, one row per call over HTTP, and a restart after a kill.

Every figure is of one run. What waits for the disk is shown beside how long this disk takes for one `fdatasync`.
"""

import argparse
import asyncio
import gc
import http.client
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, show_missed
from fencepost.book import RuleBook
from fencepost.monitor import Monitor
from fencepost.service.rows import ARROW, write_rows
from fencepost.service.service import Service
from fencepost.service.settings import Limits, Settings

FENCES = 100_000
OBJECTS = 20_000
ROWS = 1_000
STEP = 0.002
PER_SECOND = 1_000
CONNECTIONS = 32
SINGLE_OBJECTS = 1_000
"""Of the calls with one row: each has sent some when the measurement begins."""


def fill_book(data: Path, fences: int) -> None:
    """A book of small boxes, spread evenly."""
    rng = np.random.default_rng(1)
    x, y, side = rng.random(fences), rng.random(fences), 0.3 / np.sqrt(fences)
    table = pa.table({"rule_id": np.arange(fences), "x0": x, "x1": x + side, "y0": y, "y1": y + side})
    data.mkdir(parents=True, exist_ok=True)
    with RuleBook(f"sqlite:///{data / 'book.db'}") as book:
        book.add_table(table, ranges={"x": ("x0", "x1"), "y": ("y0", "y1")}, detect="enter,exit")


def batches(count: int, rows: int, objects: int) -> Iterator[pa.Table]:
    """Objects that move a little; every call has other ones."""
    rng = np.random.default_rng(2)
    places = rng.random((objects, 2))
    for number in range(count):
        chosen = (np.arange(rows) + number * rows) % objects
        places[chosen] = np.clip(places[chosen] + rng.normal(0, STEP, (rows, 2)), 0, 1)
        times = pa.array(np.full(rows, 1_700_000_000_000_000 + number * 1_000_000), pa.timestamp("us", "UTC"))
        yield pa.table({"object": chosen, "time": times, "x": places[chosen, 0], "y": places[chosen, 1]})


def measure_disk(directory: Path, seconds: float) -> list[float]:
    """How long the disk takes for a small write to be durable at the rate of the calls, in seconds, ascending.

    From when a write was due, as for calls: one that is slow makes those behind it late.
    """
    file, taken = os.open(directory / "probe", os.O_CREAT | os.O_WRONLY), []
    begun = time.perf_counter()
    for number in range(int(seconds * PER_SECOND)):
        due = begun + number / PER_SECOND
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        os.write(file, bytes(1000))
        os.fdatasync(file)
        taken.append(time.perf_counter() - due)
    os.close(file)
    return sorted(taken)


def quantiles(taken: list[float]) -> str:
    """Three of times in ascending order, in milliseconds."""
    return ", ".join(f"{taken[int(len(taken) * part)] * 1000:,.2f}" for part in (0.5, 0.99, 0.999))


def compare_batches(report: Report, home: Path, count: int) -> None:
    """Batches through the service, durably, beside the same ones through the Monitor alone, in turns."""
    with Service(Settings(data=home, limits=Limits(save_rows=1 << 60, save_seconds=1e9))) as service:
        service.settle()
        tables = list(batches(2 * count, ROWS, OBJECTS))
        monitor = Monitor(service.publishing.directory.load(), object="object", time="time", labels=True)
        rounds = 10
        some = len(tables) // rounds
        alone, durable, events = [], [], 0
        for number in range(rounds):
            part = tables[number * some : (number + 1) * some]
            begun = time.perf_counter()
            for table in part:
                events += monitor.update(table).num_rows
            alone.append(time.perf_counter() - begun)
            begun, waiting = time.perf_counter(), deque[Future[Any]]()
            for table in part:
                waiting.append(service.submit(table))
                if len(waiting) > 16:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
            durable.append(time.perf_counter() - begun)
        assert service.last_event == events, (service.last_event, events)
    own, theirs = min(durable), min(alone)
    what = f"{ROWS:,} rows a call, {FENCES:,} fences, durable events, 16 calls under way: rows/s over the Monitor alone"
    report.at_least(what, theirs / own, 0.5)
    report.note("the Monitor alone", f"{some * ROWS / theirs:,.0f} rows/s")
    report.note("the service, from Python", f"{some * ROWS / own:,.0f} rows/s, {events:,} events in all")


@contextmanager
def process(home: Path) -> Iterator[tuple[str, int, str, int]]:
    """`fencepost serve`: host, port, token, process."""
    command = [sys.executable, "-m", "fencepost", "serve", "--data", str(home), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:  # noqa: S603 (ours)
        assert running.stdout is not None
        address = running.stdout.readline().split("http://")[1].strip()
        token = running.stdout.readline().partition(" ")[2].strip()
        try:
            yield address.split(":")[0], int(address.split(":")[1]), token, running.pid
        finally:
            running.kill()


async def post(streams: Any, path: str, token: str, body: bytes, kind: str) -> bytes:
    """One call on a connection that stays open; the body of the answer."""
    reader, writer = streams
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 20",)), answer
    length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return bytes(await reader.readexactly(length))


def wait_for_rules(host: str, port: int, token: str) -> None:
    """Until the rules of the book are in force: a service takes rows before it has compiled them."""
    headers = {"Authorization": f"Bearer {token}"}
    while True:
        connection = http.client.HTTPConnection(host, port)
        connection.request("GET", "/v1/versions", headers=headers)
        if json.loads(connection.getresponse().read())["in_force"]:
            return
        time.sleep(0.2)


async def call_singly(host: str, port: int, token: str, seconds: float) -> list[float]:
    """One row per call, at a steady rate whatever the answers take; seconds from when a call was due, ascending."""
    gc.collect()
    gc.disable()  # a pause of whoever calls is none of the service
    try:
        return await _call_singly(host, port, token, seconds)
    finally:
        gc.enable()


async def _call_singly(host: str, port: int, token: str, seconds: float) -> list[float]:
    free: asyncio.Queue[Any] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection(host, port))
    rng, taken, begun = np.random.default_rng(3), list[float](), time.perf_counter()
    calls = int(seconds * PER_SECOND)
    places = rng.random((SINGLE_OBJECTS, 2))

    async def call(number: int, due: float) -> None:
        streams = await free.get()
        object = number % SINGLE_OBJECTS
        places[object] += rng.normal(0, STEP, 2)
        row = {"object": object, "x": places[object, 0], "y": places[object, 1]}
        await post(streams, "/v1/observations?wait=true", token, json.dumps(row).encode(), "application/json")
        taken.append(time.perf_counter() - due)
        free.put_nowait(streams)

    tasks = []
    for number in range(calls):
        due = begun + number / PER_SECOND
        if (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        tasks.append(asyncio.ensure_future(call(number, due)))
    await asyncio.gather(*tasks)
    return sorted(taken[calls // 4 :])


async def call_in_batches(host: str, port: int, token: str, count: int) -> float:
    """Rows per second of batches as Arrow streams, on four connections."""
    bodies = [write_rows(table) for table in batches(count, ROWS, OBJECTS)]
    waiting: deque[bytes] = deque(bodies)

    async def send() -> None:
        streams = await asyncio.open_connection(host, port)
        while waiting:
            await post(streams, "/v1/observations", token, waiting.popleft(), ARROW[0])

    begun = time.perf_counter()
    await asyncio.gather(*(send() for _ in range(4)))
    return count * ROWS / (time.perf_counter() - begun)


def cpu_of(pid: int) -> float:
    """Seconds that a process has computed so far, in all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compare_http(report: Report, home: Path, seconds: float, count: int) -> None:
    """Calls over loopback."""
    with process(home) as (host, port, token, pid):
        wait_for_rules(host, port, token)
        asyncio.run(call_singly(host, port, token, 2))  # what is loaded and compiled once
        before = cpu_of(pid)
        taken = asyncio.run(call_singly(host, port, token, seconds))
        busy = (cpu_of(pid) - before) / (seconds * PER_SECOND)
        rate = asyncio.run(call_in_batches(host, port, token, count))
    disk = measure_disk(home, 5.0)
    report.note(f"this disk, one fdatasync, {PER_SECOND:,} a second: p50, p99, p99.9", f"{quantiles(disk)} ms")
    most = taken[len(taken) * 99 // 100]
    report.note(f"one row per call, {PER_SECOND:,} calls/s, with its events: p50, p99, p99.9", f"{quantiles(taken)} ms")
    report.at_most(f"one row per call, {PER_SECOND:,} calls/s, with its events: p99", most * 1000, 5, " ms")
    report.note("one row per call: CPU of the service per call", f"{busy * 1000:,.2f} ms")
    report.note(f"{ROWS:,} rows a call as Arrow, four connections", f"{rate:,.0f} rows/s")


def log_rows(home: Path, rows: int, objects: int) -> None:
    """Let a service log rows, and die without a save."""
    limits = Limits(save_rows=1 << 60, save_seconds=1e9, waiting=1 << 60)
    service = Service(Settings(data=home, limits=limits))
    service.settle()
    waiting: deque[Future[Any]] = deque()
    for table in batches(rows // ROWS, ROWS, objects):
        waiting.append(service.submit(table))
        if len(waiting) > 64:
            waiting.popleft().result()
    while waiting:
        waiting.popleft().result()
    os._exit(0)


def compare_restart(report: Report, home: Path, rows: int, objects: int) -> None:
    """A restart after a kill."""
    child = multiprocessing.get_context("spawn").Process(target=log_rows, args=(home, rows, objects))
    child.start()
    child.join()
    begun = time.perf_counter()
    with Service(Settings(data=home, limits=Limits(save_rows=1 << 60, save_seconds=1e9))) as service:
        taken = time.perf_counter() - begun
        there = service.metrics()
    what = f"restart with {objects:,} objects and {rows:,} rows since the last save, {ROWS:,} a call"
    report.at_most(what, taken, 30, " s")
    report.note(
        "found again", f"{there['position']:,} records, {there['last_event']:,} events, {rows / taken:,.0f} rows/s"
    )


def run(full: bool) -> list[Report]:
    """One report; `full` logs ten times as many rows before the restart, and sends for longer."""
    rows, objects = (10_000_000, 1_000_000) if full else (1_000_000, 100_000)
    return [measure(["batches", "http", "restart"], None, 500 if full else 100, 10.0 if full else 5.0, rows, objects)]


def main() -> None:
    """Measure what is asked for, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("parts", nargs="*", default=["batches", "http", "restart"])
    parser.add_argument("--batches", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rows", type=int, default=10_000_000, help="logged before the restart")
    parser.add_argument("--objects", type=int, default=1_000_000, help="of the restart")
    parser.add_argument("--directory", type=Path, default=None, help="on the disk that is to be measured")
    given = parser.parse_args()
    report = measure(given.parts, given.directory, given.batches, given.seconds, given.rows, given.objects)
    report.show()
    show_missed([report])


def measure(parts: list[str], directory: Path | None, count: int, seconds: float, rows: int, objects: int) -> Report:
    """Measure some parts, on the disk of a directory."""
    report = Report("Service")
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        home = Path(scratch)
        fill_book(home / "book", FENCES)
        for part in parts:
            data = home / part
            shutil.copytree(home / "book", data)
            if part == "batches":
                compare_batches(report, data, count)
            elif part == "http":
                compare_http(report, data, seconds, count)
            else:
                compare_restart(report, data, rows, objects)
    return report


if __name__ == "__main__":
    main()
