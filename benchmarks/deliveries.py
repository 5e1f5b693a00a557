"""Events to a webhook whose receiver takes its time, or hangs: deliveries per second, and what a stream notices."""

import argparse
import io
import json
import socket
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fencepost as fp
from benchmarks.harness import Report, show_missed
from fencepost.deliveries.hook import Hook
from fencepost.deliveries.sender import Sender
from fencepost.deliveries.spool import Event, Spool, stream_batch

PAUSE = 0.1
OBJECTS = 500
ROWS = 50_000
"""In a micro-batch."""
ROUNDS = 3
WARM = 6
"""Micro-batches that are not counted."""
PIPELINE = """
[source]
format = "parquet"
path = "in"
options = { maxFilesPerTrigger = 1 }
[rules]
directory = "published"
[operator]
kind = "watch"
object = "id"
time = "at"
buckets = 4
[[sink]]
format = "parquet"
path = "out"
checkpoint = "checkpoint"
"""


@contextmanager
def slow_receiver(heard: list[dict[str, int]]) -> Iterator[str]:
    """Takes every event after a pause; its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(PAUSE)
            heard.append(body)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def deliver(events: int, concurrency: int) -> float:
    """Deliveries per second."""
    given = [
        Event(f"id{number}", f"object {number % OBJECTS}", json.dumps({"object": number % OBJECTS, "number": number}))
        for number in range(events)
    ]
    heard: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory() as scratch, slow_receiver(heard) as url:
        spool, name = Spool(Path(scratch)), stream_batch(0)
        spool.commit(name, {0: spool.write_part(name, 0, given)})
        begun = time.monotonic()
        sender = Sender(spool, Hook(url, concurrency=concurrency)).start()
        try:
            sender.drain()
        finally:
            taken = time.monotonic() - begun
            sender.stop()
    orders = defaultdict(list)
    for body in heard:
        orders[body["object"]].append(body["number"])
    assert len(heard) == events
    assert all(order == sorted(order) for order in orders.values())
    return events / taken


@contextmanager
def hanging_receiver() -> Iterator[str]:
    """Takes connections, and never answers; its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


def write_input(home: Path, batches: int) -> None:
    """Files of rows, each a micro-batch, and rules that a few of the rows fire."""
    rng = np.random.default_rng(5)
    (home / "in").mkdir()
    for batch in range(batches):
        ids, at = rng.integers(0, 20_000, ROWS), batch * ROWS + np.arange(ROWS)
        table = pa.table({"id": ids, "at": at, "price": rng.normal(100.0, 10.0, ROWS).round(2)})
        pq.write_table(table, home / "in" / f"{batch:04}.parquet")
    rules = fp.Rules()
    for number in range(1000):
        rules.add(number, f"price BETWEEN {60 + number / 100} AND {60 + number / 100 + 0.02}", detect="enter")
    rules.publish(home / "published")


def trigger_seconds(spark: Any, url: str | None, batches: int) -> list[float]:
    """How long each micro-batch of a pipeline took, with a webhook or without, once it is warm."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from fencepost.pipeline import run as run_pipeline

    taken: list[float] = []
    stop = threading.Event()

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's names)
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            if event.progress.numInputRows:
                taken.append(event.progress.durationMs["triggerExecution"] / 1000)
            if len(taken) >= batches:
                stop.set()

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            home = Path(scratch)
            write_input(home, batches)
            hook = "" if url is None else f'[[sink]]\nformat = "webhook"\nurl = "{url}"\nwait = "5 seconds"\n'
            (home / "pipeline.toml").write_text(PIPELINE + hook)
            run_pipeline(home / "pipeline.toml", spark, out=io.StringIO(), stop=stop)
    finally:
        spark.streams.removeListener(listener)
    return taken[WARM:]


def compare_triggers(report: Report, full: bool) -> None:
    """A stream whose receiver hangs beside one without a webhook, in turns; each micro-batch has about 150 events."""
    from fencepost.pipeline.runtime.session import start_session

    spark = start_session("fencepost measures", "local[2]", {})
    batches = 40 if full else 20
    try:
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            with hanging_receiver() as url:
                for hangs in times:
                    times[hangs] += trigger_seconds(spark, url if hangs else None, batches)
    finally:
        spark.stop()
    without, hanging = (statistics.median(times[hangs]) for hangs in (False, True))
    report.at_most("trigger time of a stream whose receiver hangs, over one without webhook", hanging / without, 1.05)
    report.note("the same in seconds", f"{hanging:.3f} and {without:.3f}, medians of {len(times[True])} micro-batches")


def run(full: bool) -> Report:
    """Measure one after the other, and many at once."""
    report = Report("Webhooks: a receiver that waits 100 ms before each answer")
    many, one = deliver(10_000 if full else 3_000, 100), deliver(30, 1)
    report.at_least("deliveries/s, concurrency = 100, in order per object", many, 500, "/s")
    report.note("deliveries/s, concurrency = 1", f"{one:,.1f}/s, so {many / one:,.0f} times as many at once")
    compare_triggers(report, full)
    return report


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deliveries", description=__doc__)
    parser.add_argument("--full", action="store_true", help="more events")
    report = run(parser.parse_args().full)
    report.show()
    show_missed([report])


if __name__ == "__main__":
    main()
