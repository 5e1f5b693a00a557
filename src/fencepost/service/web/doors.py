"""Who may do what: routes name a scope, and get the caller who has it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from fastapi import Request

SCOPES = ("read", "write", "publish", "admin")


class Caller(NamedTuple):
    """Whoever calls."""

    name: str
    """The author of the changes that the call makes."""
    scopes: frozenset[str]


def allow(scope: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency of routes: the caller, who must have a scope; `admin` has all."""

    async def check(request: Request) -> Caller:
        caller: Caller = request.app.state.doors.admit(request, scope)
        return caller

    return check


class OpenDoors:
    """Everybody may do everything: for tests in one process."""

    def admit(self, request: Request, scope: str) -> Caller:  # noqa: ARG002 (it asks nothing)
        """Whoever it is."""
        return Caller("somebody", frozenset(SCOPES))


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How /openapi.json describes refusals."""
    shape = {
        "type": "object",
        "required": ["got", "expected", "remedy", "message"],
        "properties": {name: {"type": "string"} for name in ("got", "expected", "remedy", "message")},
    }
    content = {"application/json": {"schema": shape}}
    return {status: {"description": "Refused.", "content": content} for status in (*statuses, 401, 403, 422)}
