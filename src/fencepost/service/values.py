"""Values by column as people write them, to ask which rules hold there."""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from fencepost.errors import FencepostError

_AND = re.compile(r"\s*(?:,|;|\band\b)\s*", re.IGNORECASE)


def read_values(text: str, types: Mapping[str, str]) -> dict[str, Any]:
    """Values by column as they are written, `price = 47, symbol = IBM`.

    >>> read_values("price = 47 and symbol = 'IBM'", {"price": "double"})
    {'price': 47.0, 'symbol': 'IBM'}
    """
    values: dict[str, Any] = {}
    for part in _AND.split(text.strip()):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise FencepostError(f"{part!r}", "columns with their values", "Write for example price = 47.")
        kind = next((kind for column, kind in types.items() if column.lower() == name.lower()), "")
        values[name] = _read_value(name, value, kind)
    return values


def _read_value(name: str, text: str, kind: str) -> Any:
    plain = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    try:
        if kind.startswith("timestamp"):
            instant = datetime.fromisoformat(plain)
            return instant if instant.tzinfo or kind == "timestamp_ntz" else instant.replace(tzinfo=UTC)
        if kind == "date":
            return date.fromisoformat(plain)
        if kind == "boolean":
            return {"true": True, "false": False}[plain.lower()]
        if kind == "key" or plain is not text:
            return plain
        return int(plain) if plain.lstrip("-").isdecimal() and kind == "bigint" else float(plain)
    except (ValueError, KeyError):
        if kind:
            raise FencepostError(f"{name} = {text}", f"a value of type {kind}", "Correct the value.") from None
        return plain
