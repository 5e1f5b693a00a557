"""What a rule book should be: dictionaries and lists, and conditions as plain functions."""

from collections.abc import Callable, Iterable, Mapping
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

    pauses: dict[int, datetime] = field(default_factory=dict)
    """When paused rules go on."""
    mirrored: dict[str, set[int]] = field(default_factory=dict)
    """The rules that were made from each table."""

    def put(self, id: int, rule: dict[str, Any], action: str, at_least: int = 1) -> None:
        self.pauses.pop(id, None)
        version = max(at_least, self.versions.get(id, 0) + 1)
        after = {**rule, "version": version}
        self.changes.append((id, action, self.rules.get(id), after))
        self.rules[id], self.versions[id] = after, version

    def remove(self, id: int, action: str) -> None:
        self.pauses.pop(id, None)
        self.changes.append((id, action, self.rules.pop(id), None))

    def pause(self, id: int, until: datetime | None) -> None:
        old = self.rules[id]
        if old["enabled"] or self.pauses.get(id) != until:
            self.put(id, {**old, "enabled": False}, "paused")
            if until is not None:
                self.pauses[id] = until

    def wake(self, now: datetime) -> None:
        for id in sorted(id for id, until in self.pauses.items() if until <= now):
            self.put(id, {**self.rules[id], "enabled": True}, "resumed")

    def restore(self, id: int, version: int) -> None:
        old = self.version(id, version)
        if {**old, "version": 0} != {**self.rules.get(id, {}), "version": 0}:
            self.put(id, old, "restored")

    def version(self, id: int, version: int) -> dict[str, Any]:
        return next(after for of, _, _, after in self.changes if of == id and after and after["version"] == version)

    def foreign(self, origin: str, ids: Iterable[int]) -> set[int]:
        """Rules that are there and were not made from a table."""
        return {id for id in ids if id in self.rules and id not in self.mirrored.get(origin, set())}

    def sync(self, origin: str, rows: dict[int, dict[str, Any]]) -> None:
        mine = self.mirrored.get(origin, set())
        for other in self.mirrored.values():
            if other is not mine:
                other -= {id for id in rows if id not in mine and id in self.versions}
        for id in sorted(rows.keys() | (mine & self.rules.keys())):
            if id not in rows:
                self.remove(id, "removed")
            elif id not in self.rules:
                self.put(id, rows[id], "added")
            else:
                new = {**rows[id], "enabled": self.rules[id]["enabled"]}
                if {**new, "version": 0} != {**self.rules[id], "version": 0}:
                    self.put(id, new, "replaced")
        self.mirrored[origin] = set(rows)

    def has_name(self, name: str | None, id: int) -> bool:
        """Whether a rule other than this one has the name."""
        return name is not None and any(rule["name"] == name for other, rule in self.rules.items() if other != id)

    def would_share_a_name(self, given: Mapping[int, Mapping[str, Any]], existing: str) -> bool:
        """Whether two rules would have one name after an import, or have it in its file."""
        in_file = [rule["name"] for rule in given.values() if rule["name"]]
        after = {**given, **self.rules} if existing == "skip" else {**self.rules, **given}
        there = [rule["name"] for rule in after.values() if rule["name"]]
        return len(set(in_file)) < len(in_file) or len(set(there)) < len(there)

    def matches(self, row: Row) -> set[int]:
        return {id for id, rule in self.rules.items() if rule["enabled"] and CONDITIONS[rule["condition"]](row)}
