"""The routes that programs call for every row go straight to what they do.

A framework that finds the route, solves what it depends on and checks what it returns takes several times as long as
one row itself. So these calls are answered before it is asked, by the same functions that it has as routes: from them
come /openapi.json and whatever is asked with another method. A caller needs the same scope, and is refused in the same
words.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from fencepost.errors import FencepostError
from fencepost.service.refusals import RefusalError
from fencepost.service.web import rows
from fencepost.service.web.answers import Answer, refuse

_FLAGS = {
    **dict.fromkeys(("", "1", "true", "t", "on", "yes", "y"), True),  # `?wait` alone, too
    **dict.fromkeys(("0", "false", "f", "off", "no", "n"), False),
}


class Straight:
    """Answers these calls, and passes others on.

    Args:
        app: what it is for.
        service: what it serves.
        doors: who may do what.
        refuse_http: how faults of HTTP are refused.
    """

    def __init__(
        self, app: ASGIApp, service: Any, doors: Any, refuse_http: Callable[[Request, Exception], Awaitable[Answer]]
    ) -> None:
        self._app, self._service, self._doors, self._refuse_http = app, service, doors, refuse_http
        self._calls = {"/v1/observations": self._observe, "/v1/match": self._match}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call, or pass it on."""
        call = self._calls.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if call is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            answer = await call(request)
        except FencepostError as error:
            answer = refuse(error)
        except HTTPException as error:
            answer = await self._refuse_http(request, error)
        except ClientDisconnect:
            return  # nobody is there to be answered
        await answer(scope, receive, send)

    async def _observe(self, request: Request) -> Answer:
        await self._doors.admit(request, "write")
        wait = read_flag("wait", request.query_params.get("wait", "false"))
        return await rows.observe(request, self._service, wait, request.headers.get("idempotency-key"))

    async def _match(self, request: Request) -> Answer:
        await self._doors.admit(request, "read")
        return await rows.match(request, self._service)


def read_flag(name: str, text: str) -> bool:
    """A parameter that is on or off.

    >>> read_flag("wait", ""), read_flag("wait", "true"), read_flag("wait", "0")
    (True, True, False)
    """
    flag = _FLAGS.get(text.lower())
    if flag is None:
        raise RefusalError(f"{name}: {text[:100]!r}", "true or false", "Correct it; /openapi.json has what is taken.")
    return flag
