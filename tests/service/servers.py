"""A server in a thread of this process, on loopback: real HTTP without another interpreter."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from fencepost.service.service import Service
from fencepost.service.web.app import make_app
from fencepost.service.web.protocol import Protocol
from fencepost.service.web.serving import open_socket, url_of


@contextmanager
def listening(service: Service, **given: Any) -> Iterator[str]:
    """The address of a server over a service."""
    opened = open_socket("127.0.0.1", 0)
    app = make_app(service, **given)
    config = uvicorn.Config(app, http=Protocol, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield url_of(opened, tls=False)
    finally:
        server.should_exit = True
        thread.join()
        opened.close()
