"""No wrong semantics of bands: random scripts over two streams, against an oracle that takes one row at a time."""

import math
import random
import tempfile
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import fencepost as fp
from tests.campaign.band_oracle import SIDES, Asked, Band, BandOracle, fraction_range
from tests.campaign.oracle import Event
from tests.campaign.trial import Trial, require
from tests.campaign.values import ARROW, KEYS, TYPES, literal

BOUNDS: dict[str, list[Any]] = {
    "d": [-1e300, -1.5, -1.0, 0.0, 5e-324, 0.1, 1.0, 2.5],
    "n": [Decimal("-1.00"), Decimal("0.00"), Decimal("0.05")],
}
VALUES: dict[str, list[Any]] = {
    "d": [-1e300, -1.0, -0.5, -0.0, 5e-324, 0.1, 0.2, 1.0, 1.5, 1e300, math.inf, -math.inf],
    "n": [Decimal(text) for text in ("-1.00", "-0.01", "0.00", "0.04", "0.05", "1.00")],
}
KINDS = ["inside", "enter", "exit", "cross"]


LEFT_OUT = {"event_id", "snapshot_version", *KEYS, *(f"{name}_before" for name in KEYS)}
"""Columns of events that the oracle does not know; tests/band_replay.py compares those of keys."""


class BandScript:
    """One random life of a monitor of bands."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)  # noqa: S311
        self.columns = sorted(rng.sample(sorted(VALUES), rng.choice([1, 1, 2])))
        self.keys = sorted(rng.sample(sorted(KEYS), rng.randrange(3)))
        self.by_key = rng.random() < 0.4
        """Rows are told apart by a column `k`, beside their object."""
        self.first: Any = rng.choice(["enter", "enter", "silent"])
        self.second = 0
        self.oracle = BandOracle(self.columns, self.keys, self.first == "silent")
        self.rules = fp.Rules()
        for number, column in enumerate(self.columns):
            equal = tuple(self.keys)
            self.put_before_start(self.draw_band(1_000 + number, column, equal))
        for id in range(rng.randrange(5)):
            self.put_before_start(self.draw_band(id))
        self.monitor = self.make_monitor()
        self.compared = 0

    def make_monitor(self) -> Any:
        return fp.Monitor(
            self.rules,
            object="o",
            time="t",
            first=self.first,
            deleted="gone",
            key="k" if self.by_key else (),
            schema={name: TYPES[name] for name in self.columns} | dict.fromkeys(self.keys, "string"),
        )

    # -- rules -----------------------------------------------------------------------------------------------

    def draw_band(self, id: int, column: str | None = None, equal: tuple[str, ...] | None = None) -> Band:
        rng = self.rng
        column = column or rng.choice(self.columns)
        low, high = sorted(rng.choices(BOUNDS[column], k=2))
        kind = rng.randrange(6)
        if kind == 0:
            range_ = fraction_range(low, None, with_low=rng.random() < 0.5)
        elif kind == 1:
            range_ = fraction_range(None, high, with_high=rng.random() < 0.5)
        else:
            range_ = fraction_range(low, high, low == high or rng.random() < 0.5, low == high or rng.random() < 0.5)
        self.bounds = low, high
        fixed: dict[str, dict[str, str]] = {side: {} for side in SIDES}
        if equal is None:
            equal = tuple(name for name in self.keys if rng.random() < 0.4)
            for side in SIDES:
                chosen = [name for name in self.keys if name not in equal and rng.random() < 0.2]
                fixed[side] = {name: rng.choice(KEYS[name]) for name in chosen}
        detect = frozenset(rng.sample(KINDS, rng.randint(1, 4)))
        enabled = id >= 1_000 or rng.random() < 0.9
        asked = {side: self.draw_asked(fixed[side]) for side in SIDES if id < 1_000}
        return Band(id, 0, column, range_, equal, fixed, detect, rng.random() < 0.4, enabled, asked)

    def draw_asked(self, fixed: dict[str, str]) -> tuple[Asked, ...]:
        """What rows of one side must meet; nothing that its keys exclude."""
        rng, found = self.rng, []
        if rng.random() < 0.3:
            name = rng.choice(self.columns)
            test = rng.choice([">", "<=", "IS NULL", "IS NOT NULL"])
            found.append(Asked(name, test, rng.choice(BOUNDS[name])))
        free = [name for name in self.keys if name not in fixed]
        if free and rng.random() < 0.3:
            name = rng.choice(free)
            prefixes = {text[:1] for text in KEYS[name] if text[:1].isalnum()}
            choices = [Asked(name, "IS NULL"), *(Asked(name, "LIKE", text) for text in sorted(prefixes))]
            found.append(rng.choice(choices))
        return tuple(found)

    def write(self, band: Band) -> tuple[str, dict[str, Any]]:
        difference = f"left.{band.column} - right.{band.column}"
        range_, (low, high) = band.range, self.bounds
        if range_.low is not None and range_.high is not None and range_.with_low and range_.with_high:
            parts = [f"{difference} BETWEEN {literal(low)} AND {literal(high)}"]
        else:
            parts = []
            if range_.low is not None:
                parts.append(f"{difference} {'>=' if range_.with_low else '>'} {literal(low)}")
            if range_.high is not None:
                parts.append(f"{literal(high)} {'>=' if range_.with_high else '>'} {difference}")
        parts += [f"left.{name} = right.{name}" for name in band.equal]
        parts += [f"{side}.{name} = {literal(text)}" for side in SIDES for name, text in band.fixed[side].items()]
        for side in SIDES:
            for each in band.asked.get(side, ()):
                constant = ""
                if not each.test.startswith("IS"):
                    constant = f" '{each.constant}%'" if each.test == "LIKE" else f" {literal(each.constant)}"
                parts.append(f"{side}.{each.name} {each.test}{constant}")
        self.rng.shuffle(parts)
        options = {"detect": ",".join(sorted(band.detect)), "initial": band.initial, "enabled": band.enabled}
        return " AND ".join(parts), options

    def put_before_start(self, band: Band) -> None:
        condition, options = self.write(band)
        self.rules.add(band.id, condition, **options)
        self.oracle.put(band)

    def step_put(self) -> None:
        id = self.rng.randrange(6)
        band = self.draw_band(id)
        condition, options = self.write(band)
        known = id in self.oracle.bands
        (self.rules.replace if known else self.rules.add)(id, condition, **options)
        got = (self.monitor.replace if known else self.monitor.add)(id, condition, **options)
        self.compare(f"put({id}, {condition!r}, {options})", got, self.oracle.put(band))

    def step_remove(self) -> None:
        known = [id for id in self.oracle.bands if id < 1_000]
        if known:
            id = self.rng.choice(known)
            self.rules.remove(id)
            self.compare(f"remove({id})", self.monitor.remove(id), self.oracle.remove(id))

    # -- rows ------------------------------------------------------------------------------------------------

    def draw_row(self) -> dict[str, Any]:
        rng = self.rng
        self.second += 1
        late = rng.choice([0, 0, 0, 0, 0, 9])
        row: dict[str, Any] = {
            "side": rng.choice(SIDES),
            "o": None if rng.random() < 0.02 else f"o{rng.randrange(3)}",
            "t": max(0, self.second - late),
            "gone": rng.random() < 0.1,
            "k": rng.choice(["k1", "k2"]),
        }
        for name in self.columns:
            row[name] = None if not self.by_key and rng.random() < 0.15 else rng.choice(VALUES[name])
        for name in self.keys:
            row[name] = None if not self.by_key and rng.random() < 0.15 else rng.choice(KEYS[name])
        return row

    def step_rows(self) -> None:
        rows = [self.draw_row() for _ in range(self.rng.choice([1, 1, 3, 10]))]
        rows = list({row["t"]: row for row in rows}.values())
        if self.rng.random() < 0.3 and not rows[-1]["gone"]:
            rows.append({**self.draw_row(), "t": rows[-1]["t"], "gone": False, "side": self.other(rows[-1]["side"])})
        expected: list[Event] = []
        for row in sorted(rows, key=lambda row: (row["t"], row["side"])):
            expected += self.expect(row)
        self.rng.shuffle(rows)
        tables = {side: self.table([row for row in rows if row["side"] == side]) for side in SIDES}
        given = {side: table for side, table in tables.items() if table.num_rows or self.rng.random() < 0.5}
        self.compare(f"update({rows})", self.monitor.update(**given) if given else [], expected)

    def other(self, side: str) -> str:
        return SIDES[side == "left"]

    def expect(self, row: dict[str, Any]) -> list[Event]:
        name = (row["o"], row["k"]) if self.by_key and row["o"] is not None else row["o"]
        values = {**row, "k": row["k"]} if self.by_key else row
        return self.oracle.row(row["side"], name, row["t"], values, row["gone"])

    def table(self, rows: list[dict[str, Any]]) -> Any:
        kinds: dict[str, Any] = {"o": pa.string(), "t": pa.int64(), "gone": pa.bool_()}
        kinds |= {"k": pa.string()} if self.by_key else {}
        kinds |= {name: ARROW[name] for name in self.columns} | dict.fromkeys(self.keys, pa.string())
        return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})

    # -- files and questions ---------------------------------------------------------------------------------

    def step_save(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.monitor.save(Path(folder) / "state")
            self.monitor = self.make_monitor()
            self.monitor.restore(Path(folder) / "state")

    def step_ask(self) -> None:
        for id, band in self.oracle.bands.items():
            if band.enabled and not self.by_key:
                got, expected = self.monitor.inside(id), self.oracle.inside(id)
                require(len(got) == len(expected) and set(got) == expected, f"inside({id}): {got}, expected {expected}")

    # -- comparing -------------------------------------------------------------------------------------------

    def run(self, steps: int) -> int:
        calls = [self.step_rows] * 12 + [self.step_put] * 2 + [self.step_remove, self.step_save, self.step_ask]
        for _ in range(steps):
            self.rng.choice(calls)()
        self.step_ask()
        return self.compared

    def compare(self, what: str, got: Any, expected: list[Event]) -> None:
        """The same events, of each pair and rule in the same order."""
        events = got if isinstance(got, list) else got.to_pylist()
        found: dict[Any, list[Event]] = {}
        wanted: dict[Any, list[Event]] = {}
        for event in events:
            event = {name: value for name, value in event.items() if name not in LEFT_OUT}
            if self.by_key:
                key = event.pop("k")
                event |= {"object": (event["object"], key), "other": (event["other"], key)}
            found.setdefault((event["object"], event["other"], event["rule_id"]), []).append(event)
        for event in expected:
            wanted.setdefault((event["object"], event["other"], event["rule_id"]), []).append(event)
        for pair in {**found, **wanted}:
            one, other = found.get(pair, []), wanted.get(pair, [])
            require(one == other, f"{what}, {pair}:\n  got      {one}\n  expected {other}")
        self.compared += len(expected)


def try_bands(seed: int) -> int:
    """One script, every step compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BandScript(seed).run(30)


TRIALS = [
    Trial(
        "semantics.bands",
        "no wrong semantics",
        "random scripts over two streams against an oracle of single rows",
        try_bands,
    )
]
