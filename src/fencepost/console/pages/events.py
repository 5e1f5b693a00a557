"""Events: the last ones, those that come, and why one happened."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fencepost.console.forms import read_filter, read_place
from fencepost.console.paper import NotFoundPageError, Paper, rule_names
from fencepost.console.source import EventsPart, Missing, SeenEvent
from fencepost.errors import FencepostError

_PAGE = 50
_SHOWN = 20
"""Events of a second that the live page shows."""
_BINS = 60
_TICK = 1.0


def event_pages(paper: Paper) -> list[Route]:
    """The list, the stream behind it, its picture, its file, and a page for each event."""

    def part() -> EventsPart:
        events = paper.source.events
        if not events:
            reason = events.reason if isinstance(events, Missing) else ""
            raise FencepostError("events cannot be seen here", "an engine that keeps them", reason)
        return events

    def events(request: Request) -> Response:
        if not paper.source.events:
            known: dict[str, Any] = {"title": "Events", "place": "Events", "missing": paper.source.events}
            return paper.page("left_out.html", request, **known)
        query = request.query_params
        chosen, before = read_filter(query, paper.source), read_place(query.get("before", ""))
        found, rest = part().search(_PAGE + 1, chosen, before)
        fields = {"rule": query.get("rule", ""), "object": chosen.object, "detect": chosen.detect}
        return paper.page(
            "events.html",
            request,
            place="Events",
            events=found[:_PAGE],
            before=found[_PAGE - 1].position if len(found) > _PAGE else rest,
            rest=rest,
            fields=fields,
            is_newest=before is None,
            kept=part().kept,
            histogram=part().histogram(chosen, _BINS),
            labels=rule_names(paper.source, found),
        )

    async def stream(request: Request) -> Response:
        chosen = await run_in_threadpool(read_filter, request.query_params, paper.source)
        last = request.headers.get("last-event-id", "")
        source, may_read = part(), request.scope.get("fencepost.may_read", _may_always)

        async def tell() -> AsyncIterator[str]:
            position = read_place(last)
            if position is None:
                position = (await run_in_threadpool(source.since, None, 0, chosen)).position
            yield "retry: 2000\n\n"
            while await may_read():
                tail = await run_in_threadpool(source.since, position, _SHOWN, chosen)
                position = tail.position
                said = await run_in_threadpool(_tell_tail, paper, request, tail.events, tail.total)
                yield f"id: {position}\ndata: {said}\n\n"
                await anyio.sleep(_TICK)

        return StreamingResponse(tell(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    def picture(request: Request) -> Response:
        found = part().histogram(read_filter(request.query_params, paper.source), _BINS)
        return paper.page("fragments/histogram.html", request, histogram=found, kept=part().kept)

    def export(request: Request) -> Response:
        content = part().export(read_filter(request.query_params, paper.source))
        headers = {"content-disposition": 'attachment; filename="events.parquet"'}
        return Response(content, media_type="application/vnd.apache.parquet", headers=headers)

    def why(request: Request) -> Response:
        event = part().find(request.path_params["event_id"])
        if event is None:
            raise NotFoundPageError("This event is not kept, or it is too old to be found by its id.")
        reason = paper.source.why(event)
        rules = paper.source.rules
        rule = rules.get(event["rule_id"]) if rules else None
        return paper.page("event.html", request, place="Events", event=event, reason=reason, rule=rule)

    return [
        Route("/events", events),
        Route("/events/stream", stream),
        Route("/events/histogram", picture),
        Route("/events/export", export),
        Route("/events/{event_id}", why),
    ]


async def _may_always() -> bool:
    """Where no door says otherwise, who has opened the page may read on."""
    return True


def _tell_tail(paper: Paper, request: Request, events: Sequence[SeenEvent], total: int) -> str:
    """What a tick of the stream says: rows of the table as HTML, and how many there were."""
    newest_first = list(events)[::-1]
    html = ""
    if events:
        html = paper.render(
            "fragments/event_rows.html", request, events=newest_first, labels=rule_names(paper.source, newest_first)
        )
    return json.dumps({"rows": html, "shown": len(events), "total": total})
