"""The pages of a service behind its own doors: a session begins with a token, and its scopes say what one may do."""

import asyncio
import contextlib
from typing import Any

from jinja2 import Environment
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Match

from fencepost.console.app import asks_for_fragment, is_same_origin, make_console, make_environment
from fencepost.console.paper import Paper
from fencepost.console.source import Source
from fencepost.service.refusals import BehindError
from fencepost.service.web.answers import refuse
from fencepost.service.web.doors import COOKIE

_ENTER, _STREAM = "/enter", "/events/stream"
_READ_ONLY = ("/rules/read", "/rules/try")
"""Forms that change nothing."""
_SESSION = 12 * 3600


def mount_console(source: Source) -> Any:
    """What `make_app(service, pages=[...])` takes: the pages of a source behind the doors of the service."""

    def mount(app: Any) -> None:
        app.mount("/", _Guarded(source, app.state))

    return mount


def scope_for(method: str, path: str) -> str:
    """What one must be allowed to do for a request."""
    if method in ("GET", "HEAD") or path in _READ_ONLY:
        return "read"
    return "publish" if path.startswith("/versions/") else "write"


class _Guarded:
    """Asks who it is, and passes on what they may."""

    def __init__(self, source: Source, state: Any) -> None:
        self._state = state
        templates: Environment = make_environment()
        self._paper = Paper(source, templates)
        self._console = make_console(source, extra=(self._enter, self._leave))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        request = Request(scope, receive)
        path = request.url.path
        for route in request.app.routes:  # pages are asked for all that no route has matched in full
            match, more = route.matches(scope)
            if match is Match.PARTIAL:
                await route.handle({**scope, **more}, receive, send)  # which says what methods it has
                return
        if path.startswith("/v1/"):
            raise HTTPException(404, "Not Found")
        if path != _ENTER and not path.startswith("/static/"):
            caller = await self._state.doors.find(request)
            if caller is None and (path == _STREAM or asks_for_fragment(request)):
                # A script would follow to the page of the door, and take it for what it asked for.
                await PlainTextResponse("Enter again.\n", 401)(scope, receive, send)
                return
            if caller is None:
                await RedirectResponse(_ENTER, 303)(scope, receive, send)
                return
            if not caller.may(scope_for(request.method, path)):
                page = self._paper.page(
                    "refused.html", request, 403, place="", is_look=False,
                    error=f"The token of {caller.name} allows {', '.join(sorted(caller.scopes))}. "
                    f"This needs the scope {scope_for(request.method, path)}.",
                )  # fmt: skip
                await page(scope, receive, send)
                return
            scope["fencepost.author"] = caller.name
        if path == _STREAM:
            await self._follow(request, receive, send)
        else:
            await self._console(scope, receive, send)

    async def _follow(self, request: Request, receive: Any, send: Any) -> None:
        """Let somebody follow the events, as one of the readers of the stream, as long as they may and do read."""
        limits, readers = self._state.service.settings.limits, self._state.readers
        if len(readers) >= limits.readers:
            fault = BehindError(f"{len(readers)} readers of the stream", "fewer", "Close some, or try again later.")
            await refuse(fault)(request.scope, receive, send)
            return

        async def may_read() -> bool:
            caller = await self._state.doors.find(request)
            return caller is not None and caller.may("read")

        async def send_in_time(message: Any) -> None:
            await asyncio.wait_for(send(message), limits.stalled)

        request.scope["fencepost.may_read"] = may_read
        reader = object()
        readers.add(reader)
        try:
            with contextlib.suppress(TimeoutError, ClientDisconnect):  # who leaves it unread is let go
                await self._console(request.scope, receive, send_in_time)
        finally:
            readers.discard(reader)

    async def _enter(self, request: Request) -> Any:
        """The page that asks for a token, and what it sends."""
        if request.method != "POST":
            return self._paper.page("enter.html", request, place="", wrong=False)
        async with request.form() as form:
            begun = await self._state.doors.begin_session(str(form.get("token", "")).strip()[:200])
        if begun is None:
            return self._paper.page("enter.html", request, 401, place="", wrong=True)
        answer = RedirectResponse("/", 303)
        secure = self._state.doors.secure
        answer.set_cookie(COOKIE, begun[0], max_age=_SESSION, httponly=True, samesite="strict", secure=secure)
        return answer

    async def _leave(self, request: Request) -> Any:
        """End the session."""
        if is_same_origin(request):
            self._state.doors.end_session(request.cookies.get(COOKIE))
        answer = RedirectResponse(_ENTER, 303)
        answer.delete_cookie(COOKIE)
        return answer
