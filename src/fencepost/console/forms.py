"""What people send: the fields of a rule, filters, searches; refused in words that a page can show."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fencepost.console.source import KINDS, EventFilter, RuleSearch, Source
from fencepost.errors import FencepostError
from fencepost.rules import Rule

_SPANS = ("for_", "keep_firing_for", "cooldown", "every")
_PAUSES = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}


def rule_fields(rule: Rule | None) -> dict[str, Any]:
    """What the form of a rule is filled with."""
    if rule is None:
        return {"condition": "", "detect": ["enter", "exit"], "name": "", "labels": "", "enabled": True}
    return {
        "id": rule.id,
        "name": rule.name or "",
        "condition": str(rule.condition),
        "detect": rule.detect.split(","),
        "initial": rule.initial,
        "labels": ", ".join(f"{name}={value}" for name, value in (rule.labels or {}).items()),
        "expires": "" if rule.expires is None else rule.expires.strftime("%Y-%m-%dT%H:%M:%S"),
        "stay": rule.stay or "",
        "margin": ", ".join(f"{name}={value}" for name, value in (rule.margin or {}).items()),
        "limit": "" if rule.limit is None else str(rule.limit),
        "enabled": rule.enabled,
        "expect": rule.version,
        **{name: "" if getattr(rule, name) is None else str(getattr(rule, name)) for name in _SPANS},
    }


def sent_fields(form: Any) -> dict[str, Any]:
    """The same, as somebody has filled it in."""
    names = ("id", "name", "condition", "labels", "expires", "stay", "margin", "limit", "expect", *_SPANS)
    fields: dict[str, Any] = {name: str(form.get(name, "")).strip() for name in names}
    fields["condition"] = str(form.get("condition", "")).replace("\r\n", "\n")
    fields["detect"] = [str(kind) for kind in form.getlist("detect")]
    fields["initial"] = bool(form.get("initial"))
    fields["enabled"] = form.get("enabled", "yes") != ""
    return fields


def read_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a rule from its form."""
    unknown = [kind for kind in fields["detect"] if kind not in KINDS]
    if unknown or not fields["detect"]:
        got = f"{unknown[0]!r} to report" if unknown else "nothing to report"
        raise FencepostError(got, f"one or several of {', '.join(KINDS)}", "Tick what the rule reports.")
    limit = _read_number(str(fields.get("limit") or ""), "a limit of")
    return {
        "detect": ",".join(fields["detect"]),
        "initial": bool(fields.get("initial")),
        "labels": _read_pairs(fields.get("labels") or "", "label"),
        "expires": _read_instant(fields.get("expires") or "", "expires"),
        "enabled": bool(fields.get("enabled", True)),
        "name": fields.get("name") or None,
        "stay": fields.get("stay") or None,
        "margin": _read_margin(fields.get("margin") or ""),
        "limit": limit,
        **{name: _read_span(fields.get(name) or "") for name in _SPANS},
    }


def _read_span(text: str) -> int | str | None:
    return _read_number(text, "a time of") if text.isdecimal() else text or None


def _read_number(text: str, what: str) -> int | None:
    """A whole number that is not negative, or None for an empty field."""
    number = read_place(text)
    if number is None and text:
        raise FencepostError(f"{what} {text[:40]!r}", "a whole number", "Write for example 3, or leave it empty.")
    return number


def _read_pairs(text: str, what: str) -> dict[str, str] | None:
    pairs: dict[str, str] = {}
    for part in text.replace("\n", ",").split(","):
        if part.strip():
            name, equals, value = part.partition("=")
            if not equals or not name.strip():
                raise FencepostError(f"the {what} {part.strip()!r}", "a name and a value", "Write for example desk=4.")
            pairs[name.strip()] = value.strip()
    return pairs or None


def _read_margin(text: str) -> dict[str, float] | None:
    pairs = _read_pairs(text, "margin")
    if pairs is None:
        return None
    try:
        return {name: int(value) if value.isdecimal() else float(value) for name, value in pairs.items()}
    except ValueError:
        got = f"the margin {text[:80]!r}"
        raise FencepostError(got, "columns with numbers", "Write for example price=0.5.") from None


def _read_instant(text: str, what: str) -> datetime | None:
    if not text:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise FencepostError(f"{what} {text!r}", "a time", "Write for example 2026-12-31 23:59.") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def read_until(form: Any) -> datetime | None:
    """When a pause ends: after an hour, a day, a week, at a time, or never."""
    chosen = str(form.get("until", ""))
    if chosen in _PAUSES:
        return datetime.now(UTC) + _PAUSES[chosen]
    return _read_instant(str(form.get("at", "")).strip(), "a pause until") if chosen == "at" else None


def read_expect(form: Any) -> int | None:
    """The version that somebody looked at when they changed a rule."""
    return _read_number(str(form.get("expect", "")).strip(), "version")


def read_place(text: str) -> int | None:
    """A position, a version or a limit: a whole number that is not negative; None where the text is none."""
    id = read_id(text)
    return None if id is None or id < 0 else id


def read_id(text: str) -> int | None:
    """The id of a rule; None where the text is none."""
    plain = text.strip().replace(",", "")
    if not plain.removeprefix("-").isdecimal() or len(plain) > 20:
        return None
    number = int(plain)
    return number if -(2**63) <= number < 2**63 else None


def find_rule(source: Source, text: str) -> int | None:
    """The id of a rule that somebody calls by its id or its name; None where there is none."""
    id = read_id(text)
    if id is None and text and source.rules:
        named = [rule for rule in source.rules.page(None, 1, RuleSearch(text=text)).named if rule.name == text]
        id = named[0].id if named else None
    return id


def read_search(query: Mapping[str, str]) -> RuleSearch:
    """What is looked for among the rules."""
    return RuleSearch(*(query.get(name, "").strip() for name in ("q", "label", "holds", "state")))


def read_filter(query: Mapping[str, str], source: Source) -> EventFilter:
    """Which events are meant."""
    rule, detect = query.get("rule", "").strip(), query.get("detect", "").strip()
    id = find_rule(source, rule)
    if rule and id is None:
        raise FencepostError(f"rule {rule[:80]!r}", "the id or the name of a rule", "Write for example 7.")
    if detect not in ("", *KINDS):
        raise FencepostError(f"kind {detect!r}", f"one of {', '.join(KINDS)}", "Choose one of the list.")
    return EventFilter(id, query.get("object", "").strip(), detect)
