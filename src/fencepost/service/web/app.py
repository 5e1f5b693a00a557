"""The FastAPI application of a service.

Pages are mounted by whoever makes them: `make_app(service, pages=[mount])` calls each with the application, after the
routes of the service; `app.state.service` is the service, `app.state.doors` says who may do what.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from fencepost._version import __version__
from fencepost.errors import FencepostError
from fencepost.service.service import Service
from fencepost.service.web import doors as sessions
from fencepost.service.web import events, measures, rows, rules, state, stream
from fencepost.service.web.answers import Answer, refuse, to_refusal
from fencepost.service.web.bodies import Bodies
from fencepost.service.web.doors import OpenDoors, allow, refuse_stranger
from fencepost.service.web.endings import Endings
from fencepost.service.web.headers import SafeHeaders
from fencepost.service.web.straight import Straight

Mount = Callable[[FastAPI], None]

_REMEDIES = {404: "Look at /openapi.json for the routes.", 405: "Look at /openapi.json for the methods."}


def make_app(service: Service, *, doors: Any = None, pages: Sequence[Mount] = ()) -> FastAPI:
    """An application over a service that is open.

    Args:
        service: what it serves; whoever opened it closes it.
        doors: who may do what; None lets everybody in.
        pages: functions that add pages to the application.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield

    app = FastAPI(
        title="fencepost",
        version=__version__,
        summary="Standing range rules against live rows.",
        docs_url=None,
        openapi_url=None,
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Answer,
    )
    app.state.service, app.state.doors = service, OpenDoors() if doors is None else doors
    app.state.readers = set()
    app.add_exception_handler(FencepostError, _refuse_ours)
    app.add_exception_handler(RequestValidationError, _refuse_validation)
    app.add_exception_handler(HTTPException, _refuse_http)
    for module in (rules, rows, events, stream, state, measures, sessions):
        app.include_router(module.router)
    app.add_middleware(Bodies)
    app.state.closing = asyncio.Event()
    app.add_middleware(Endings, closing=app.state.closing)
    app.add_middleware(Straight, service=service, doors=app.state.doors, refuse_http=_refuse_http)
    app.add_middleware(SafeHeaders)

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(allow("read"))])
    async def describe() -> Answer:
        return Answer(app.openapi())

    for mount in pages:
        mount(app)
    return app


async def _refuse_ours(_: Request, error: Exception) -> Answer:
    assert isinstance(error, FencepostError)
    return refuse(error)


async def _refuse_validation(_: Request, error: Exception) -> Answer:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path")) or "the body"
    given = f"{first.get('input')!r:.120}"
    if isinstance(first.get("input"), bytes):  # curl -d says by itself that it is a form
        remedy = "Send the header Content-Type: application/json."
        return to_refusal(f"{place}: {given}, not named as JSON", "JSON that is named so", remedy, 422)
    kind, remedy = first["type"], "Correct it; /openapi.json has what is taken."
    if kind == "json_invalid":
        why = first.get("ctx", {}).get("error", "it cannot be read")
        return to_refusal(f"a body that is no JSON ({why}, at character {place})", "JSON", "Correct it.", 422)
    if kind == "missing":
        what = "a body" if place == "the body" else place
        return to_refusal(f"nothing for {what}", f"{what}, which is needed", "Add it.", 422)
    if kind == "extra_forbidden":
        return to_refusal(f"{place}: {given}", "fields that the route has", "Correct its name, or leave it out.", 422)
    expected = first["msg"][:300].removeprefix("Input should be ").removeprefix("Value should be ")
    return to_refusal(f"{place}: {given}", expected[0].lower() + expected[1:], remedy, 422)


async def _refuse_http(request: Request, error: Exception) -> Answer:
    assert isinstance(error, HTTPException)
    if error.status_code == 413:
        return to_refusal(error.detail, "a smaller one", "Send several calls.", 413)
    got = f"{request.method} {request.url.path[:200]} ({error.detail})"
    if error.status_code == 401:
        return refuse(refuse_stranger(request))
    if error.status_code == 400:  # before the route has looked at it
        return to_refusal(f"a body that cannot be read ({error.detail})", "JSON", "Correct it.", 400)
    answer = to_refusal(
        got, "a route of the service", _REMEDIES.get(error.status_code, "Correct it."), error.status_code
    )
    answer.headers.update(error.headers or {})
    return answer
