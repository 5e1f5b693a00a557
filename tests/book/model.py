"""What a rule book should be: dictionaries and lists, and conditions as plain functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Row = Mapping[str, Any]

CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "price > 4": lambda row: row["price"] is not None and row["price"] > 4,
    "price BETWEEN 1 AND 3": lambda row: row["price"] is not None and 1 <= row["price"] <= 3,
    "symbol = 'IBM'": lambda row: row["symbol"] == "IBM",
    "symbol = 'it''s; DROP TABLE fencepost_rules; --' OR price <= 0": lambda row: (
        row["symbol"] == "it's; DROP TABLE fencepost_rules; --" or (row["price"] is not None and row["price"] <= 0)
    ),
}
"""All columns have the types of the first version, so that any mixture can be published."""
SCHEMA = {"price": "double", "symbol": "string"}
ROWS: list[Row] = [
    {"price": price, "symbol": symbol}
    for price in (None, -1.0, 1.0, 3.0, 3.5, 5.0)
    for symbol in (None, "IBM", "it's; DROP TABLE fencepost_rules; --")
]
EXPIRIES = [None, datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)]
LABELS: list[dict[str, str] | None] = [None, {"team": "desk 4"}, {"'; DROP TABLE fencepost_rules; --": '%s ? :id {"'}]


@dataclass
class Model:
    """A book without a database."""

    rules: dict[int, dict[str, Any]] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    """The last version of every id that ever was."""
    changes: list[tuple[int, str, dict[str, Any] | None, dict[str, Any] | None]] = field(default_factory=list)

    def put(self, id: int, rule: dict[str, Any], action: str, at_least: int = 1) -> None:
        version = max(at_least, self.versions.get(id, 0) + 1)
        after = {**rule, "version": version}
        self.changes.append((id, action, self.rules.get(id), after))
        self.rules[id], self.versions[id] = after, version

    def remove(self, id: int, action: str) -> None:
        self.changes.append((id, action, self.rules.pop(id), None))

    def matches(self, row: Row) -> set[int]:
        return {id for id, rule in self.rules.items() if rule["enabled"] and CONDITIONS[rule["condition"]](row)}
