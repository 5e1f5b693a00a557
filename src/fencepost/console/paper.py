"""What all pages share: the frame, the navigation, and the answer to a form."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fencepost.console.source import SeenEvent, Source
from fencepost.errors import FencepostError

_LARGEST = 64 * 2**20
"""Bytes of a form; files of rules are the largest."""


class Place(NamedTuple):
    """An entry of the navigation."""

    name: str
    path: str
    part: str
    """Of the source; without it the entry is not shown. Deliveries and the map get theirs with their parts."""


PLACES = (
    Place("Overview", "/", "overview"),
    Place("Rules", "/rules", "rules"),
    Place("Objects", "/objects", "objects"),
    Place("Events", "/events", "events"),
    Place("Map", "/map", "map"),
    Place("Versions", "/versions", "versions"),
    Place("Deliveries", "/deliveries", "deliveries"),
)

SAID = {
    "added": "The rule was added.",
    "edited": "The rule was edited.",
    "same": "Nothing was different, so the rule stays as it is.",
    "removed": "The rule was removed. Its history stays: it can be restored.",
    "paused": "The rule is paused.",
    "resumed": "The rule takes part again.",
    "restored": "The rule has the content of the older version again, as a new version.",
    "published": "The version was published.",
    "rolled": "The rules are what they were in that version, as a new version.",
}


class NotFoundPageError(Exception):
    """Something that a page is about does not exist."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Paper:
    """Writes pages of a source."""

    def __init__(self, source: Source, templates: Environment) -> None:
        self.source, self._templates = source, templates
        self.places = [place for place in PLACES if getattr(source, place.part, None) is not None]

    def render(self, template: str, request: Request, **known: Any) -> str:
        """A page, or a piece of one."""
        theme = request.cookies.get("fencepost-theme", "")
        return self._templates.get_template(template).render(
            source=self.source,
            places=self.places,
            root=request.scope.get("root_path", "").rstrip("/"),
            theme=theme if theme in ("light", "dark") else "",
            said=SAID.get(request.query_params.get("said", ""), ""),
            request_path=request.url.path,
            **known,
        )

    def page(self, template: str, request: Request, status: int = 200, **known: Any) -> Response:
        """The same as an answer."""
        return HTMLResponse(self.render(template, request, **known), status)

    def go(self, request: Request, path: str, said: str = "") -> Response:
        """Send somebody to a page, after a change."""
        root = request.scope.get("root_path", "").rstrip("/")
        mark = "&" if "?" in path else "?"
        return RedirectResponse(f"{root}{path}{mark}said={said}" if said else f"{root}{path}", 303)


def author_of(request: Request) -> str:
    """Who changes something: the door knows."""
    name = request.scope.get("fencepost.author", "console")
    return str(name)


def posting(handler: Callable[[Request, Any], Response]) -> Callable[[Request], Awaitable[Response]]:
    """A handler that gets the fields of a form, and may take its time."""

    async def answer(request: Request) -> Response:
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > _LARGEST:
            got = f"a form of {int(length):,} bytes" if length.isdecimal() else "a form of unknown length"
            raise FencepostError(got, f"at most {_LARGEST:,} bytes", "Split the file: fencepost rules import.")
        async with request.form() as form:
            uploads: Mapping[str, Any] = {
                name: (each.filename, await each.read()) for name, each in form.items() if not isinstance(each, str)
            }
            request.state.uploads = uploads
            return await run_in_threadpool(handler, request, form)

    return answer


def rule_names(source: Source, events: Sequence[SeenEvent]) -> dict[int, str]:
    """Names of the rules of events, in one query."""
    if not source.rules:
        return {}
    ids = sorted({event.fields["rule_id"] for event in events})
    return {id: rule.name for id, rule in source.rules.some(ids).items() if rule.name}
