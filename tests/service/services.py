"""Services for tests: in one process, in a directory of their own, and a client that calls the application."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fencepost.service.service import Service
from fencepost.service.settings import Settings
from fencepost.service.web.app import make_app


@contextmanager
def serving(data: Path, **given: Any) -> Iterator[Service]:
    """A service in a directory."""
    with Service(Settings(data=data, **given)) as service:
        yield service


class Client:
    """Calls an application in this process, without a server."""

    def __init__(self, service: Service, **given: Any) -> None:
        self._transport = httpx.ASGITransport(make_app(service, **given))

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        import asyncio

        async def call() -> httpx.Response:
            async with httpx.AsyncClient(transport=self._transport, base_url="http://127.0.0.1") as client:
                return await client.request(method, path, **given)

        return asyncio.run(call())
