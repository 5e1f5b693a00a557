"""Finding rules of a book: by label, state or text in the database, and by the values at which they hold."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, get_args

import pyarrow as pa
from sqlalchemy import ColumnElement, and_, or_, true

from fencepost.book.storing import State
from fencepost.book.tables import RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.rules.rule import Rule, microseconds_of

_TRUTHS = {"true": True, "false": False}


def conditions_for(labels: Mapping[str, str] | None, state: State | None, text: str | None) -> ColumnElement[bool]:
    """What the database can decide; it may let too much through, never too little."""
    asked: list[ColumnElement[bool]] = [UNREMOVED]
    asked += [RULES.c.labels.contains(pair, autoescape=True) for pair in label_texts(labels)]
    if state is not None and state not in get_args(State):
        raise FencepostError(f"state={state!r}", f"one of {', '.join(get_args(State))}", "Correct it.")
    if state in ("enabled", "paused"):
        asked.append(RULES.c.enabled.is_(state == "enabled"))
    elif state == "expired":
        asked.append(RULES.c.expires <= microseconds_of(datetime.now(UTC)))
    if text is not None and text.isascii():
        asked.append(RULES.c.condition.icontains(text, autoescape=True))
    return and_(*asked)


def label_texts(labels: Mapping[str, str] | None) -> list[str]:
    """Labels as the database has them."""
    pairs = []
    for name, value in (labels or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise FencepostError(f"labels={labels!r}", "names and values that are strings", "Write {'desk': '4'}.")
        pairs.append(f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}")
    return pairs


def mentions(search: str | None) -> ColumnElement[bool]:
    """What contains a text in its condition or its name."""
    if not search:
        return true()
    inside = (column.icontains(search, autoescape=True) for column in (RULES.c.condition, RULES.c.name))
    return or_(*inside)


def is_asked_for(rule: Rule, labels: Mapping[str, str] | None, text: str | None) -> bool:
    """What the database cannot decide exactly."""
    own = rule.labels or {}
    if not all(own.get(name) == value for name, value in (labels or {}).items()):
        return False
    return text is None or text.lower() in str(rule.condition).lower()


def holding(rules: Iterable[Rule], values: Mapping[str, Any]) -> set[int]:
    """The ids of the rules whose condition holds at these values, paused or not; columns without one are null."""
    from fencepost.rules import Rules
    from fencepost.rules.options import fields_of

    taken = Rules.from_dicts({**fields_of(rule), "enabled": True} for rule in rules)
    if not len(taken):
        return set()
    snapshot = taken.compile()
    known = {
        **{name: type_.arrow for name, type_ in snapshot.types.items()},
        **dict.fromkeys(snapshot.keys, pa.string()),
    }
    row: dict[str, Any] = {name: pa.nulls(1, type_) for name, type_ in known.items()}
    for name, value in values.items():
        own = name if name in known else next((each for each in known if each.lower() == name.lower()), None)
        if own is None:
            raise FencepostError(
                f"no rule uses the column {name}", f"one of {', '.join(known) or 'none'}", "Correct the name."
            )
        row[own] = _as_arrow(own, value, known[own])
    return {int(id) for id in snapshot.match(row)[0]}


def _as_arrow(name: str, value: Any, type_: Any) -> Any:
    """A value in the type of its column; texts are read."""
    try:
        if isinstance(value, str) and not pa.types.is_string(type_):
            value = _read(value, type_)
        return pa.array([value], type_)
    except (pa.ArrowException, ValueError, KeyError, TypeError, OverflowError):
        raise FencepostError(f"{name}={value}", f"a value of type {type_}", "Correct the value.") from None


def _read(text: str, type_: Any) -> Any:
    if pa.types.is_boolean(type_):
        return _TRUTHS[text.strip().lower()]
    if pa.types.is_date(type_):
        return date.fromisoformat(text)
    if pa.types.is_timestamp(type_):
        instant = datetime.fromisoformat(text)
        return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return float(text)
