"""Serving an application: where it listens, with what keys, until somebody ends it."""

import contextlib
import ipaddress
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from fencepost.errors import FencepostError
from fencepost.service.web.protocol import Protocol

DEFAULT_ADDRESS = "127.0.0.1:8480"
_LONG_BODY = 60
_TURN = 0.0005
"""Seconds after which the engine lets the event loop have a turn: with 5 ms, the default, each call waits that long."""


def read_address(text: str) -> tuple[str, int]:
    """The host and the port of `HOST:PORT`; `:PORT` is loopback.

    >>> read_address("127.0.0.1:8480"), read_address(":80"), read_address("[::1]:80")
    (('127.0.0.1', 8480), ('127.0.0.1', 80), ('::1', 80))
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise FencepostError(f"--listen {text}", "HOST:PORT", f"Write for example {DEFAULT_ADDRESS}.")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_open(host: str, cert: Path | None, key: Path | None, *, behind_proxy: bool) -> None:
    """Refuse to listen to others without TLS, unless somebody says that a proxy has it."""
    if (cert is None) != (key is None):
        raise FencepostError("one of --tls-cert and --tls-key", "both", "Name the file of the other, too.")
    for file in (cert, key):
        if file is not None and not file.is_file():
            raise FencepostError(f"{file} is no file", "a PEM file", "Correct the path.")
    if not is_loopback(host) and cert is None and not behind_proxy:
        raise FencepostError(
            f"--listen {host}, which others reach, without TLS",
            "--tls-cert and --tls-key, or --behind-proxy where a proxy speaks TLS",
            "Name the files, or listen at 127.0.0.1.",
        )


def open_socket(host: str, port: int) -> socket.socket:
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        raise FencepostError(
            f"{host}:{port} cannot be listened at ({error.strerror})", "a free port", "Choose another with --listen."
        ) from None
    opened.listen(1024)
    return opened


def url_of(opened: socket.socket, *, tls: bool) -> str:
    """The address to open."""
    host, port = opened.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http{'s' if tls else ''}://{shown}:{port}"


def serve(
    app: Any, opened: socket.socket, *, cert: Path | None = None, key: Path | None = None, behind_proxy: bool = False
) -> None:
    """Serve until a signal comes."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        log_level="warning",
        access_log=False,
        lifespan="on",
        server_header=False,
        proxy_headers=behind_proxy,
        ssl_certfile=None if cert is None else str(cert),
        ssl_keyfile=None if key is None else str(key),
        timeout_graceful_shutdown=5,
        timeout_keep_alive=_LONG_BODY,
    )
    sys.setswitchinterval(_TURN)
    # A server passes on the signal that ended it, when it is done. SIGTERM would then end the process before anything
    # is saved; so whoever serves goes on, and closes.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[opened])


class Server(uvicorn.Server):
    """A server that ends streams before it waits for calls to end."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See uvicorn."""
        self.config.app.state.closing.set()  # type: ignore[union-attr]
        await super().shutdown(sockets)
