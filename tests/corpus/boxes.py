"""Scenarios of one stream."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.corpus.drawing import (
    ARROW,
    SCHEMA,
    START,
    TIMES,
    Dice,
    Stream,
    Times,
    Traffic,
    condition,
    literal,
    options,
    value,
)
from tests.corpus.playing import Scenario, Step

EVERY = ("inside", "enter", "exit", "cross")
PLAIN = ("inside", "enter", "exit")
MOVES = ("enter", "exit")
PLANE = {"x": "double", "y": "double"}
SPACE = {"x": "double", "y": "double", "z": "double"}
TYPES = {
    "x": "double",
    "n": "bigint",
    "d": "decimal",
    "t": "timestamp",
    "day": "date",
    "flag": "boolean",
}
FEW = (6, 1, 40, 1, 12, 70, 2, 45)
ANCHOR = 0
"""A rule that nothing is inside of. It has every column, so that no rule that comes later brings one."""


class Script:
    """Steps of a scenario, and the rules that they leave in force."""

    def __init__(self, dice: Dice, traffic: Traffic, draw: Any, *, explained: bool = True) -> None:
        self.dice, self.traffic, self.steps = dice, traffic, list[Step]()
        self._draw, self._explained = draw, explained
        self._ids: set[int] = set()
        self._largest = 0
        self._removed: list[int] = []

    def rule(self, id: int) -> dict[str, Any]:
        self._ids.add(id)
        self._largest = max(self._largest, id)
        return {"id": id, **self._draw()}

    def change_rules(self) -> None:
        """One change of the rules, of any kind."""
        dice = self.dice
        mine, new = sorted(self._ids), self._largest + dice.between(1, 3)
        action = dice.pick(("add", "add", "replace", "replace", "replace", "pause", "remove", "change", "follow"))
        if action == "add" or len(mine) < 4:
            again = self._removed and dice.chance(0.4)
            self.steps.append(("add", self.rule(self._removed.pop() if again else new)))
        elif action == "replace":
            self.steps.append(("replace", self.rule(dice.pick(mine))))
        elif action == "pause":
            self.steps.append(("replace", self.rule(dice.pick(mine)) | {"enabled": False}))
        elif action == "remove":
            self.steps.append(("remove", self._remove(dice.pick(mine))))
        else:
            going = dice.some(mine, dice.between(0, 2))
            edited = [each for each in dice.some(mine, 3) if each not in going] + [new]
            remove = [self._remove(id) for id in going]
            put = [self.rule(id) for id in edited]
            version = () if action == "change" else (len(self.steps),)
            self.steps.append((action, put, remove, *version))

    def _remove(self, id: int) -> int:
        self._ids.discard(id)
        self._removed.append(id)
        return id

    def ask(self) -> None:
        """One question, or a new monitor with the same state."""
        asked = self.dice.pick(("inside", "inside", "why", "rules_at", "save"))
        if asked == "rules_at":
            stream = self.traffic.stream
            given = {name: value(kind, self.dice.below(20)) for name, kind in stream.numbers.items()}
            self.steps.append(("rules_at", given | {name: self.dice.pick("abz") for name in stream.keys}))
        elif asked != "why" or (self._explained and self.steps[-1][0] in ("update", "pair", "advance")):
            self.steps.append((asked,))

    def advance(self) -> None:
        """The clock goes on, or back, which has no effect."""
        self.traffic.now += self.dice.pick((-1, 1, 3, 6))
        self.steps.append(("advance", self.traffic.stream.times.at(self.traffic.now)))


def anchor(numbers: dict[str, str], keys: Sequence[str]) -> dict[str, Any]:
    parts = [f"{name} > {literal(kind, 50)}" if kind != "boolean" else name for name, kind in numbers.items()]
    return {"id": ANCHOR, "condition": " AND ".join([*parts, *(f"{name} = 'none'" for name in keys)]), "detect": "exit"}


def mixed(
    name: str,
    seed: int,
    *,
    objects: str = "string",
    time: str = "timestamp",
    sequence: tuple[str, ...] = (),
    first: str = "enter",
    timeout: int | None = None,
    typed: bool = False,
    late: bool = True,
    numbers: dict[str, str] = PLANE,
    keys: tuple[str, ...] = ("k",),
    most: int = 2,
    boxes: int = 3,
    detects: Sequence[str] = EVERY,
    expiring: float = 0.25,
    rules: int = 12,
    batches: Sequence[int] = FEW,
    singles: int = 0,
    changes: bool = True,
    as_dicts: bool = False,
    version: int = 0,
    count: int = 7,
    open_ends: bool = True,
    **stream: Any,
) -> Scenario:
    """A random scenario: batches with everything else between them.

    Args:
        name: of the scenario.
        seed: of all choices.
        objects: their type.
        time: its type.
        sequence: columns.
        first: of the monitor.
        timeout: in ticks.
        typed: whether schema= is passed.
        late: whether late rows are recorded.
        numbers: attributes and their types.
        keys: key columns.
        most: attributes of one box.
        boxes: of one rule, at most.
        detects: that rules choose from.
        expiring: the share of rules that expire.
        rules: how many there are to begin with.
        batches: rows of each.
        singles: rows by update_one after each batch.
        changes: whether rules change.
        as_dicts: whether batches are dicts of lists.
        version: of a snapshot to begin with; 0 for rules.
        count: of objects.
        open_ends: whether ranges may have no end. Without an end, ranges of times are not asked why.
        stream: the rest of `Stream`.

    """
    dice, times = Dice(seed), Times(time)
    traffic = Traffic(dice, Stream(objects, count, times, sequence, numbers, keys, **stream))

    def drawn() -> dict[str, Any]:
        made = condition(dice, numbers, keys, most, boxes, open_ends=open_ends)
        return {"condition": made, **options(dice, detects, times, expiring, traffic.now + 60)}

    explained = not open_ends or not any(kind in TIMES for kind in numbers.values())
    script = Script(dice, traffic, drawn, explained=explained)
    start = [anchor(numbers, keys), *(script.rule(id) for id in range(1, rules + 1))]
    for size in batches:
        rows = traffic.rows(size)
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        script.steps.append(("update", columns if as_dicts else traffic.table(rows)))
        script.ask()
        for _ in range(singles):
            row = traffic.row()
            object, at = row.pop("vehicle"), row.pop("ts", None)
            given = {name: value for name, value in row.items() if value is not None or dice.chance(0.5)}
            script.steps.append(("one", object, at, given))
        if changes:
            script.change_rules()
            script.ask()
        if times.is_known and dice.chance(0.4):
            script.advance()
    script.steps.append(("inside",))
    settings: dict[str, Any] = {"object": "vehicle", "first": first, "late": late}
    settings |= {"time": "ts"} if times.is_known else {}
    settings |= {"sequence": sequence[0] if len(sequence) == 1 else list(sequence)} if sequence else {}
    settings |= {"timeout": times.span(timeout)} if timeout is not None else {}
    settings |= {"schema": schema(numbers, keys)} if typed else {}
    return Scenario(name, settings, start, script.steps, version=version)


def schema(numbers: dict[str, str], keys: Sequence[str]) -> dict[str, str]:
    return {name: SCHEMA[kind] for name, kind in numbers.items()} | dict.fromkeys(keys, "string")


# -- objects, times, sequences -----------------------------------------------------------------------------------

PARTS = ("part", "seq")


def objects_and_times() -> list[Scenario]:
    """Every type of object, of time and of sequence, with and without the other settings."""
    both: dict[str, Any] = {"keys": ("k", "zone")}
    return [
        mixed("string timestamp", 1),
        mixed("string timestamp timeout", 2, timeout=6),
        mixed("string none", 3, time="none"),
        mixed("string none sequence", 4, time="none", sequence=("seq",)),
        mixed("string bigint", 5, time="bigint", first="silent"),
        mixed("string bigint timeout", 6, time="bigint", timeout=4, sequence=("seq",)),
        mixed("string date", 7, time="date", timeout=5, typed=True),
        mixed("string ntz", 8, time="timestamp_ntz", typed=True, sequence=PARTS),
        mixed("string milliseconds", 9, time="timestamp_ms", timeout=7, first="silent"),
        mixed("large string", 10, objects="large_string", sequence=("seq",), late=False),
        mixed("string view", 28, objects="string_view", time="date", late=False),
        mixed("dictionary", 11, objects="dictionary", time="bigint"),
        mixed("int32 timestamp", 12, objects="int32", sequence=PARTS, timeout=5),
        mixed("int32 none", 13, objects="int32", time="none", first="silent", typed=True),
        mixed("int64 bigint", 14, objects="int64", time="bigint", sequence=PARTS, **both),
        mixed("int64 timestamp", 15, objects="int64", typed=True, timeout=9, first="silent", **both),
        mixed("negative date", 16, objects="negative", time="date", sequence=("seq",)),
        mixed("far none", 17, objects="far", time="none", sequence=PARTS, typed=True),
        mixed("far timestamp", 18, objects="far", timeout=3),
        mixed("binary timestamp", 19, objects="binary", sequence=("seq",), **both),
        mixed("fixed binary ntz", 20, objects="fixed_binary", time="timestamp_ntz", timeout=6),
        mixed("date date", 21, objects="date", time="date", first="silent"),
        mixed("date none", 22, objects="date", time="none"),
        mixed("timestamp bigint", 23, objects="timestamp", time="bigint", timeout=6, sequence=("seq",)),
        mixed("decimal timestamp", 24, objects="decimal", typed=True),
        mixed("double timestamp", 25, objects="double", sequence=("seq",)),
        mixed("dicts", 26, objects="int64", time="bigint", as_dicts=True, late=False),
        mixed("dicts of strings", 27, as_dicts=True, late=False, timeout=8),
    ]


# -- rows --------------------------------------------------------------------------------------------------------


def kinds_of_rows() -> list[Scenario]:
    """Single rows, ties, disorder, missing values, keys that change."""
    single: dict[str, Any] = {"singles": 5, "detects": PLAIN, "expiring": 0.0}
    tied: dict[str, Any] = {"keys": ("k", "zone"), "spread": (0,) * 9 + (1,), "batches": (40, 25, 1, 60)}
    return [
        columns_of_nulls(),
        mixed("single rows", 40, time="bigint", batches=(9, 1, 14, 2, 5, 1, 3), **single),
        mixed("single rows timed", 41, sequence=("seq",), objects="int32", batches=(9, 1, 14, 2, 5, 1), **single),
        mixed("single rows untimed", 42, time="none", typed=True, objects="far", batches=(9, 1, 14, 2, 5), **single),
        mixed("single rows of dates", 43, time="date", objects="binary", batches=(9, 1, 14, 2, 5), **single),
        mixed("single rows ntz", 44, time="timestamp_ntz", objects="date", sequence=PARTS, batches=(9, 8, 5), **single),
        mixed(
            "single rows of all types",
            45,
            numbers=TYPES,
            typed=True,
            most=3,
            open_ends=False,
            batches=(20, 9, 4),
            **single,
        ),
        mixed("single rows by tables", 46, singles=5, timeout=8, batches=(9, 1, 14, 2, 5, 1, 3)),
        mixed("single rows crossing", 47, singles=6, time="bigint", sequence=("seq",), batches=(9, 1, 14, 2), far=0.5),
        mixed("ties", 48, spread=(0, 0, 0, 0, 0, 0, 1), batches=(40, 25, 1, 60, 12)),
        mixed("ties in sequence", 49, spread=(0, 0, 0, 1), sequence=("seq",), batches=(40, 25, 1, 60)),
        mixed("ties of keys", 59, numbers={"x": "double"}, most=1, missing=0.3, count=2, **tied),
        mixed("disorder", 50, spread=(0, 5, -3, -7, 2, -1, 9, -11), batches=(40, 25, 1, 60, 12), time="bigint"),
        mixed("disorder and timeout", 51, spread=(0, 5, -3, -7, 2, -1, 9), batches=(40, 25, 1, 60), timeout=4),
        mixed("mostly missing", 52, missing=0.4, numbers=SPACE, most=3, batches=(40, 25, 1, 60, 12)),
        mixed("nothing missing", 53, missing=0.0, numbers=SPACE, most=3, time="bigint"),
        mixed("keys that change", 54, keys=("k", "zone"), missing=0.02, texts=("a", "b", "c"), most=1),
        mixed(
            "keys that go",
            58,
            texts=("a", "b", *(f"key {number}" for number in range(4000))),
            batches=(1700, 2, 300),
            detects=MOVES,
        ),
        mixed("one object", 55, count=1, timeout=5, batches=(50, 1, 1, 40)),
        mixed("many objects", 56, count=300, timeout=9, batches=(200, 300, 1, 250), changes=False),
        mixed("silent and few rows", 57, first="silent", count=40, batches=(30,) * 6, timeout=6),
    ]


def columns_of_nulls() -> Scenario:
    """Columns that have no value in a whole batch, nor a type."""
    none: list[Any] = [None, None]
    rules = [{"id": 1, "condition": "x > 2 AND k = 'a'", "detect": "enter,exit"}]
    rules += [{"id": 2, "condition": "x < 5", "detect": "inside,cross"}]
    steps: list[Step] = [
        ("update", {"vehicle": none, "ts": none, "seq": none, "x": none, "k": none}),
        ("update", {"vehicle": [1, 2], "ts": none, "seq": none, "x": [3.0, 4.0], "k": none}),
        ("update", {"vehicle": [1, 2], "ts": [1, 1], "seq": none, "x": [3.0, 4.0], "k": none}),
        ("update", {"vehicle": [2, 1], "ts": [2, 2], "seq": none, "x": none, "k": ["a", "a"]}),
        ("update", {"vehicle": [2, 1], "ts": [3, 3], "seq": [None, 7], "x": none, "k": none}),
        ("update", {"vehicle": [1, 1], "ts": [4, 4], "seq": [7, None], "x": [1.0, 9.0], "k": none}),
        ("inside",),
    ]
    return Scenario("columns of nulls", {"object": "vehicle", "time": "ts", "sequence": "seq"}, rules, steps)


# -- rules -------------------------------------------------------------------------------------------------------


def kinds_of_rules() -> list[Scenario]:
    """Attributes of every type, every way to detect, changes, rules without columns."""
    quiet: dict[str, Any] = {"changes": False, "batches": (80, 1, 90, 40)}
    mixes = {"x": "double", "n": "bigint", "d": "decimal"}
    return [
        mixed("all types", 60, numbers=TYPES, typed=True, most=3, rules=16),
        mixed("all types timed out", 61, numbers=TYPES, typed=True, most=4, timeout=6, time="timestamp_ntz", rules=16),
        mixed("types as found", 62, numbers={"x": "double", "n": "bigint", "t": "timestamp", "day": "date"}, most=3),
        mixed("booleans", 63, numbers={"flag": "boolean", "x": "double"}, time="bigint"),
        mixed("floats and ints", 64, numbers={"x": "float", "n": "int"}, typed=True),
        mixed("reasons of all types", 89, numbers=TYPES, typed=True, most=3, rules=14, open_ends=False, time="bigint"),
        mixed("times without zone", 65, numbers={"t": "timestamp_ntz", "x": "double"}, typed=True),
        mixed(
            "cross in one dimension", 66, numbers={"x": "double"}, keys=(), most=1, boxes=1, detects=("cross",), far=0.6
        ),
        mixed("cross in two dimensions", 67, keys=(), most=2, boxes=1, detects=("cross", "enter"), far=0.6),
        mixed(
            "cross in three dimensions",
            68,
            numbers=SPACE,
            most=3,
            boxes=1,
            detects=("cross", "exit"),
            far=0.6,
            rules=20,
        ),
        mixed("cross of several boxes", 69, numbers=SPACE, most=3, boxes=4, detects=("cross", "inside"), far=0.5),
        mixed("cross of numbers", 70, numbers=mixes, typed=True, most=3, far=0.6, detects=("cross",), rules=20),
        mixed("cross of times", 71, numbers={"t": "timestamp", "day": "date"}, far=0.6, detects=("cross", "enter")),
        mixed("cross of keys", 72, keys=("k",), texts=("a", "a", "b"), far=0.6, detects=("cross",), missing=0.03),
        mixed("inside alone", 73, detects=("inside",), **quiet),
        mixed("enter alone", 74, detects=("enter",), **quiet),
        mixed("exit alone", 75, detects=("exit",), time="bigint", timeout=5, **quiet),
        mixed("moves by borders", 76, numbers={"x": "double"}, most=1, boxes=1, detects=MOVES, expiring=0.0, rules=25),
        mixed("moves that expire", 77, numbers={"x": "double"}, most=1, boxes=1, detects=MOVES, rules=25, timeout=8),
        mixed(
            "moves of integers", 78, numbers={"n": "bigint"}, typed=True, most=1, boxes=1, detects=MOVES, time="none"
        ),
        mixed("changes alone", 79, batches=(30, *(1,) * 25), rules=8),
        mixed("changes of numbers", 80, batches=(30, *(1,) * 15), numbers=TYPES, typed=True, most=2, time="date"),
        mixed("from a snapshot", 81, version=41, sequence=("seq",)),
        mixed("from a typed snapshot", 82, version=7, typed=True, numbers=mixes, most=3, timeout=9),
        mixed("expiring soon", 83, expiring=0.8, batches=(9, 1, 8, 1, 12, 9, 1, 30, 5, 9), time="date"),
        mixed("expiring and gone", 84, expiring=0.8, timeout=3, batches=(9, 1, 8, 1, 12, 9, 1, 30, 5, 9)),
        without_columns(),
        names_of_columns(),
        object_and_time_in_rules(),
        rules_before_rows(),
        ids_far_apart(),
    ]


def without_columns() -> Scenario:
    """A rule that always holds, and no other."""
    rules = [
        {"id": 1, "condition": "TRUE", "detect": "enter,inside,exit"},
        {"id": 2, "condition": "1 < 2", "detect": "exit", "expires": START + 5 * Times("timestamp").tick},
    ]
    times = Times("timestamp")
    rows = {"vehicle": ["a", "b", "a", None, "b", "a"], "ts": [times.at(tick) for tick in (1, 1, 2, 3, 9, 4)]}
    steps: list[Step] = [
        ("update", rows),
        ("why",),
        ("inside",),
        ("save",),
        ("update", {"vehicle": ["b", "c"], "ts": [times.at(10), times.at(30)]}),
        ("advance", times.at(34)),
        ("replace", {"id": 1, "condition": "TRUE", "detect": "exit", "enabled": False}),
        ("replace", {"id": 1, "condition": "TRUE", "detect": "enter", "initial": True}),
        ("remove", 1),
        ("inside",),
    ]
    return Scenario("without columns", {"object": "vehicle", "time": "ts", "timeout": times.span(12)}, rules, steps)


def names_of_columns() -> Scenario:
    """Names in another case than the data has them, in quotes, and beyond ASCII."""
    given = '"Last Price" >= 2 AND VOLUME < 5'
    rules = [
        {"id": 3, "condition": given, "detect": "enter,exit"},
        {"id": -4, "condition": "Größe BETWEEN 1 AND 3 AND SYMBOL = 'é'", "detect": "enter,exit,cross"},
        {"id": 5, "condition": "volume > 2 OR größe < 1", "detect": "inside"},
    ]
    schema = {"Last Price": "double", "Volume": "bigint", "Größe": "double", "Symbol": "string"}
    dice = Dice(85)
    steps: list[Step] = []
    for size in (1, 20, 3, 30):
        columns: dict[str, Any] = {
            "Vehicle": [f"v{dice.below(3)}" for _ in range(size)],
            "Volume": [dice.below(7) for _ in range(size)],
            "Last Price": [dice.below(8) / 2 for _ in range(size)],
            "Größe": [dice.below(10) / 2 for _ in range(size)],
            "Symbol": [dice.pick(("é", "e")) for _ in range(size)],
        }
        steps += [("update", columns), ("why",), ("inside",)]
    steps.append(("rules_at", {"Last Price": 2.5, "volume": 4, "größe": 0.5}))
    return Scenario("names of columns", {"object": "Vehicle", "schema": schema}, rules, steps)


def object_and_time_in_rules() -> Scenario:
    """Rules about the object and the time themselves."""
    dice, times = Dice(86), Times("timestamp")
    rules = [
        {"id": 1, "condition": "vehicle = 'v1' AND x > 2", "detect": "enter,exit"},
        {
            "id": 2,
            "condition": "ts BETWEEN TIMESTAMP '2024-01-01 00:00:09' AND TIMESTAMP '2024-01-01 00:00:30' AND x < 6",
            "detect": "enter,exit",
        },
        {"id": 3, "condition": "vehicle IN ('v0', 'v2')", "detect": "enter,inside"},
    ]
    steps: list[Step] = []
    for at in range(0, 40, 5):
        columns = {
            "vehicle": [f"v{dice.below(4)}" for _ in range(8)],
            "ts": pa.array([times.at(at + dice.below(5)) for _ in range(8)], times.arrow),
            "x": [None if dice.chance(0.2) else float(dice.below(9)) for _ in range(8)],
        }
        steps += [("update", pa.table(columns)), ("inside",), ("why",)]
        steps += [("one", f"v{dice.below(4)}", times.at(at + 5), {"x": float(dice.below(9))}) for _ in range(3)]
    return Scenario("object and time in rules", {"object": "vehicle", "time": "ts"}, rules, steps)


def rules_before_rows() -> Scenario:
    """A monitor that has no rule at first, and gets them before the first row."""
    later = mixed("rules before rows", 87)
    steps: list[Step] = [("add", rule) for rule in later.rules[:4]]
    steps += [("change", later.rules[4:], []), ("inside",)]
    return replace(later, rules=[], steps=steps + later.steps)


def ids_far_apart() -> Scenario:
    """Ids in no order, up to the ends of their type; all rules in force from the start."""
    dice = Dice(88)
    ids = [2**62, -5, 7, -(2**62), 0, 3, 2**40, -1, 1000]
    rules = [{"id": id, "condition": condition(dice, PLANE, ("k",), 2, 2), "detect": "enter,exit,inside"} for id in ids]
    traffic = Traffic(dice, Stream("negative", 5, Times("bigint"), (), PLANE, ("k",)))
    steps: list[Step] = [("update", traffic.batch(size)) for size in (30, 1, 40, 2, 30)]
    return Scenario("ids far apart", {"object": "vehicle", "time": "ts"}, rules, [*steps, ("why",), ("inside",)])


# -- many rules --------------------------------------------------------------------------------------------------


class Walks:
    """Many objects on long lines, in steps of a quarter; one column each."""

    def __init__(self, dice: Dice, count: int, columns: Sequence[str], length: int, far: int) -> None:
        self.dice, self.count, self.columns, self.length, self.far = dice, count, columns, length, far
        self.places = [[dice.below(4 * length) for _ in range(count)] for _ in columns]
        self.now = 0

    def table(
        self, rows: int, times: Times, keys: int = 0, kind: str = "double", missing: float = 0.0, disorder: int = 0
    ) -> Any:
        """So many rows at rising times, or in some disorder."""
        dice = self.dice
        numbers = [dice.below(self.count) for _ in range(rows)]
        made: dict[str, Any] = {"vehicle": pa.array(numbers, pa.int64())}
        if times.is_known:
            ticks = [self.now + row // 50 - dice.below(disorder + 1) for row in range(rows)]
            self.now = max(self.now, *ticks)
            made["ts"] = pa.array([times.at(tick) for tick in ticks], times.arrow)
        for column, places in zip(self.columns, self.places, strict=True):
            values = []
            for number in numbers:
                places[number] = (places[number] + dice.between(-self.far, self.far)) % (4 * self.length)
                values.append(None if missing and dice.chance(missing) else places[number])
            made[column] = pa.array([each if each is None else _quarters(kind, each) for each in values], ARROW[kind])
        if keys:
            made["k"] = pa.array([None if dice.chance(0.7) else f"key {dice.below(keys)}" for _ in range(rows)])
        return pa.table(made)


def _quarters(kind: str, place: int) -> Any:
    return place / 4 if kind == "double" else value(kind, place)


def many(
    name: str,
    seed: int,
    *,
    rules: int,
    batches: Sequence[int],
    columns: Sequence[str] = ("x",),
    length: int = 1000,
    width: int = 4,
    far: int = 3,
    count: int = 500,
    time: str = "timestamp",
    keys: int = 0,
    kind: str = "double",
    detect: str = "enter,exit",
    missing: float = 0.0,
    disorder: int = 0,
    each: bool = False,
    timeout: int | None = None,
    singles: int = 0,
    edited: int = 0,
    steps_between: Sequence[Step] = (),
    **settings: Any,
) -> Scenario:
    """Thousands of rules from a table, and batches up to thousands of rows.

    Args:
        name: of the scenario.
        seed: of all choices.
        rules: how many.
        batches: rows of each.
        columns: the attributes.
        length: of each line.
        width: of a rule, at most, in whole steps.
        far: quarters that a move goes, at most.
        count: of objects.
        time: its type.
        keys: how many there are; none of them in rules where 0.
        kind: the type of attributes.
        detect: of all rules.
        missing: the share of values that are null.
        disorder: how many ticks a row may come too late.
        each: whether detect, initial, labels, expires and enabled come from columns.
        timeout: in ticks.
        singles: rows by update_one after each batch.
        edited: rules that change after each batch.
        steps_between: more steps after each batch.
        settings: of the monitor, beyond these.

    """
    dice, times = Dice(seed), Times(time)
    table: dict[str, Any] = {"rule_id": pa.array([3 * number + 1 for number in range(rules)])}
    ranges = {}
    for column in columns:
        lows = [dice.below(4 * length) for _ in range(rules)]
        highs = [low + dice.between(1, 4 * width) for low in lows]
        table[f"low {column}"] = _bounds(dice, lows, kind)
        table[f"high {column}"] = _bounds(dice, highs, kind)
        ranges[column] = (f"low {column}", f"high {column}")
    arguments: dict[str, Any] = {"ranges": ranges, "detect": detect}
    if keys:
        table["k"] = pa.array([None if dice.chance(0.05) else f"key {dice.below(keys)}" for _ in range(rules)])
        arguments["equal"] = ["k"]
    if each:
        table["detect"] = pa.array([dice.pick(("enter", "enter,exit", None, "exit,inside")) for _ in range(rules)])
        table["initial"] = pa.array([dice.pick((True, False, None)) for _ in range(rules)])
        table["labels"] = pa.array([dice.pick(('{"owner": "desk 4"}', None)) for _ in range(rules)])
        table["enabled"] = pa.array([dice.pick((True, True, True, None, False)) for _ in range(rules)])
        ends = [times.expiry(dice.below(80)) if dice.chance(0.3) else None for _ in range(rules)]
        table["expires"] = pa.array(ends, pa.timestamp("us", tz="UTC"))
        arguments |= {f"{option}_column": option for option in ("detect", "initial", "labels", "enabled", "expires")}
    walks = Walks(dice, count, columns, length, far)
    steps: list[Step] = []
    sample = [3 * dice.below(rules) + 1 for _ in range(12)] if not each else []
    for size in batches:
        steps += [("update", walks.table(size, times, keys, kind, missing, disorder)), ("why",)]
        for _ in range(singles):
            row = walks.table(1, times, keys, kind).to_pylist()[0]
            object, at = row.pop("vehicle"), row.pop("ts", None)
            steps.append(("one", object, at, row))
        if edited:
            put = [
                _text_rule(dice, 3 * dice.below(rules) + 1, columns, kind, length, keys, detect) for _ in range(edited)
            ]
            put = list({rule["id"]: rule for rule in put}.values())
            steps.append(("change", put, []) if size % 2 else ("follow", put, [], len(steps)))
        steps += steps_between
        if times.is_known and timeout is not None:
            steps.append(("advance", times.at(walks.now + 1)))
        steps.append(("inside", sample))
    given = {"object": "vehicle", **({"time": "ts"} if times.is_known else {}), **settings}
    if timeout is not None:
        given["timeout"] = times.span(timeout)
    if kind != "double":
        given["schema"] = schema(dict.fromkeys(columns, kind), ("k",) if keys else ())
    return Scenario(name, given, [], steps, ((pa.table(table), arguments),))


def _bounds(dice: Dice, places: list[int], kind: str) -> Any:
    """Bounds of a column; a few are null."""
    return pa.array([None if dice.chance(0.002) else _quarters(kind, place) for place in places], ARROW[kind])


def _text_rule(
    dice: Dice, id: int, columns: Sequence[str], kind: str, length: int, keys: int, detect: str
) -> dict[str, Any]:
    parts = [f"k = 'key {dice.below(keys)}'"] if keys else []
    for column in columns:
        low = dice.below(4 * length)
        bounds = [str(_quarters(kind, place)) for place in (low, low + dice.between(4, 40))]
        parts.append(f"{column} BETWEEN {bounds[0]} AND {bounds[1]}")
    return {"id": id, "condition": " AND ".join(parts), "detect": detect, "initial": dice.chance(0.5)}


def many_rules() -> list[Scenario]:
    """Where indexes do the work: both ways to find moves, in one dimension and in several."""
    plane, space = ("x", "y"), ("x", "y", "z")
    return [
        many("borders", 100, rules=4000, batches=(1, 1500, 9000, 1, 2, 20), far=1, width=2, length=4000, singles=3),
        many(
            "borders and edits",
            101,
            rules=3000,
            batches=(800, 3, 801, 1, 600),
            far=2,
            length=3000,
            edited=40,
            time="none",
        ),
        many("borders of keys", 102, rules=2000, batches=(1200, 1, 901), keys=12, length=400, width=6, time="bigint"),
        many("borders of integers", 103, rules=2500, batches=(1200, 11, 1200), kind="bigint", length=2000, width=2),
        many("borders of decimals", 104, rules=2000, batches=(700, 5, 800), kind="decimal", length=2000, width=2),
        many(
            "compared",
            105,
            rules=1500,
            batches=(900, 1, 700),
            detect="inside,exit",
            length=6000,
            time="none",
            singles=4,
        ),
        many(
            "compared in disorder",
            106,
            rules=1500,
            batches=(900, 1, 701),
            detect="enter,inside",
            length=6000,
            disorder=9,
        ),
        many("plane", 107, rules=1500, batches=(900, 1, 30, 1100), columns=plane, length=80, width=6, far=2, singles=3),
        many(
            "plane of keys",
            108,
            rules=3000,
            batches=(1000, 1, 601),
            columns=plane,
            length=60,
            width=10,
            keys=6,
            edited=20,
        ),
        many(
            "plane with nulls", 109, rules=2000, batches=(900, 1, 901), columns=plane, length=60, width=6, missing=0.2
        ),
        many("space", 110, rules=1000, batches=(800, 1, 700), columns=space, length=25, width=8, far=2),
        many(
            "space inside",
            111,
            rules=800,
            batches=(300, 1, 250),
            columns=space,
            length=20,
            width=8,
            detect="inside,enter",
        ),
        many("options of each", 112, rules=1500, batches=(700, 1, 300, 500), each=True, length=2000, timeout=9),
        many("options of each, dates", 113, rules=1500, batches=(600, 1, 600), each=True, length=1500, time="date"),
        many(
            "crossing many", 114, rules=150, batches=(700, 1, 500), detect="cross,enter", far=60, length=1000, width=4
        ),
        many(
            "crossing a plane",
            115,
            rules=120,
            batches=(700, 1),
            columns=plane,
            detect="cross",
            far=40,
            length=60,
            width=5,
        ),
        many(
            "objects that go", 116, rules=300, batches=(3000, 40, 2500, 3), count=6000, length=2000, width=3, timeout=3
        ),
        many("first silent", 117, rules=2000, batches=(1200, 1200), count=400, length=1500, first="silent", disorder=3),
        many("saved", 118, rules=1000, batches=(500, 1, 500), length=1500, steps_between=[("save",)], timeout=30),
        many("several threads", 119, rules=900, batches=(8500,), columns=plane, count=4000, length=300, width=3, far=1),
    ]
