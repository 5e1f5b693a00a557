"""Bodies: nobody's is read before it is known who calls, and none beyond the limit of the service.

Routes with a body of JSON have it whole before they ask who calls; so this asks before.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fencepost.errors import FencepostError
from fencepost.service.refusals import TooLargeError
from fencepost.service.web.answers import refuse
from fencepost.service.web.doors import refuse_stranger

_SAFE = ("GET", "HEAD", "OPTIONS")
_OF_STRANGERS = 16_384
"""Bytes of what somebody may send who shows no token: the token itself."""
_ENTRIES = ("/login", "/enter")


class Bodies:
    """Refuses what is too large, and what strangers send, before it is in memory.

    Args:
        app: what it is for.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a call on."""
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        state = request.app.state
        most = int(state.service.settings.limits.body)
        try:
            is_stranger = await state.doors.find(request) is None
        except FencepostError as error:
            await refuse(error)(scope, receive, send)
            return
        is_entry = scope["path"] in _ENTRIES
        if is_stranger or is_entry:
            most = min(most, _OF_STRANGERS)
        status = 401 if is_stranger and not is_entry else 413
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > most:
            await refuse(refuse_stranger(request) if status == 401 else _too_large(most))(scope, receive, send)
            return
        size = 0

        async def count() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(status, f"a body of more than {most:,} bytes")
            return message

        await self._app(scope, count, send)


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"a body of more than {most:,} bytes", "a smaller one", "Send several calls.")
