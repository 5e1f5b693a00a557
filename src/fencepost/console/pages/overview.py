"""The overview."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fencepost.console.paper import Paper, rule_names
from fencepost.console.source import EventFilter

_EVENTS = 8


def overview_pages(paper: Paper) -> list[Route]:
    """The first page, and the part of it that is fetched again."""

    def known() -> dict[str, Any]:
        source = paper.source
        events = source.events.last(_EVENTS, EventFilter()) if source.events else ()
        versions = source.versions.list(1) if source.versions else ()
        return {
            "overview": source.overview(),
            "events": events,
            "names": rule_names(source, events),
            "latest": versions[0] if versions else None,
        }

    def overview(request: Request) -> Response:
        return paper.page("overview.html", request, place="Overview", **known())

    def live(request: Request) -> Response:
        return paper.page("fragments/overview.html", request, **known())

    return [Route("/", overview), Route("/overview/live", live)]
