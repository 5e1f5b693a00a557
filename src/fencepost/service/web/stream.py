"""The stream of events: server-sent events that go on where a reader stopped.

Each has its position as its id, so that a browser, or any reader that sends Last-Event-ID, goes on behind the last one
it has seen: none is sent twice to it, and none is left out. Nothing is kept for a reader but its position: events are
read from the log. One that leaves them unread, or falls too far behind, is dropped and told so.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fencepost.errors import FencepostError
from fencepost.service.event_log import EventFilter
from fencepost.service.refusals import BehindError, GoneError, RefusalError
from fencepost.service.service import Service
from fencepost.service.web.answers import event_dicts, to_json
from fencepost.service.web.doors import refusals
from fencepost.service.web.events import Detect, Label, Object, Rule, read_filter
from fencepost.service.web.rules import READS, Serving

router = APIRouter(prefix="/v1", tags=["events"])

_AT_ONCE = 500
_HEARTBEAT = 15.0
_ENDED = "event: dropped\ndata: {}\n\n".format(
    to_json({
        "got": "a token that is valid no more",
        "expected": "one that is, with the scope read",
        "remedy": "Make one: fencepost token create NAME --scope read.",
    })
)  # fmt: skip


class EventStream(Response):
    """Sends events as long as somebody reads them.

    Args:
        service: whose events.
        after: the position behind which to begin.
        asked: which events.
        readers: those that there are, by something of their own.
        may_read: whether the reader's token still opens this.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        service: Service,
        after: int,
        asked: EventFilter,
        readers: set[object],
        may_read: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__()
        self._may_read = may_read
        self._service, self._position, self._asked, self._readers = service, after, asked, readers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (as ASGI has it)
        """Send until the reader goes, or is dropped."""
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        headers.append((b"cache-control", b"no-store"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.ensure_future(self._until_gone(receive))
        sending = asyncio.ensure_future(self._send_all(send))
        self._readers.add(self)
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._readers.discard(self)
            for task in (gone, sending):
                task.cancel()
        results = await asyncio.gather(sending, return_exceptions=True)
        if isinstance(results[0], Exception) and not isinstance(results[0], (TimeoutError, OSError)):
            raise results[0]

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _send_all(self, send: Send) -> None:
        service, limits = self._service, self._service.settings.limits
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        async def write(text: str, more: bool = True) -> None:
            part = {"type": "http.response.body", "body": text.encode(), "more_body": more}
            await asyncio.wait_for(send(part), limits.stalled)

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(news.set)

        await write(f": events behind {self._position}\nretry: 1000\n\n")
        has_caught_up = False
        with service.listening(wake):
            while True:
                news.clear()
                if not await self._may_read():  # the doors remember it for two seconds
                    await write(_ENDED, more=False)
                    return
                if has_caught_up and service.last_event - self._position > limits.behind:
                    await write(self._dropped(limits.behind), more=False)
                    return
                page = await run_in_threadpool(service.events, self._position, self._asked, _AT_ONCE)
                self._position = page.next
                if page.events.num_rows:
                    await write("".join(map(_message, event_dicts(page.events))))
                if self._position < service.last_event:
                    continue
                has_caught_up = True
                try:
                    await asyncio.wait_for(news.wait(), _HEARTBEAT)
                except TimeoutError:
                    await write(": alive\n\n")

    def _dropped(self, most: int) -> str:
        said = {
            "got": f"a reader that is more than {most:,} events behind",
            "expected": "one that reads as fast as events come",
            "remedy": f"Go on with Last-Event-ID: {self._position}, or ask for fewer events with filters.",
        }
        return f"event: dropped\ndata: {to_json(said)}\n\n"


def _message(event: dict[str, Any]) -> str:
    return f"id: {event['position']}\ndata: {to_json(event)}\n\n"


@router.get(
    "/events/stream",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Events."}, **refusals(404, 410, 503)},
    dependencies=[READS],
)
async def stream(
    request: Request,
    service: Serving,
    after: Annotated[int | None, Query(ge=0, lt=2**62, description="A position; without it only new events.")] = None,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=40)] = None,
    rule: Rule = None,
    object: Object = None,
    detect: Detect = None,
    label: Label = None,
) -> Response:
    """Events as they happen, as server-sent events. Last-Event-ID goes on behind the last one that was seen."""
    if last_event_id:
        if not (last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19):
            raise RefusalError(f"Last-Event-ID: {last_event_id}", "the id of an event of this stream", "Correct it.")
        after = int(last_event_id)
    last, first = service.last_event, service.first_event
    position = last if after is None else after
    if position > last:
        raise RefusalError(
            f"a position of {position}", f"at most {last}, the last event", "Leave it out, or correct it."
        )
    if 0 < position < first - 1:
        raise GoneError(
            f"events behind {position}, of which some are kept no more",
            f"a position from {first - 1} on",
            f"Go on with after={first - 1}, and take what is missing from elsewhere.",
        )
    readers = request.app.state.readers
    if len(readers) >= service.settings.limits.readers:
        raise BehindError(f"{len(readers)} readers of the stream", "fewer", "Close some, or try again later.")
    asked = await run_in_threadpool(read_filter, service, rule, object, detect, label)

    async def may_read() -> bool:
        try:
            caller = await request.app.state.doors.find(request)
        except FencepostError:  # nobody can say so for too long
            return False
        return caller is not None and caller.may("read")

    return EventStream(service, position, asked, readers, may_read)
