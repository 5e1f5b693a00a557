"""A service as a process of its own, on loopback, that tests start, call and kill."""

import contextlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

_STARTS = 120.0


class Process:
    """`fencepost serve` over a directory; its clients show the token that it keeps there."""

    def __init__(self, data: Path, options: Sequence[str] = ()) -> None:
        self.data, self._options = data, options
        self.url = ""
        self._process: Any = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "fencepost", "serve", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        self._process = subprocess.Popen(  # noqa: S603 (ours)
            [*command, *self._options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        first = self._process.stdout.readline()
        match = re.search(r"http://\S+", first)
        if match is None:
            raise AssertionError(first + self._process.stderr.read())
        self.url = match[0]
        self.token = self._process.stdout.readline().partition(" ")[2].strip()
        deadline = time.monotonic() + _STARTS
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            time.sleep(0.02)
        raise AssertionError("the service does not answer")

    def client(self, **given: Any) -> httpx.Client:
        """A client with the token."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60.0, **given)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.communicate()

    def stop(self, number: signal.Signals = signal.SIGINT) -> str:
        """End it as Ctrl-C does, or by another signal; what it said."""
        self._process.send_signal(number)
        return str(self._process.communicate(timeout=60)[1])

    def is_running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None


@contextlib.contextmanager
def running(data: Path, *options: str) -> Iterator[Process]:
    """A service that runs, and is ended in any case."""
    process = Process(data, options)
    process.start()
    try:
        yield process
    finally:
        if process.is_running():
            process.kill()
