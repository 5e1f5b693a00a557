"""The door of a console that is a server of its own: a token in its address opens it, a cookie keeps it open."""

import hashlib
import hmac
import secrets
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse

_COOKIE = "fencepost-console"
_HEADERS = {"referrer-policy": "no-referrer", "cache-control": "no-store", "x-content-type-options": "nosniff"}
_CLOSED = (
    "This console is closed.\n\nOpen the address that was printed when it started: it ends with a token, "
    "?token=... Whoever has it may look and change rules.\n"
)


class Door:
    """Lets in who has the token.

    The address with the token sets a cookie that no script can read and no other site can send, and goes on to the
    address without it. Requests that name another host are refused: a page of somebody else that lets its name point
    to this machine gets nowhere.

    Args:
        app: what is behind the door.
        hosts: names by which it may be called, with their ports.
        token: what opens it; without one it makes one.
    """

    def __init__(self, app: Any, hosts: set[str], token: str | None = None) -> None:
        self._app, self._hosts = app, hosts
        self.token = secrets.token_urlsafe(24) if token is None else token
        self._session = hashlib.blake2b(secrets.token_bytes(32), digest_size=24).hexdigest()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if request.headers.get("host", "") not in self._hosts:
            answer: Any = PlainTextResponse("This console has another address.\n", 421, _HEADERS)
        elif self._knows(request.cookies.get(self._cookie_name(request), ""), self._session):
            answer = self._app
        elif self._knows(request.query_params.get("token", ""), self.token):
            answer = self._let_in(request)
        else:
            answer = PlainTextResponse(_CLOSED, 401, _HEADERS)
        await answer(scope, receive, send)

    def _let_in(self, request: Request) -> Any:
        rest = urlencode([(name, value) for name, value in request.query_params.multi_items() if name != "token"])
        answer = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303, _HEADERS)
        answer.set_cookie(self._cookie_name(request), self._session, httponly=True, samesite="strict", path="/")
        return answer

    def _cookie_name(self, request: Request) -> str:
        # Browsers keep cookies by host, not by port: two consoles on one machine must not take each other's.
        return f"{_COOKIE}-{request.url.port or 80}"

    def _knows(self, given: str, expected: str) -> bool:
        return hmac.compare_digest(given.encode(), expected.encode())
