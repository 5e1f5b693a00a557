"""Routes about rules and versions."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from fencepost.rules.rule import Rule, checked_instant
from fencepost.service.desk import Key, rule_fields
from fencepost.service.publishing import Published
from fencepost.service.refusals import RefusalError
from fencepost.service.service import Service
from fencepost.service.web.answers import Answer, difference_json, faults_json
from fencepost.service.web.doors import Caller, allow, refusals

router = APIRouter(prefix="/v1", tags=["rules"])

READS, WRITES, PUBLISHES = (Depends(allow(scope)) for scope in ("read", "write", "publish"))
Writer = Annotated[Caller, Depends(allow("write"))]
Id = Annotated[str, Path(min_length=1, max_length=500, description="The id of a rule, or its name.")]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description='The version that is to be changed, as the ETag says: "3".')
]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="`*` adds the rule, and replaces none.", max_length=100)
]
Flag = Annotated[bool, BeforeValidator(lambda given: given == "" or given), Query()]
"""On or off; on as well where it is only named, as in `?dry_run`."""
_INTEGER = Field(ge=-(2**63), lt=2**63)


class RuleBody(BaseModel):
    """A rule, as `fencepost rules import` takes it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[int, _INTEGER] | None = None
    condition: Annotated[str, Field(max_length=1_000_000)]
    detect: str | list[str] | None = None
    initial: bool | None = None
    labels: dict[str, str] | None = None
    expires: str | None = None
    enabled: bool | None = None
    version: int | None = None
    name: str | None = None
    for_: Annotated[int | str | None, Field(alias="for")] = None
    keep_firing_for: int | str | None = None
    stay: str | None = None
    margin: dict[str, float] | None = None
    cooldown: int | str | None = None
    limit: int | None = None
    every: int | str | None = None

    def fields(self) -> dict[str, Any]:
        """What was given."""
        given = self.model_dump(by_alias=True, exclude_none=True)
        given.pop("version", None)
        return given


class RestoreBody(BaseModel):
    """Which version a rule goes back to."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Annotated[int, Field(ge=1, lt=2**63)]


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Serving = Annotated[Service, Depends(_service)]


def key_of(text: str) -> Key:
    """What a rule is called by: an integer is its id, anything else its name."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else text


