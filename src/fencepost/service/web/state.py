"""Routes about what is: objects, who is inside, why there is no event, health and metrics."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from fencepost.service.rows import ARROW, write_rows
from fencepost.service.web.answers import Answer
from fencepost.service.web.doors import refusals
from fencepost.service.web.rules import READS, Id, Serving, key_of

router = APIRouter(tags=["state"])

Object = Annotated[str, Path(min_length=1, max_length=1000)]


@router.get("/v1/objects", responses=refusals(), dependencies=[READS])
def objects(
    service: Serving,
    cursor: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Answer:
    """The objects that are known, in the order in which they came, a page at a time."""
    return Answer(service.objects(cursor, limit))


@router.get("/v1/objects/{object:path}", responses=refusals(404), dependencies=[READS])
def get_object(service: Serving, object: Object) -> Answer:
    """What is known of an object: its last values, the rules it is inside, and what waits."""
    return Answer(service.object(object))


@router.get(
    "/v1/state",
    response_class=Response,
    responses={200: {"content": {ARROW[0]: {}}}, **refusals()},
    dependencies=[READS],
)
def state(service: Serving) -> Response:
    """All objects, as an Arrow stream: with their last time and values, and what waits; for save_state on Spark."""
    return Response(write_rows(service.state()), media_type=ARROW[0])


@router.get("/v1/inside/{rule}", responses=refusals(404), dependencies=[READS])
def inside(
    service: Serving,
    rule: Id,
    cursor: Annotated[int, Query(ge=0, lt=2**62)] = 0,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Answer:
    """The objects that are inside a rule now."""
    found = service.inside(key_of(rule))
    following = cursor + limit if cursor + limit < len(found) else None
    return Answer({"objects": found[cursor : cursor + limit], "total": len(found), "next": following})


@router.get("/v1/why-not", responses=refusals(404), dependencies=[READS])
def why_not(
    service: Serving,
    rule: Annotated[str, Query(min_length=1, max_length=500)],
    object: Annotated[str, Query(min_length=1, max_length=1000)],
) -> Answer:
    """Where an object stands with a rule, and what is missing for an event."""
    standing = service.why_not(key_of(rule), object)
    return Answer({"standing": standing, "text": standing.text})


@router.get("/healthz")
def health() -> Answer:
    """Whether the process runs."""
    return Answer({"status": "ok"})


@router.get("/readyz", responses={503: {"description": "Not ready."}})
def ready(request: Request) -> Answer:
    """Whether rows are taken."""
    engine = request.app.state.service.engine
    fault = engine.failure
    if fault is None and not engine.is_behind():
        return Answer({"status": "ready"})
    return Answer({"status": "stopped" if fault is not None else "the disk is full"}, 503)
