"""Receivers on loopback: good ones, slow ones, and those that mean harm."""

import json
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Heard:
    """What a receiver has heard, in order."""

    def __init__(self) -> None:
        self.posts: list[tuple[dict[str, str], Any]] = []
        self.lock = threading.Lock()
        self.url = ""

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body in self.posts]


@contextmanager
def receiver(answer: Callable[[Any], int] = lambda _: 200, wait: float = 0.0, location: str = "") -> Iterator[Heard]:
    """Answers every post with the status that `answer` gives for its body; hears those it takes."""
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            body = json.loads(raw)
            time.sleep(wait)
            with heard.lock:
                status = answer(body)
                if status < 300:
                    heard.posts.append(({**dict(self.headers), "raw": raw.decode()}, body))
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    with serve(Server(("127.0.0.1", 0), Handler)) as server:
        heard.url = f"http://127.0.0.1:{server.server_address[1]}/alerts?desk=4"
        yield heard


@contextmanager
def raw_receiver(said: bytes, pause: float = 0.0) -> Iterator[str]:
    """Says some bytes to whoever comes, whatever they want; its URL."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            time.sleep(pause)
            self.request.sendall(said)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with serve(Server(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}/"


@contextmanager
def serve(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
