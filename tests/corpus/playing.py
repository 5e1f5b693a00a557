"""Scenarios, and what a monitor answers when one is played to it."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import fencepost as fp

Step = tuple[Any, ...]
"""What is done, and with what: the methods of `Player`."""

COUNTERS = ("rows", "late", "null", "inside", "enter", "exit", "cross")


@dataclass(frozen=True)
class Scenario:
    """Everything that happens to one monitor."""

    name: str
    settings: dict[str, Any]
    """Of the monitor; late=True records the late rows."""
    rules: list[dict[str, Any]]
    """To begin with, as `Rules.from_dicts` takes them."""
    steps: list[Step]
    tables: tuple[tuple[Any, dict[str, Any]], ...] = ()
    """More rules to begin with: tables, and how `Rules.add_table` reads them."""
    version: int = 0
    """Other than 0: the monitor begins with a snapshot of this version."""


class Record(NamedTuple):
    """One answer."""

    step: str
    """The number of the step and its name, then what is answered: events, late, counters or text."""
    table: Any


def play(scenario: Scenario) -> Iterator[Record]:
    """Play a scenario on the public API, and yield every answer in the order in which they come."""
    with tempfile.TemporaryDirectory() as directory:
        player = Player(scenario, Path(directory))
        for number, (action, *arguments) in enumerate(scenario.steps):
            step = f"{number} {action}"
            answers = getattr(player, action)(*arguments)
            yield from (Record(f"{step}: {kind}", table) for kind, table in answers)
            yield from (Record(f"{step}: late", table) for table in player.take_late())
            yield Record(f"{step}: counters", player.counters())


Answers = list[tuple[str, Any]]


class Player:
    """A monitor, and its rules once more, so that it can be built again with the versions they have."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        self._settings = dict(scenario.settings)
        self._late: list[Any] = []
        if self._settings.pop("late", False):
            self._settings["late"] = self._late.append
        self._rules = fp.Rules()
        for table, arguments in scenario.tables:
            self._rules.add_table(table, **arguments)
        self._put_all(scenario.rules)
        self._version = scenario.version
        self._state = directory / "state.arrow"
        self._monitor = self._build()
        self._last: Any = None
        """The last table of events."""

    def _build(self) -> fp.Monitor:
        if not self._version:
            return fp.Monitor(self._rules, **self._settings)
        snapshot = self._rules.compile(self._settings.get("schema"), self._version)
        return fp.Monitor(snapshot, **self._settings)

    def take_late(self) -> list[Any]:
        """The late rows that were passed on since the last call."""
        late = list(self._late)
        self._late.clear()
        return late

    def counters(self) -> Any:
        """The counters as a table of one row."""
        counters = self._monitor.counters
        values = {**counters, **counters["events"]}
        return pa.table({name: pa.array([values[name]], pa.int64()) for name in COUNTERS})

    # -- rows and time -------------------------------------------------------------------------------------

    def update(self, table: Any) -> Answers:
        return self._events(self._monitor.update(table))

    def pair(self, left: Any, right: Any) -> Answers:
        return self._events(self._monitor.update(left=left, right=right))

    def one(self, object: Any, time: Any, values: dict[str, Any]) -> Answers:
        """The events of one row, as a table with the types of the last one; its values must be those of the tuples.

        And why the first of them happened.
        """
        rows = self._monitor.update_one(object, time, **values)
        schema = self._last.schema
        named = [dict(zip(schema.names, row, strict=True)) for row in rows]
        table = pa.Table.from_pylist(named, schema)
        for got, expected in zip(named, table.to_pylist(), strict=True):
            for name, value in expected.items():
                assert type(got[name]) is type(value), f"{name} is {got[name]!r}, but {value!r} in a table"
                assert got[name] == value, f"{name} is {got[name]!r}, but {value!r} in a table"
        return [("events", table), *_text(str(self._monitor.why(row)) for row in rows[:1])]

    def advance(self, time: Any) -> Answers:
        return self._events(self._monitor.advance(time))

    # -- rules ---------------------------------------------------------------------------------------------

    def add(self, rule: dict[str, Any]) -> Answers:
        self._put(rule)
        return self._events(self._monitor.add(rule["id"], rule["condition"], **_options(rule)))

    def replace(self, rule: dict[str, Any]) -> Answers:
        self._put(rule)
        return self._events(self._monitor.replace(rule["id"], rule["condition"], **_options(rule)))

    def remove(self, id: int) -> Answers:
        self._rules.remove(id)
        return self._events(self._monitor.remove(id))

    def change(self, rules: list[dict[str, Any]], remove: list[int]) -> Answers:
        for id in remove:
            self._rules.remove(id)
        self._put_all(rules)
        return self._events(self._monitor.change(fp.Rules.from_dicts(rules), remove))

    def follow(self, rules: list[dict[str, Any]], remove: list[int], version: int) -> Answers:
        """The same changes by a snapshot of all rules."""
        for id in remove:
            self._rules.remove(id)
        self._put_all(rules)
        self._version = version
        return self._events(self._monitor.follow(self._rules.compile(self._settings.get("schema"), version)))

    def _put_all(self, rules: list[dict[str, Any]]) -> None:
        for rule in rules:
            self._put(rule)

    def _put(self, rule: dict[str, Any]) -> None:
        put = self._rules.replace if rule["id"] in self._rules else self._rules.add
        put(rule["id"], rule["condition"], **_options(rule))

    # -- questions -----------------------------------------------------------------------------------------

    def inside(self, ids: list[int] | None = None) -> Answers:
        """Who is inside each rule in force (or those given), in the order of names: none is promised."""
        ids = [rule.id for rule in self._rules if rule.enabled] if ids is None else ids
        return _text(f"{id}: {', '.join(sorted(_shown(each) for each in self._monitor.inside(id)))}" for id in ids)

    def rules_at(self, values: dict[str, Any]) -> Answers:
        return _text([str(self._monitor.rules_at(**values))])

    def why(self) -> Answers:
        """Why the first and the last event of each kind happened, of the last table."""
        kinds = self._last["detect"].to_pylist()
        chosen = {kinds.index(kind) for kind in set(kinds)}
        chosen |= {len(kinds) - 1 - kinds[::-1].index(kind) for kind in set(kinds)}
        return _text(str(self._monitor.why(self._last.slice(row, 1))) for row in sorted(chosen))

    # -- keeping it ----------------------------------------------------------------------------------------

    def save(self) -> Answers:
        """Go on with another monitor that takes over the state."""
        self._monitor.save(self._state)
        self._monitor = self._build()
        self._monitor.restore(self._state)
        return []

    def _events(self, table: Any) -> Answers:
        self._last = table
        return [("events", table)]


def _options(rule: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rule.items() if name not in ("id", "condition")}


def _text(lines: Any) -> Answers:
    return [("text", pa.table({"line": pa.array(list(lines), pa.string())}))]


def _shown(object: Any) -> str:
    return " ".join(map(str, object)) if isinstance(object, tuple) else str(object)
