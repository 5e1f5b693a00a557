"""Who may do what: routes name a scope, and get the caller who has it.

A caller shows a token as `Authorization: Bearer fp_…`. Pages of the same origin show a cookie instead, which
`POST /login` gives for a token: the browser keeps it from scripts and from other sites (HttpOnly, SameSite=Strict), and
a call that changes anything must come from this origin, which `Origin` and `Sec-Fetch-Site` say and no page can forge.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from fencepost.book.tokens import SCOPES, Token, Tokens
from fencepost.errors import UnreachableError
from fencepost.service.refusals import ForbiddenError, StrangerError
from fencepost.service.web.answers import Answer

COOKIE = "fencepost_session"
_SAFE = ("GET", "HEAD", "OPTIONS")
_REMEMBERED = 2.0
"""Seconds that the book is not asked again about a token: so long one that is revoked may still open."""
_GRACE = 900.0
"""Seconds that a token which the book has known opens while the book does not answer."""
_MOST = 10_000
_SESSION = 12 * 3600.0


class Caller(NamedTuple):
    """Whoever calls."""

    name: str
    """The author of the changes that the call makes."""
    scopes: frozenset[str]

    def may(self, scope: str) -> bool:
        """Whether the caller has a scope."""
        return scope in self.scopes or "admin" in self.scopes


class _Known(NamedTuple):
    """What the book said of a text."""

    asked: float
    """When it was last asked."""
    answered: float
    """When it last answered."""
    token: Token


class Doors:
    """Lets in who has a token of the book, or a session that began with one.

    Args:
        tokens: of the book.
        secure: whether the cookie goes over TLS only.
    """

    def __init__(self, tokens: Tokens, *, secure: bool = False) -> None:
        self._tokens, self.secure = tokens, secure
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._sessions: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """By cookie, when it ends and the token that it began with."""

    async def admit(self, request: Request, scope: str) -> Caller:
        """The caller, who must have a scope."""
        caller = await self.find(request)
        if caller is None:
            raise refuse_stranger(request)
        if not caller.may(scope):
            raise ForbiddenError(
                f"a token of {caller.name} that allows {', '.join(sorted(caller.scopes))}",
                f"the scope {scope}",
                f"Make another: fencepost token create NAME --scope {scope}.",
            )
        return caller

    async def find(self, request: Request) -> Caller | None:
        """Whoever calls; None for a stranger."""
        given = request.headers.get("authorization", "")
        kind, _, text = given.partition(" ")
        if kind.lower() == "bearer":
            return await self._caller(text.strip())
        began = self._session(request.cookies.get(COOKIE))
        if began is None:
            return None
        if request.method not in _SAFE and not is_same_origin(request):
            raise ForbiddenError(
                f"{request.method} {request.url.path[:200]} from another site",
                "a page of this service",
                "Open the page again at the address of the service.",
            )
        return await self._caller(began)

    async def _caller(self, text: str) -> Caller | None:
        known = self._known.get(text)
        if known is None or time.monotonic() - known.asked > _REMEMBERED:
            known = await self._ask(text, known)
        if known is None or not known.token.is_valid():
            return None
        return Caller(known.token.name, frozenset(known.token.scopes))

    async def _ask(self, text: str, known: _Known | None) -> _Known | None:
        """What the book says; while it does not answer, what it said last."""
        try:
            token = await run_in_threadpool(self._tokens.find, text)
        except UnreachableError:
            now = time.monotonic()
            if known is None or now - known.answered > _GRACE:
                raise
            found = known._replace(asked=now)
        else:
            if token is None:
                self._known.pop(text, None)
                return None
            now = time.monotonic()
            found = _Known(now, now, token)
        self._known[text] = found
        self._known.move_to_end(text)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return found

    def _session(self, cookie: str | None) -> str | None:
        """The token that a session began with."""
        ends, text = self._sessions.get(cookie or "", (0.0, None))
        if text is not None and ends > time.monotonic():
            return text
        self._sessions.pop(cookie or "", None)
        return None

    async def begin_session(self, text: str) -> tuple[str, Caller] | None:
        """A cookie for a token; None where that opens nothing."""
        caller = await self._caller(text)
        if caller is None:
            return None
        cookie = secrets.token_urlsafe(32)
        self._sessions[cookie] = (time.monotonic() + _SESSION, text)
        while len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        return cookie, caller

    def end_session(self, cookie: str | None) -> None:
        """Forget a session."""
        self._sessions.pop(cookie or "", None)


class OpenDoors:
    """Everybody may do everything: for tests in one process."""

    secure = False

    async def admit(self, request: Request, scope: str) -> Caller:  # noqa: ARG002 (it asks nothing)
        """Whoever it is."""
        return Caller("somebody", frozenset(SCOPES))

    async def find(self, request: Request) -> Caller | None:  # noqa: ARG002 (likewise)
        """Whoever it is."""
        return Caller("somebody", frozenset(SCOPES))

    async def begin_session(self, text: str) -> tuple[str, Caller] | None:  # noqa: ARG002 (likewise)
        """A cookie that nobody looks at."""
        return "open", Caller("somebody", frozenset(SCOPES))

    def end_session(self, cookie: str | None) -> None:
        """There is none."""


def refuse_stranger(request: Request) -> StrangerError:
    """The refusal of somebody who shows no token that opens anything."""
    return StrangerError(
        f"{request.method} {request.url.path[:200]} without a valid token",
        "the header Authorization: Bearer fp_...",
        "Make one: fencepost token create NAME --scope read.",
    )


def is_same_origin(request: Request) -> bool:
    """Whether a browser says that a page of this service makes the call."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return site == "same-origin"
    return origin.partition("://")[2] == request.headers.get("host")


def allow(scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency of routes: the caller, who must have a scope; `admin` has all."""

    async def check(request: Request) -> Caller:
        caller: Caller = await request.app.state.doors.admit(request, scope)
        return caller

    return check


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How /openapi.json describes refusals."""
    shape = {
        "type": "object",
        "required": ["got", "expected", "remedy", "message"],
        "properties": {name: {"type": "string"} for name in ("got", "expected", "remedy", "message")},
    }
    content = {"application/json": {"schema": shape}}
    return {status: {"description": "Refused.", "content": content} for status in (400, 401, 403, 422, *statuses)}


router = APIRouter(tags=["session"])


class LoginBody(BaseModel):
    """A token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token: str = Field(max_length=200)


@router.post("/login", responses=refusals())
async def login(request: Request, body: LoginBody) -> Answer:
    """Begin a session for pages of this origin: a cookie in place of the token."""
    if request.headers.get("origin") is not None and not is_same_origin(request):
        raise ForbiddenError("a login from another site", "a page of this service", "Open the page of the service.")
    begun = await request.app.state.doors.begin_session(body.token)
    if begun is None:
        raise StrangerError("a token that opens nothing", "a valid one", "Make one: fencepost token create NAME.")
    answer = Answer({"name": begun[1].name, "scopes": sorted(begun[1].scopes)})
    answer.set_cookie(
        COOKIE, begun[0], max_age=int(_SESSION), httponly=True, samesite="strict", secure=request.app.state.doors.secure
    )
    return answer


@router.post("/logout", responses=refusals())
async def logout(request: Request) -> Answer:
    """End the session."""
    if not is_same_origin(request) and request.headers.get("origin") is not None:
        raise ForbiddenError("a logout from another site", "a page of this service", "Open the page of the service.")
    request.app.state.doors.end_session(request.cookies.get(COOKIE))
    answer = Answer({"status": "done"})
    answer.delete_cookie(COOKIE)
    return answer
