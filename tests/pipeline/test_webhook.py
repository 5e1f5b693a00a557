"""The webhook against receivers that are hostile or do not speak HTTP."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fencepost.pipeline.runtime.webhook import Hook, Posted, post_rows

ROWS = [(f'{{"event_id": "e{n}", "price": {n}}}', f"e{n}") for n in range(3)]


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Recording(BaseHTTPRequestHandler):
    """Notes every request, and answers as its server says."""

    def _answer(self) -> None:
        self.server.requests.append((self.command, dict(self.headers)))  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, location = self.server.answer  # type: ignore[attr-defined]
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = _answer  # noqa: N815 (the names of http.server)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def recorder(status: int, location: str = "") -> Any:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Recording)
    server.requests, server.answer = [], (status, location)
    return server


def hook_to(address: str, dead: Path, retries: int = 1) -> Hook:
    return Hook(address, {"Authorization": "Bearer secret"}, retries, 0.001, 5.0, str(dead))


def letters(dead: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(dead.iterdir()) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_no_header_goes_to_another_host(tmp_path: Path, status: int) -> None:
    with serving(recorder(200)) as elsewhere, serving(recorder(status)) as server:
        server.answer = (status, f"http://127.0.0.1:{elsewhere.server_port}/")
        posted = post_rows(ROWS, hook_to(f"http://127.0.0.1:{server.server_port}/", tmp_path), "a.json")
        assert elsewhere.requests == []
        assert [command for command, _ in server.requests] == ["POST"] * len(ROWS), "a redirect will not pass"
    assert posted == Posted(0, 0, len(ROWS))
    dead = letters(tmp_path)
    assert [letter["event"]["event_id"] for letter in dead] == ["e0", "e1", "e2"]
    assert {letter["attempts"] for letter in dead} == {1}
    assert all(letter["said"].startswith(str(status)) for letter in dead)
    assert all("redirects are not followed" in letter["said"] for letter in dead)


def test_a_redirect_to_a_file_is_refused(tmp_path: Path) -> None:
    with serving(recorder(302, "file:///etc/hostname")) as server:
        assert post_rows(ROWS, hook_to(f"http://127.0.0.1:{server.server_port}/", tmp_path), "a.json").posted == 0


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1:1/x", "data:text/plain,x"])
def test_only_http_is_spoken(tmp_path: Path, address: str) -> None:
    assert post_rows(ROWS, hook_to(address, tmp_path), "a.json") == Posted(0, 1, len(ROWS))


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 200 " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n",
        b"HTTP/1.1 \x1b[31m\x9b OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
    ids=["ssh", "nothing", "a long line", "200 headers", "no status", "a long header"],
)
def test_a_receiver_that_does_not_speak_http_is_retried_and_counted(tmp_path: Path, answer: bytes) -> None:
    class Odd(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(answer)

    server: Any = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Odd)
    with serving(server):
        hook = hook_to(f"http://127.0.0.1:{server.server_address[1]}/", tmp_path, retries=2)
        posted = post_rows(ROWS, hook, "a.json")
    assert posted == Posted(0, 2, len(ROWS)), "the first event is tried again; then the receiver counts as down"
    dead = letters(tmp_path)
    assert [letter["attempts"] for letter in dead] == [3, 1, 1]
    assert all(letter["said"] and letter["said"].isprintable() for letter in dead)
