"""Endings: streams have no end of their own, so when the service stops, each is told that its reader has gone."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Endings:
    """Ends what is still being sent, as soon as an event is set.

    Args:
        app: what it is for.
        closing: set when the service stops.
    """

    def __init__(self, app: ASGIApp, closing: asyncio.Event) -> None:
        self._app, self._closing = app, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on; those that bring a body are short, and are done."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        is_open = False

        async def note(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        async def receive_or_end() -> Message:
            tasks: list[asyncio.Future[Any]] = [
                asyncio.ensure_future(receive()), asyncio.ensure_future(self._closing.wait())
            ]  # fmt: skip
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                return tasks[0].result() if tasks[0].done() else {"type": "http.disconnect"}
            finally:
                for task in tasks:
                    task.cancel()

        await self._app(scope, receive_or_end, note)
        if is_open and self._closing.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
