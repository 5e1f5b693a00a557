"""Answers as JSON, and refusals, which say what was got, what was expected and what to do next."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from fencepost.errors import FencepostError
from fencepost.service.refusals import RefusalError, status_of

JSON = "application/json"


class Answer(Response):
    """A value as JSON; infinities and NaN, which JSON lacks, are null."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """The bytes of a value."""
        return to_json(content).encode()


def to_json(value: Any) -> str:
    """A value as JSON."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _finite(asdict(value))
    if isinstance(value, datetime):
        text = value.isoformat()
        return f"{text[:-6]}Z" if text.endswith("+00:00") else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def event_dicts(table: pa.Table | None, first: int | None = None) -> list[dict[str, Any]]:
    """Events as JSON has them: with their positions; without the partner, which only bands have."""
    if table is None or not table.num_rows:
        return []
    events: list[dict[str, Any]] = table.to_pylist()
    for number, event in enumerate(events):
        if first is not None:
            event["position"] = first + number
        event.pop("other", None)
        labels = event.get("labels")
        event["labels"] = None if labels is None else dict(labels)
    return events


def difference_json(difference: Any, most: int = 1000) -> dict[str, Any]:
    """What a version changes: counts, and the first ids."""
    ids = {name: list(getattr(difference, name)) for name in ("added", "edited", "removed", "paused")}
    return {
        "counts": {**{name: len(own) for name, own in ids.items()}, "unchanged": difference.unchanged},
        **{name: own[:most] for name, own in ids.items()},
        "columns": difference.columns,
        "faulty": faults_json(difference.faulty.items()),
    }


def faults_json(faults: Iterable[tuple[int, str]], most: int = 1000) -> list[dict[str, Any]]:
    """Rules that are left out, and why."""
    return [{"id": id, "reason": reason} for (id, reason), _ in zip(faults, range(most), strict=False)]


_REMEDIES = {
    "Use replace() to edit it.": "Send PUT /v1/rules/ID to edit it, or leave out the id to get one that is free.",
    "Use add() for a new rule.": "Send POST /v1/rules for a new rule.",
    "Add it, or enable it with replace().": "Add it, or let it take part again: POST /v1/rules/ID:resume.",
}
"""What other parts tell those who write Python, as routes."""


def refuse(error: FencepostError, status: int | None = None) -> Answer:
    """A refusal as an answer."""
    remedy = _REMEDIES.get(error.remedy)
    if remedy is not None:
        error, status = RefusalError(error.got, error.expected, remedy), status_of(error) if status is None else status
    status = status_of(error) if status is None else status
    headers = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(status)
    said = {"got": error.got, "expected": error.expected, "remedy": error.remedy, "message": str(error)}
    return Answer(said, status, headers)


def to_refusal(got: str, expected: str, remedy: str, status: int) -> Answer:
    """A refusal of something that is no matter of rules or rows."""
    return refuse(RefusalError(got, expected, remedy), status)
