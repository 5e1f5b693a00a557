"""Routes about events: pages of them, one of them, and the stream."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from fencepost.service.event_log import EventFilter
from fencepost.service.service import Service
from fencepost.service.web.answers import Answer, event_dicts
from fencepost.service.web.doors import refusals
from fencepost.service.web.rules import READS, Serving, key_of, read_labels

router = APIRouter(prefix="/v1", tags=["events"])

Rule = Annotated[list[str] | None, Query(description="Only events of this rule, by id or name. Repeatable.")]
Object = Annotated[str | None, Query(max_length=1000, description="Only events of this object.")]
Detect = Annotated[list[Literal["inside", "enter", "exit", "cross", "silent"]] | None, Query(description="Only these.")]
Label = Annotated[list[str] | None, Query(description="Only events of rules with this label, as desk:4. Repeatable.")]
Position = Annotated[int, Query(ge=0, lt=2**62)]


def read_filter(
    service: Service, rule: list[str] | None, object: str | None, detect: Sequence[str] | None, label: list[str] | None
) -> EventFilter:
    """What is asked of events."""
    rules = None
    if rule:
        keys = [key_of(each) for each in rule]
        rules = frozenset(each if isinstance(each, int) else service.rules.get(each).id for each in keys)
    return EventFilter(rules, object, frozenset(detect) if detect else None, read_labels(label) or None)


@router.get("/events", responses=refusals(404), dependencies=[READS])
def list_events(
    service: Serving,
    after: Position = 0,
    rule: Rule = None,
    object: Object = None,
    detect: Detect = None,
    label: Label = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Answer:
    """Events behind a position, in order. Ask again with after=next for what follows."""
    page = service.events(after, read_filter(service, rule, object, detect, label), limit)
    said = {"events": event_dicts(page.events), "next": page.next, "last": page.last, "first": service.first_event}
    return Answer(said)


@router.get("/why/{event}", responses=refusals(404), dependencies=[READS])
def why(service: Serving, event: Annotated[str, Path(min_length=1, max_length=100)]) -> Answer:
    """Why an event happened: the rule as it was, box by box, and the values before and after."""
    found, reason = service.why(event)
    table = {**found, "labels": dict(found.get("labels") or {}) or None}
    table.pop("other", None)
    return Answer({"event": table, "reason": reason, "text": str(reason)})
