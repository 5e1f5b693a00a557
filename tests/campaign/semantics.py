"""No wrong semantics: random scripts through the Monitor, against an oracle that takes one row at a time."""

import random
import tempfile
import warnings
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import fencepost as fp
from tests.campaign.oracle import Box, Event, Oracle, Rule, by_object
from tests.campaign.trial import Trial, require
from tests.campaign.values import ARROW, DATA, KEYS, TYPES, draw_range, write_condition
from tests.computed.test_duckdb import differences

KINDS = ["inside", "enter", "exit", "cross"]
START = datetime(2024, 1, 1)
UNUSED = 1_000_000
"""The rule that uses every column, so that each is remembered from the first row on."""


class Script:
    """One random life of a monitor: rows, rules, time, save and restore, each step compared."""

    def __init__(self, seed: int, all_used: bool = True, all_declared: bool = False) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311
        self.attributes = sorted(rng.sample(sorted(TYPES), rng.choice([1, 1, 2, 3])))
        self.keys = sorted(rng.sample(sorted(KEYS), rng.randrange(3)))
        self.all_used, self.all_declared = all_used, all_declared
        """The schema also names the object, its time and sequence, as that of a whole table does."""
        self.clock = rng.choice(["number", "instant", "instant", "none"])
        self.objects: list[Any] = [f"o{n}" for n in range(4)] if rng.random() < 0.5 else [7, -1, 2**62, 0]
        self.sequence = "q" if rng.random() < 0.4 else None
        self.timeout = rng.randrange(5, 60) if self.clock != "none" and rng.random() < 0.4 else None
        self.first: Any = rng.choice(["enter", "enter", "silent"])
        self.second = 0
        """Where event time is now, in seconds."""
        silent = self.first == "silent"
        timeout = None if self.timeout is None else self.span(self.timeout)
        self.oracle = Oracle(self.attributes, self.keys, silent=silent, timeout=timeout)
        self.rules = fp.Rules()
        self.late: list[tuple[Any, Any]] = []
        if all_used:
            boxes = [Box({name: draw_range(rng, name)}, {}) for name in self.attributes]
            boxes += [Box({}, {name: (KEYS[name][0],)}) for name in self.keys]
            self.rule_before_start(UNUSED, boxes)
        for id in range(rng.randrange(0 if all_used else 1, 6)):
            self.rule_before_start(id, self.draw_boxes())
        self.monitor = self.make_monitor()
        self.compared = 0

    def make_monitor(self) -> Any:
        def keep(table: Any) -> None:
            names = {name.lower(): name for name in table.column_names}
            self.late += zip(table[names["o"]].to_pylist(), table[names["t"]].to_pylist(), strict=True)

        schema = {name: TYPES[name] for name in self.attributes} | dict.fromkeys(self.keys, "string")
        if self.all_declared:
            schema |= {"o": "string" if isinstance(self.objects[0], str) else "bigint", "q": "bigint"}
            schema |= {"t": "timestamp_ntz" if self.clock == "instant" else "bigint"}
        return fp.Monitor(
            self.rules,
            object="o",
            time=None if self.clock == "none" else "t",
            sequence=self.sequence,
            first=self.first,
            timeout=self.oracle.timeout,
            schema=schema,
            late=None if self.clock == "none" else keep,
        )

    def span(self, seconds: int) -> Any:
        return timedelta(seconds=seconds) if self.clock == "instant" else seconds

    def time(self, second: int) -> Any:
        return {"number": second, "instant": START + timedelta(seconds=second), "none": None}[self.clock]

    # -- rules -----------------------------------------------------------------------------------------------

    def draw_boxes(self) -> list[Box]:
        boxes = []
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            chosen = self.rng.sample([*self.attributes, *self.keys], self.rng.randint(1, len(self.attributes)))
            ranges = {name: draw_range(self.rng, name) for name in chosen if name in TYPES}
            keys = {
                name: tuple(self.rng.sample(KEYS[name], self.rng.choice([1, 1, 2]))) for name in chosen if name in KEYS
            }
            boxes.append(Box(ranges, keys))
        return boxes

    def draw_rule(self, id: int, boxes: list[Box], **fixed: Any) -> tuple[Rule, str, dict[str, Any]]:
        """A rule for the oracle; its condition and options for the product."""
        rng = self.rng
        kinds = rng.sample(KINDS, rng.randint(1, 4))
        options: dict[str, Any] = {"detect": ",".join(kinds), "initial": rng.random() < 0.4}
        if self.clock == "instant" and rng.random() < 0.3:
            options["expires"] = START + timedelta(seconds=self.second + rng.randrange(-20, 150))
        options |= fixed
        rule = Rule(
            id, 0, boxes, frozenset(kinds), options["initial"], options.get("expires"), options.get("enabled", True)
        )
        if options.get("expires") and rng.random() < 0.5:
            options["expires"] = options["expires"].replace(tzinfo=UTC)
        return rule, write_condition(rng, boxes), options

    def rule_before_start(self, id: int, boxes: list[Box]) -> None:
        enabled = id == UNUSED or self.rng.random() < 0.9
        fixed = {"detect": "cross", "expires": None} if id == UNUSED else {}
        rule, condition, options = self.draw_rule(id, boxes, enabled=enabled, **fixed)
        rule.detect = frozenset(options["detect"].split(","))
        self.rules.add(id, condition, **options)
        self.oracle.put(rule)

    def known(self) -> list[int]:
        return [id for id in self.oracle.rules if id != UNUSED]

    def step_add(self) -> None:
        free = [id for id in range(8) if id not in self.oracle.rules]
        if free:
            enabled = self.rng.random() < 0.9
            rule, condition, options = self.draw_rule(self.rng.choice(free), self.draw_boxes(), enabled=enabled)
            self.rules.add(rule.id, condition, **options)
            got = self.monitor.add(rule.id, condition, **options)
            self.compare(f"add({rule.id}, {condition!r}, {options})", got, self.oracle.put(rule), ordered=False)

    def step_replace(self) -> None:
        if self.known():
            id = self.rng.choice(self.known())
            boxes = self.oracle.rules[id].boxes if self.rng.random() < 0.3 else self.draw_boxes()
            rule, condition, options = self.draw_rule(id, boxes, enabled=self.rng.random() < 0.8)
            self.rules.replace(id, condition, **options)
            got = self.monitor.replace(id, condition, **options)
            self.compare(f"replace({id}, {condition!r}, {options})", got, self.oracle.put(rule), ordered=False)

    def step_remove(self) -> None:
        if self.known():
            id = self.rng.choice(self.known())
            self.rules.remove(id)
            self.compare(f"remove({id})", self.monitor.remove(id), self.oracle.remove(id), ordered=False)

    def step_change(self) -> None:
        """Several rules at once."""
        put, expected = fp.Rules(), []
        removed = [id for id in self.known() if self.rng.random() < 0.2]
        for id in range(8):
            if id in removed or self.rng.random() < 0.7:
                continue
            rule, condition, options = self.draw_rule(id, self.draw_boxes(), enabled=self.rng.random() < 0.8)
            put.add(id, condition, **options)
            (self.rules.replace if id in self.oracle.rules else self.rules.add)(id, condition, **options)
            expected += self.oracle.put(rule)
        for id in removed:
            self.rules.remove(id)
            expected += self.oracle.remove(id)
        self.compare(f"change({[*put]}, {removed})", self.monitor.change(put, removed), expected, ordered=False)

    # -- rows ------------------------------------------------------------------------------------------------

    def draw_rows(self) -> list[dict[str, Any]]:
        """Rows of one call, in no order; of one object no two have one place in time, unless they are equal."""
        rng, rows, taken = self.rng, list[dict[str, Any]](), set()
        for _ in range(rng.choice([1, 1, 2, 5, 12])):
            self.second += rng.choice([0, 1, 1, 2, 7, 40 if rng.random() < 0.1 else 1])
            at = max(0, self.second - rng.choice([0, 0, 0, 0, 1, 5]))
            object = None if rng.random() < 0.03 else rng.choice(self.objects)
            row = {"o": object, "t": None if rng.random() < 0.03 else self.time(at), "q": rng.randrange(4)}
            place = (object, row["t"], row["q"] if self.sequence else None)
            if place in taken and self.clock != "none":
                continue
            taken.add(place)
            for name in self.attributes:
                missing = rng.random() < 0.15
                row[name] = (
                    None if missing else float("nan") if rng.random() < 0.05 and name == "d" else self.draw(name)
                )
            for name in self.keys:
                row[name] = None if rng.random() < 0.2 else rng.choice([*KEYS[name], "other"])
            rows.append(row)
            if rng.random() < 0.04 and self.clock != "none":
                rows.append(dict(row))
        if self.clock == "none" and self.sequence:
            rows = list({(row["o"], row["q"]): row for row in rows}.values())
        return rows

    def draw(self, name: str) -> Any:
        return self.rng.choice(DATA[name])

    def step_rows(self) -> None:
        rows = self.draw_rows()
        cuts = sorted(self.rng.sample(range(1, len(rows)), self.rng.randrange(len(rows)))) if len(rows) > 1 else []
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            part = rows[start:end]
            expected = self.expect(part)
            if len(part) == 1 and self.rng.random() < 0.6:
                self.compare(f"update_one({part[0]})", self.update_one(part[0]), expected)
            else:
                self.compare(f"update({part})", self.monitor.update(self.table(part)), expected)

    def update_one(self, row: dict[str, Any]) -> Any:
        values = {name: row[name] for name in (*self.attributes, *self.keys) if row[name] is not None}
        if self.sequence:
            values["q"] = row["q"]
        names = self.monitor.update(self.table([])).schema.names
        return [dict(zip(names, event, strict=True)) for event in self.monitor.update_one(row["o"], row["t"], **values)]

    def expect(self, rows: list[dict[str, Any]]) -> list[Event]:
        """What the oracle makes of one call."""
        by_place = list(enumerate(rows))
        if self.clock == "none":
            by_place.sort(key=lambda each: each[1]["q"] if self.sequence else 0)
        else:
            nowhere = [row for _, row in by_place if row["t"] is None]
            by_place = [each for each in by_place if each[1]["t"] is not None]
            by_place.sort(key=lambda each: (each[1]["t"], each[1]["q"] if self.sequence else 0))
            by_place += [(-1, row) for row in nowhere]
        timed = self.clock != "none"
        return [event for _, row in by_place for event in self.oracle.row(row["o"], row["t"], row, timed)]

    def table(self, rows: list[dict[str, Any]]) -> Any:
        kinds: dict[str, Any] = {"o": pa.string() if isinstance(self.objects[0], str) else pa.int64()}
        if self.clock != "none":
            kinds["t"] = pa.int64() if self.clock == "number" else pa.timestamp("us")
        if self.sequence:
            kinds["q"] = pa.int64()
        kinds |= {name: ARROW[name] for name in self.attributes} | dict.fromkeys(self.keys, pa.string())
        names = self.rng.sample(list(kinds), len(kinds))
        return pa.table({name: pa.array([row[name] for row in rows], kinds[name]) for name in names})

    # -- time and files --------------------------------------------------------------------------------------

    def step_advance(self) -> None:
        if self.clock != "none" and self.oracle.objects:
            time = self.time(max(0, self.second + self.rng.choice([-30, 0, 0, 5, 30])))
            self.compare(f"advance({time})", self.monitor.advance(time), self.oracle.advance(time))

    def step_save(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.monitor.save(Path(folder) / "state")
            self.monitor = self.make_monitor()
            self.monitor.restore(Path(folder) / "state")

    def step_ask(self) -> None:
        for id, rule in self.oracle.rules.items():
            if rule.enabled:
                got = self.monitor.inside(id)
                require(len(got) == len(set(got)), f"inside({id}) names an object twice: {got}")
                require(set(got) == self.oracle.inside(id), f"inside({id}): {got}, expected {self.oracle.inside(id)}")

    # -- comparing -------------------------------------------------------------------------------------------

    def run(self, steps: int) -> int:
        calls = [self.step_rows] * 12 + [self.step_add, self.step_replace, self.step_remove, self.step_change]
        calls += [self.step_advance, self.step_save, self.step_ask]
        for _ in range(steps):
            self.rng.choice(calls)()
        self.step_ask()
        counters, oracle = self.monitor.counters, self.oracle
        got = (counters["rows"], counters["late"], counters["null"])
        expected = (oracle.rows, oracle.late, oracle.null)
        require(got == expected, f"rows, late, null are {got}, expected {expected}")
        require(Counter(self.late) == Counter(oracle.late_rows), f"late {self.late}, expected {oracle.late_rows}")
        return self.compared

    def compare(self, what: str, got: Any, expected: list[Event], ordered: bool = True) -> None:
        """The same events, of each object in the same order."""
        events = got if isinstance(got, list) else got.to_pylist()
        # The oracle knows nothing of the columns of keys; tests/replay.py compares them.
        left_out = {"event_id", "snapshot_version", *KEYS, *(f"{name}_before" for name in KEYS)}
        found = [{name: value for name, value in event.items() if name not in left_out} for event in events]
        if found and not self.all_used:  # events have the attributes that rules use or have used, not all declared ones
            expected = [{name: value for name, value in event.items() if name in found[0]} for event in expected]
        got_by, expected_by = by_object(found), by_object(expected)
        for object in {**got_by, **expected_by}:
            one, other = got_by.get(object, []), expected_by.get(object, [])
            if not ordered:
                one, other = (
                    sorted(each, key=lambda event: (event["rule_id"], event["detect"])) for each in (one, other)
                )
            require(one == other, f"{what}, object {object!r}:\n  got      {one}\n  expected {other}")
        self.compared += len(expected)


def try_script(seed: int) -> int:
    """One script, every step compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Script(seed).run(40)


def try_unused_columns(seed: int) -> int:
    """Likewise, with declared columns that no rule uses at first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Script(seed, all_used=False).run(40)


def try_whole_schema(seed: int) -> int:
    """Likewise, with a schema that names every column of the table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Script(seed, all_declared=True).run(40)


PROMISE = "no wrong semantics"


def try_expressions(seed: int) -> int:
    """Forty conditions over all types on sixty rows."""
    compared, wrong = differences(seed)
    require(compared > 0, "no condition was compared")
    require(not wrong, "; ".join(wrong[:3]))
    return compared


TRIALS = [
    Trial("semantics.watch", PROMISE, "random scripts through Monitor against an oracle of single rows", try_script),
    Trial("semantics.unused-columns", PROMISE, "the same with columns that no rule uses at first", try_unused_columns),
    Trial("semantics.whole-schema", PROMISE, "the same with a schema of the whole table", try_whole_schema),
    Trial("semantics.expressions", PROMISE, "random conditions on random rows against DuckDB", try_expressions),
]
