"""Events to a webhook whose receiver takes its time: deliveries per second, and whether each object's order is kept."""

import argparse
import json
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.harness import Report, show_missed
from fencepost.deliveries.hook import Hook
from fencepost.deliveries.sender import Sender
from fencepost.deliveries.spool import Event, Spool, stream_batch

PAUSE = 0.1
OBJECTS = 500


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


def run(full: bool) -> Report:
    """Measure one after the other, and many at once."""
    report = Report("Webhooks: a receiver that waits 100 ms before each answer")
    many, one = deliver(10_000 if full else 3_000, 100), deliver(30, 1)
    report.at_least("deliveries/s, concurrency = 100, in order per object", many, 500, "/s")
    report.note("deliveries/s, concurrency = 1", f"{one:,.1f}/s, so {many / one:,.0f} times as many at once")
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
