"""The pages of a source, as an application that stands alone or is mounted in another."""

import hashlib
import mimetypes
import time
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from fencepost._version import __version__
from fencepost.console import charts, shown
from fencepost.console.pages import event_pages, object_pages, overview_pages, rule_pages, version_pages
from fencepost.console.paper import NotFoundPageError, Paper
from fencepost.console.source import KINDS, Source
from fencepost.errors import FencepostError, UnreachableError
from fencepost.monitor.reasons import show_box

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load and do: nothing but from where it came, and no script or style inside of it."""
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without one, browsers would not say where a form comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_ASSETS = ("console.css", "console.js", "mark.svg")
_YEAR = "public, max-age=31536000, immutable"


def make_console(source: Source, extra: tuple[Any, ...] = ()) -> Starlette:
    """The pages of a source.

    It lets in whoever asks: put a door in front of it, as `ConsoleServer` and `fencepost serve` do.

    Args:
        source: what pages are made of.
        extra: where people enter and leave, if there is a door that asks for it.
    """
    paper = Paper(source, make_environment())
    routes = [
        *overview_pages(paper),
        *rule_pages(paper),
        *object_pages(paper),
        *event_pages(paper),
        *version_pages(paper),
        Route("/static/{digest}/{name}", _send_asset),
        *(Route(path, page, methods=["GET", "POST"]) for path, page in zip(("/enter", "/leave"), extra, strict=False)),
    ]
    handlers: Mapping[Any, Any] = {
        FencepostError: _refuse(paper),
        404: _not_found(paper),
        NotFoundPageError: _not_found(paper),
    }
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.add_middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)
    app.add_middleware(_Guard)
    return app


class _Guard:
    """Sends the policy with every page, and refuses what pages of others send."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if request.method not in ("GET", "HEAD") and not is_same_origin(request):
            refusal = PlainTextResponse("This was sent by a page of another site.\n", 403, HEADERS)
            await refusal(scope, receive, send)
            return

        async def send_with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                names = {name.lower() for name, _ in message["headers"]}
                more = {**HEADERS, "cache-control": "no-store"}
                message["headers"] += [
                    (name.encode(), value.encode()) for name, value in more.items() if name.encode() not in names
                ]
            await send(message)

        await self._app(scope, receive, send_with_policy)


def is_same_origin(request: Request) -> bool:
    """Whether a form was sent by one of these pages: browsers say where it comes from."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site == "same-origin"
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


def asks_for_fragment(request: Request) -> bool:
    """Whether a script of a page asks, for a piece of it."""
    return "fragment" in request.headers.get("x-asks-for", "")


def make_environment() -> Environment:
    """The templates, and what they use."""
    made = Environment(
        loader=PackageLoader("fencepost.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": shown.show_number,
        "time": shown.show_time,
        "second": shown.show_second,
        "ago": shown.show_ago,
        "size": shown.show_size,
        "value": shown.show_value,
        "object": shown.show_object,
        "query": lambda fields: urlencode({name: value for name, value in fields.items() if value not in (None, "")}),
    }
    made.globals |= {
        "charts": charts,
        "event_values": shown.event_values,
        "show_box": show_box,
        "kinds": KINDS,
        "now": time.time,
        "version_of_fencepost": __version__,
        "asset": _asset_path,
    }
    return made


@cache
def _asset(name: str) -> tuple[bytes, str]:
    """A file of ours, and the digest that its address has."""
    content = (resources.files("fencepost.console") / "static" / name).read_bytes()
    return content, hashlib.blake2b(content, digest_size=8).hexdigest()


def _asset_path(name: str) -> str:
    return f"/static/{_asset(name)[1]}/{name}"


def _send_asset(request: Request) -> Response:
    name, digest = request.path_params["name"], request.path_params["digest"]
    if name not in _ASSETS or _asset(name)[1] != digest:
        return PlainTextResponse("No such file.\n", 404)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(_asset(name)[0], media_type=kind, headers={"cache-control": _YEAR})


def _refuse(paper: Paper) -> Any:
    def handle(request: Request, error: FencepostError) -> Response:
        status = 503 if isinstance(error, UnreachableError) else 400
        if asks_for_fragment(request):
            return HTMLResponse(paper.render("fragments/refusal.html", request, error=error), status)
        return HTMLResponse(
            paper.render("refused.html", request, error=error, place="", is_look=request.method == "GET"), status
        )

    return handle


def _not_found(paper: Paper) -> Any:
    def handle(request: Request, error: Any) -> Response:
        if request.url.path.endswith("/") and len(request.url.path) > 1:
            return RedirectResponse(f"/{request.url.path.strip('/')}")  # two slashes would be another site
        what = error.what if isinstance(error, NotFoundPageError) else "There is no such page."
        return HTMLResponse(paper.render("missing.html", request, what=what, place=""), 404)

    return handle
