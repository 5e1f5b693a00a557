"""A console as a server of its own, in a thread: for pipelines, the demo, and a program with a Monitor."""

import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

from fencepost.console.app import make_console
from fencepost.console.door import Door
from fencepost.console.source import Source
from fencepost.errors import FencepostError

_LOOPBACK = ("127.0.0.1", "localhost")
_STARTING = 15.0


class ConsoleServer:
    """Serves the pages of a source on this machine until it is stopped; `address` opens them.

    It listens on loopback alone, and its pages open to who has the token in `address`.

    Args:
        source: what pages are made of.
        port: where to listen; 0 takes one that is free.
        token: what opens the pages; without one it makes one.
    """

    def __init__(self, source: Source, port: int = 0, token: str | None = None) -> None:
        import uvicorn

        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((_LOOPBACK[0], port))
        except OSError as error:
            self._socket.close()
            raise FencepostError(
                f"port {port} of this machine ({error.strerror})", "a port that is free", "Name another one."
            ) from None
        self.port: int = self._socket.getsockname()[1]
        self._door = Door(make_console(source), {f"{host}:{self.port}" for host in _LOOPBACK}, token)
        config = uvicorn.Config(
            self._door,
            log_level="error",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server: Any = uvicorn.Server(config)  # in a thread it leaves signals to the program
        self._thread = threading.Thread(target=self._run, name="fencepost console", daemon=True)

    @property
    def base(self) -> str:
        """Where it listens."""
        return f"http://{_LOOPBACK[0]}:{self.port}"

    @property
    def address(self) -> str:
        """What opens the pages: for those who may."""
        return f"{self.base}/?token={self._door.token}"

    def start(self) -> Self:
        """Begin to serve."""
        self._thread.start()
        end = time.monotonic() + _STARTING
        while not self._server.started and self._thread.is_alive() and time.monotonic() < end:
            time.sleep(0.01)
        if not self._server.started:
            raise FencepostError(f"the console at {self.base} did not start", "a server that answers", "Try again.")
        return self

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End; open pages lose their connection."""
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