def _expected(if_match: str | None) -> int | None:
    """The version in If-Match; `*` is any."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise RefusalError(
            f"If-Match: {if_match[:80]}", 'a version as the ETag has it, such as "3"', "Read the rule first."
        )
    return int(text)


def _settled(service: Service) -> int:
    return service.settle()


def rule_answer(rule: Rule, service: Service, status: int = 200, in_force: int | None = None) -> Answer:
    """A rule with its version as an ETag; after a change with the version of all rules that is in force."""
    said = rule_fields(rule)
    until = None if rule.enabled else service.rules.paused_until(rule.id)
    said |= {} if until is None else {"paused_until": until}
    said |= {} if in_force is None else {"in_force": in_force}
    headers = {"ETag": f'"{rule.version}"'}
    if status == 201:
        headers["Location"] = f"/v1/rules/{rule.id}"
    return Answer(said, status, headers)


def read_labels(given: list[str] | None) -> dict[str, str]:
    """Labels of a query: `label=desk:4`, or `label=desk=4`."""
    found = {}
    for text in given or ():
        name, mark, value = text.partition(":" if ":" in text else "=")
        if not mark:
            raise RefusalError(f"label={text[:80]}", "a name and a text, such as desk:4", "Write label=desk:4.")
        found[name] = value
    return found


@router.post("/rules", status_code=201, responses=refusals(409, 413))
def add_rule(service: Serving, caller: Writer, rule: RuleBody) -> Answer:
    """Add a rule. Without an id it gets one; with a name it may be called by that."""
    made = service.rules.add(rule.fields(), caller.name)
    return rule_answer(made, service, 201, _settled(service))


@router.get("/rules", responses=refusals(), dependencies=[READS])
def list_rules(
    service: Serving,
    cursor: Annotated[int | None, Query(description="`next` of the page before.", ge=-(2**63), lt=2**63)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    q: Annotated[str | None, Query(max_length=500, description="An id, or a part of a name or condition.")] = None,
    label: Annotated[list[str] | None, Query(description="desk:4; several must all be there.")] = None,
    state: Annotated[Literal["enabled", "paused", "expired"] | None, Query()] = None,
    holds: Annotated[
        str | None, Query(max_length=10_000, description="price=47, symbol=IBM: rules in force that hold there.")
    ] = None,
) -> Answer:
    """Rules in the order of their ids, a page at a time."""
    if holds:
        if q or label or state:
            raise RefusalError("holds beside q, label or state", "one or the other", "Ask for holds alone.")
        held = service.rules.some(service.rules_at(holds), cursor, limit)
        return Answer({"rules": [rule_fields(rule) for rule in held.rules], "next": held.after})
    page = service.rules.page(cursor, limit, search=q or None, labels=read_labels(label), state=state)
    return Answer({"rules": [rule_fields(rule) for rule in page.rules], "next": page.after})


@router.get("/rules/{id}", responses=refusals(404), dependencies=[READS])
def get_rule(service: Serving, id: Id) -> Answer:
    """One rule. Its version is the ETag."""
    return rule_answer(service.rules.get(key_of(id)), service)


@router.put("/rules/{id}", responses={201: {"description": "Added."}, **refusals(404, 409, 412)})
def put_rule(
    service: Serving,
    caller: Writer,
    id: Id,
    rule: RuleBody,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Answer:
    """Put a rule in place of another, or add it. With If-Match only if it still has that version.

    With `If-Match: *` only if it is there, with `If-None-Match: *` only if it is not.
    """
    fields, key = rule.fields(), key_of(id)
    if isinstance(key, int) and fields.get("id", key) != key:
        raise RefusalError(f"id={fields['id']} in the body of rule {key}", "the same id, or none", "Leave it out.")
    if if_none_match is not None and (if_none_match.strip() != "*" or if_match is not None):
        raise RefusalError(
            f"If-None-Match: {if_none_match[:80]}{'' if if_match is None else ' beside If-Match'}",
            "`*` alone, which adds a rule and replaces none",
            "Correct it, or leave it out.",
        )
    exists = False if if_none_match is not None else True if if_match is not None else None
    made, is_new = service.rules.put(key, fields, _expected(if_match), caller.name, exists=exists)
    return rule_answer(made, service, 201 if is_new else 200, _settled(service))


@router.delete("/rules/{id}", responses=refusals(404, 412))
def delete_rule(service: Serving, caller: Writer, id: Id, if_match: IfMatch = None) -> Answer:
    """Take a rule out; objects inside it leave it. Its history stays."""
    service.rules.remove(key_of(id), _expected(if_match), caller.name)
    return Answer({"removed": id, "in_force": _settled(service)})


@router.post("/rules/{id}:pause", responses=refusals(404, 412))
def pause_rule(
    service: Serving,
    caller: Writer,
    id: Id,
    until: Annotated[str | None, Query(max_length=100, description="ISO 8601; without it until it is resumed.")] = None,
    if_match: IfMatch = None,
) -> Answer:
    """Let a rule take no part, until it is resumed or until a time."""
    rule = service.rules.pause(key_of(id), _instant(until), _expected(if_match), caller.name)
    return rule_answer(rule, service, in_force=_settled(service))


def _instant(text: str | None) -> datetime | None:
    return checked_instant(text, "until")


@router.post("/rules/{id}:resume", responses=refusals(404, 412))
def resume_rule(service: Serving, caller: Writer, id: Id, if_match: IfMatch = None) -> Answer:
    """Let a paused rule take part again."""
    rule = service.rules.resume(key_of(id), _expected(if_match), caller.name)
    return rule_answer(rule, service, in_force=_settled(service))


@router.post("/rules/{id}:restore", responses=refusals(404, 409, 412))
def restore_rule(
    service: Serving, caller: Writer, id: Id, body: Annotated[RestoreBody, Body()], if_match: IfMatch = None
) -> Answer:
    """Give a rule the content of an earlier version, as a new version."""
    rule = service.rules.restore(key_of(id), body.version, _expected(if_match), caller.name)
    return rule_answer(rule, service, in_force=_settled(service))


@router.get("/rules/{id}/history", responses=refusals(404), dependencies=[READS])
def rule_history(service: Serving, id: Id, last: Annotated[int, Query(ge=1, le=1000)] = 100) -> Answer:
    """Who changed what, and when; the newest change last."""
    return Answer({"changes": [_change(each) for each in service.rules.history(key_of(id), last)]})


def _change(change: Any) -> dict[str, Any]:
    return {
        "revision": change.revision,
        "action": change.action,
        "author": change.author,
        "at": change.at,
        "before": None if change.before is None else rule_fields(change.before),
        "after": None if change.after is None else rule_fields(change.after),
    }


@router.post("/rules:import", responses=refusals(413))
async def import_rules(
    request: Request,
    service: Serving,
    caller: Writer,
    existing: Annotated[Literal["refuse", "replace", "skip"], Query()] = "refuse",
) -> Answer:
    """Take in many rules, a JSON object a line, all or none; every fault is named with its line."""
    body = await request.body()
    done = await run_in_threadpool(
        service.rules.import_lines, body, existing, caller.name, service.settings.limits.rules
    )
    in_force = await run_in_threadpool(_settled, service)
    return Answer({**done, "in_force": in_force})


@router.post("/publish", responses=refusals(409), dependencies=[PUBLISHES])
def publish(service: Serving, dry_run: Flag = False) -> Answer:
    """Let the rules be in force as the book has them now; with dry_run say what that would change."""
    if dry_run:
        return Answer({"dry_run": True, "version": service.version, **difference_json(service.preview())})
    return Answer(_published(service.publish()))


def _published(published: Published) -> dict[str, Any]:
    faults = [(fault.id, fault.reason) for fault in published.faults]
    return {"version": published.version, "published": published.is_new, "faulty": faults_json(faults)}


@router.get("/versions", responses=refusals(), dependencies=[READS])
def versions(
    service: Serving,
    before: Annotated[int | None, Query(ge=1, lt=2**31)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Answer:
    """The versions that were published, the newest first."""
    return Answer({"in_force": service.version, "versions": service.versions(before, limit)})


@router.get("/versions/{number}/diff", responses=refusals(404), dependencies=[READS])
def version_diff(service: Serving, number: Annotated[int, Path(ge=1, lt=2**31)]) -> Answer:
    """What a version changed of the one before it."""
    return Answer({"version": number, **difference_json(service.difference(number))})
