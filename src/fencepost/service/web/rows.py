"""Routes that take rows: match, observations, backtest."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from fencepost.rules.rule import Rule
from fencepost.service.refusals import BehindError, TooLargeError
from fencepost.service.rows import ARROW, LINES, read_rows
from fencepost.service.service import Service
from fencepost.service.web.answers import Answer, event_dicts
from fencepost.service.web.doors import refusals
from fencepost.service.web.rules import READS, WRITES, Flag, Serving

router = APIRouter(prefix="/v1", tags=["rows"])

_ROW = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"anyOf": [_ROW, {"type": "array", "items": _ROW, "minItems": 1}]}},
            LINES[0]: {"schema": {"type": "string", "description": "A JSON object a line."}},
            ARROW[0]: {"schema": {"type": "string", "format": "binary", "description": "An Arrow IPC stream."}},
        },
    }
}
_SMALL = 4096
"""Bytes of a body that is read at once; larger ones are read beside the event loop."""
_FEW = 1000
"""Rows and events that are worked on in the event loop itself."""
_WAIT = 60.0


async def read_body(request: Request, most: int) -> bytes:
    """The body, up to a limit."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise TooLargeError(f"a body of more than {most:,} bytes", "a smaller one", "Send several calls.")
        parts.append(part)
    return b"".join(parts)


async def read_table(request: Request, service: Service) -> Any:
    """The rows of the body."""
    limits = service.settings.limits
    body, kind = await read_body(request, limits.body), request.headers.get("content-type", "")
    if len(body) <= _SMALL:
        return read_rows(body, kind, limits.rows)
    return await run_in_threadpool(read_rows, body, kind, limits.rows)


@router.post("/match", openapi_extra=_BODY, responses=refusals(413), dependencies=[READS])
async def match(request: Request, service: Serving) -> Answer:
    """Which rules in force hold for each row by itself: a list of rule ids per row. Nothing is remembered."""
    table = await read_table(request, service)
    return Answer({"version": service.version, "rule_ids": await run_in_threadpool(service.match, table)})


class TickBody(BaseModel):
    """A time."""

    model_config = ConfigDict(extra="forbid", strict=True)

    time: Annotated[int, Field(ge=-(2**63), lt=2**63)] | Annotated[str, Field(max_length=100)]


@router.post("/tick", responses=refusals(503, 507), dependencies=[WRITES])
def tick(service: Serving, body: TickBody) -> Answer:
    """Promise that no older row will come: waits that are over end, and objects that are silent. With the events."""
    receipt = service.tick(body.time)
    return Answer({"position": receipt.position, "events": event_dicts(receipt.events, receipt.first_event)})


class BacktestBody(BaseModel):
    """Which rules to try, and on which rows."""

    model_config = ConfigDict(extra="forbid", strict=True)

    condition: Annotated[str | None, Field(max_length=1_000_000)] = None
    rule: Annotated[int | str | None, Field(description="A rule of the book, beside the condition.")] = None
    detect: str | list[str] = "enter,exit"
    for_: Annotated[int | str | None, Field(alias="for")] = None
    keep_firing_for: int | str | None = None
    stay: str | None = None
    margin: dict[str, float] | None = None
    cooldown: int | str | None = None
    limit: int | None = None
    every: int | str | None = None
    rows: Annotated[list[dict[str, Any]] | None, Field(description="Without them, the last stored rows.")] = None
    last: Annotated[int, Field(ge=1, le=1_000_000, description="How many stored rows.")] = 100_000
    events: Annotated[int, Field(ge=0, le=1000, description="How many events to show.")] = 100

    def tried(self, service: Service) -> list[Rule]:
        """The rules."""
        rules = [] if self.rule is None else [service.rules.get(self.rule)]
        if self.condition is not None:
            given = self.model_dump(by_alias=True, exclude_none=True, exclude={"rule", "rows", "last", "events"})
            taken = {rule.id for rule in rules}
            rules.append(service.rules.check({**given, "id": 0 if 0 not in taken else -1}))
        return rules


@router.post("/backtest", responses=refusals(404, 413), dependencies=[READS])
def backtest(service: Serving, body: BacktestBody) -> Answer:
    """How often a condition, or a rule, or both side by side, would have fired: the condition is rule 0."""
    if body.rows is not None and len(body.rows) > service.settings.limits.rows:
        raise TooLargeError(f"{len(body.rows):,} rows", f"at most {service.settings.limits.rows:,}", "Send fewer.")
    rules = body.tried(service)
    tried = service.backtest(rules, body.rows, last=body.last, shown=body.events)
    found = [
        {
            "rule_id": rule.id,
            "condition": rule.condition,
            "events": fired.events if (fired := tried.fired.get(rule.id)) else {},
            "objects": fired.objects if fired else 0,
            "most": fired.most if fired else [],
            "first": fired.first if fired else None,
            "last": fired.last if fired else None,
            "over_time": tried.over_time.get(rule.id, []),
        }
        for rule in rules
    ]
    said = {"rows": tried.rows, "late": tried.late, "unread": tried.unread, "rules": found}
    return Answer({**said, "events": event_dicts(tried.events)})


@router.post(
    "/observations",
    status_code=202,
    openapi_extra=_BODY,
    responses={200: {"description": "Done, with the events."}, **refusals(413, 503, 507)},
    dependencies=[WRITES],
)
async def observe(
    request: Request,
    service: Serving,
    wait: Annotated[Flag, Query(description="Answer with the events that the rows cause.")] = False,
    key: Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)] = None,
) -> Answer:
    """Take rows. They are on the disk when this answers, with the position of the call in the log."""
    table = await read_table(request, service)
    if isinstance(table, list) or table.num_rows <= _FEW:
        waiting = service.submit(table, key=key)
    else:  # reading the times of many rows takes its time
        waiting = await run_in_threadpool(service.submit, table, key=key)
    try:
        async with asyncio.timeout(_WAIT):
            receipt = await asyncio.wrap_future(waiting)
    except TimeoutError:
        raise BehindError(
            f"rows that were not applied within {_WAIT:.0f} seconds",
            "an engine that is less busy",
            "Send them again with the same Idempotency-Key; they may have been taken.",
        ) from None
    said: dict[str, Any] = {"position": receipt.position, "rows": receipt.rows}
    if receipt.repeated:
        said["repeated"] = True
    if not wait:
        return Answer(said, 202)

    def with_events() -> Answer:
        return Answer({**said, "events": event_dicts(receipt.events, receipt.first_event)}, 200)

    return with_events() if receipt.caused <= _FEW else await run_in_threadpool(with_events)
