"""Objects, one object, and why a rule does not report it."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fencepost.console.conditions import ReadBox, read_condition
from fencepost.console.forms import find_rule
from fencepost.console.paper import NotFoundPageError, Paper, rule_names
from fencepost.console.source import EventFilter, Missing, SeenObject, Source, Trail
from fencepost.errors import FencepostError

_PAGE = 50
_RULES = 30
_DRAWN = 6
_RANGES = 8
"""Ranges of a rule that are drawn on one chart; how many more there are is said."""
_EVENTS = 20
_TRAIL = 300


def object_pages(paper: Paper) -> list[Route]:
    """The list, and a page for each."""

    def objects(request: Request) -> Response:
        part, query = paper.source.objects, request.query_params
        known: dict[str, Any] = {"place": "Objects", "missing": part, "q": query.get("q", "").strip()}
        if not part:
            return paper.page("left_out.html", request, title="Objects", **known)
        some, after = part.page(query.get("after", ""), _PAGE, known["q"])
        columns = list(dict.fromkeys(name for each in some for name in each.values))
        return paper.page(
            "objects.html", request, objects=some, after=after, count=part.count(), columns=columns,
            is_first="after" not in query, **known,
        )  # fmt: skip

    def one(request: Request) -> Response:
        source, name = paper.source, request.query_params.get("name", "")
        if not source.objects and name and source.events:
            return paper.go(request, f"/events?{urlencode({'object': name})}")  # all that is known of it
        if not source.objects:
            return paper.page("left_out.html", request, title="Objects", place="Objects", missing=source.objects)
        seen = source.objects.get(name)
        if seen is None:
            raise NotFoundPageError(f"No row of {name!r} has come, or it was silent for too long.")
        asked = request.query_params.get("rule", "").strip()
        return paper.page("object.html", request, place="Objects", asked=asked, **_about(source, seen, asked))

    return [Route("/objects", objects), Route("/object", one)]


def _about(source: Source, seen: SeenObject, asked: str) -> dict[str, Any]:
    """What the page of an object shows."""
    assert source.objects, "the caller has looked"
    name = str(seen.name)
    ids = source.objects.rules_inside(name, _RULES)
    rules = source.rules.some(ids) if source.rules and not isinstance(ids, Missing) else {}
    events = source.events.last(_EVENTS, EventFilter(object=name)) if source.events else ()
    trail = source.objects.trail(name, _TRAIL)
    asked_id = find_rule(source, asked)
    standing, refusal = _ask_why_not(source, name, asked, asked_id)
    near: dict[int, Any] = {}
    for id in [*([] if asked_id is None else [asked_id]), *rules, *(event.fields["rule_id"] for event in events)]:
        if len(near) < _DRAWN and id not in near and source.rules:
            rule = rules[id] if id in rules else source.rules.get(id)
            near |= {} if rule is None else {id: rule}
    types = source.rules.types() if source.rules else {}
    read = [(rule, _fitting(read_condition(str(rule.condition), types).boxes, seen)) for rule in near.values()]
    return {
        "seen": seen,
        "inside": ids,
        "rules": rules,
        "events": events,
        "names": rule_names(source, events),
        "waiting": source.objects.waiting(name),
        "trail": trail,
        "drawings": [] if trail is None else _draw(trail, read, events),
        "plane": None if trail is None else _plane(trail, read),
        "standing": standing,
        "told_from": source.objects.told_from if standing is not None else "",
        "refusal": refusal,
    }


def _fitting(boxes: Sequence[ReadBox], seen: SeenObject) -> list[ReadBox]:
    """The boxes that an object can be in as it is: those whose keys are its own values, or its name."""
    own = {name.lower(): str(value) for name, value in seen.values.items() if value is not None}
    name = str(seen.name)  # the column of which is no value
    return [box for box in boxes if all(own.get(key.lower(), name) == value for key, value in box.keys.items())]


def _draw(trail: Trail, read: Any, events: Any) -> list[dict[str, Any]]:
    """A chart for each column of numbers: ranges of rules, and marks where events were."""
    found = []
    for column, values in trail.values.items():
        if not any(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            continue
        ranges, more, drawn = [], 0, set()
        for rule, boxes in read:
            drawn |= {rule.id} if any(column in box.ranges for box in boxes) else set()
            ends = list(dict.fromkeys(box.ranges[column] for box in boxes if column in box.ranges))
            ranges += [(rule.name or f"rule {rule.id}", *each) for each in ends[:_RANGES]]
            more += max(0, len(ends) - _RANGES)
        fields = [event.fields for event in events if event.fields["rule_id"] in drawn]
        marks = [(each["time"], each["detect"]) for each in fields]
        own = {"ranges": ranges, "marks": marks, "more": more}
        found.append({"column": column, "times": trail.times, "values": values, **own})
    return found


def _plane(trail: Trail, read: Any) -> dict[str, Any] | None:
    """The way of an object over the two columns of its rules, where they have two."""
    for _, boxes in read:
        names = list(dict.fromkeys(name for box in boxes for name in box.ranges))
        if len(names) == 2 and all(name in trail.values for name in names):
            shown = [box for _, each in read for box in each if list(box.ranges) == names]
            values = {name: trail.values[name] for name in names}
            return {"boxes": [ReadBox({}, box.ranges) for box in shown], "values": values}
    return None


def _ask_why_not(source: Source, name: str, asked: str, id: int | None) -> tuple[Any, str]:
    """Where the object stands with a rule, or why that cannot be told."""
    if not asked or not source.objects:
        return None, ""
    if id is None or (source.rules and source.rules.get(id) is None):
        return None, f"No rule has the id or the name {asked!r}."
    try:
        found = source.objects.why_not(id, name)
    except FencepostError as error:
        return None, str(error)
    return (None, found.reason) if isinstance(found, Missing) else (found, "")
