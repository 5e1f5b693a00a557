"""Keys that tell rows of bands apart, and events that name rules alone."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules import Rules


def quotes(rng: random.Random, start: int) -> pa.Table:
    count = 40
    return pa.table(
        {
            "venue": pa.array([rng.randrange(4) for _ in range(count)], pa.int32()),
            "symbol": pa.array([rng.choice(["SAP", "BMW", None]) for _ in range(count)]),
            "desk": pa.array([rng.randrange(2) for _ in range(count)]),
            "ts": pa.array([start + n // 3 for n in range(count)]),
            "seq": pa.array([100 * start + n for n in range(count)]),
            "price": pa.array([rng.choice([None, rng.randrange(8) / 2]) for _ in range(count)], pa.float64()),
            "gone": pa.array([rng.random() < 0.1 for _ in range(count)]),
        }
    )


@pytest.mark.parametrize("key", ["symbol", ["symbol", "desk"]])
def test_a_key_is_a_monitor_for_each_of_its_values(key: Any, tmp_path: Path) -> None:
    rng = random.Random(11)  # noqa: S311
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit,inside")
    rules.add(2, "left.price - right.price > 0 AND left.symbol = 'SAP'", detect="enter,exit,cross")
    rules.add(3, "left.price - right.price < 2 AND left.symbol = right.symbol AND right.symbol = 'BMW'", detect="enter")
    settings: dict[str, Any] = {"object": "venue", "time": "ts", "deleted": "gone"}
    keyed = Monitor(rules, **settings, key=key)
    columns = [key] if isinstance(key, str) else key
    apart: dict[Any, Monitor] = {}
    for start in range(0, 120, 14):
        left, right = quotes(rng, start), quotes(rng, start)
        expected = []
        for values in sorted({tuple(row[c] for c in columns) for t in (left, right) for row in t.to_pylist()}, key=str):
            if None in values:
                continue
            monitor = apart.setdefault(values, Monitor(rules, **settings))

            def own(table: pa.Table, values: Any = values) -> pa.Table:
                return table.filter(pa.array([tuple(row[c] for c in columns) == values for row in table.to_pylist()]))

            for row in monitor.update(left=own(left), right=own(right)).to_pylist():
                shown = {name: value for name, value in row.items() if name.removesuffix("_before") not in columns}
                expected.append({**shown, **dict(zip(columns, values, strict=True))})
        events = keyed.update(left=left, right=right)
        assert events.schema.names[-len(columns) :] == columns
        assert sorted(map(str, events.to_pylist())) == sorted(map(str, expected))
        if start == 42:
            keyed.save(tmp_path / "state")
            keyed = Monitor(rules, **settings, key=key)
            keyed.restore(tmp_path / "state")
    removed = keyed.remove(1)
    assert removed.num_rows == sum(monitor.remove(1).num_rows for monitor in apart.values()) > 0
    with pytest.raises(FencepostError, match="A Monitor with key=None; expected key="):
        Monitor(rules, **settings).restore(tmp_path / "state")
    with pytest.raises(FencepostError, match="key='price', which events have as a column already"):
        Monitor(rules, **settings, key="price")


@pytest.mark.parametrize("key", ["symbol", ["symbol", "desk"]])
def test_a_row_that_has_only_its_key_is_an_observation_at_the_values_known_before(key: Any, tmp_path: Path) -> None:
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit,inside")
    rules.add(2, "left.price - right.price BETWEEN 5 AND 6", detect="enter,exit,cross")
    keyed, unkeyed = (
        Monitor(rules, object="venue", time="ts", timeout=10, **named) for named in ({"key": key}, dict[str, Any]())
    )

    def row(venue: int, ts: int, price: float | None, symbol: str | None = "SAP") -> pa.Table:
        types = {
            "venue": pa.int64(),
            "ts": pa.int64(),
            "price": pa.float64(),
            "symbol": pa.string(),
            "desk": pa.int64(),
        }
        values = {"venue": venue, "ts": ts, "price": price, "symbol": symbol, "desk": None if symbol is None else 3}
        return pa.table({name: pa.array([value], types[name]) for name, value in values.items()})

    for monitor in (keyed, unkeyed):
        monitor.update(left=row(1, 0, 5.0), right=row(2, 0, 5.0))
        assert monitor.inside(1) == [(1, 2)]

    # Every rule compares the key: so the row is an observation, inside where it is known to be, and no move.
    seen = keyed.update(left=row(1, 7, None))
    assert [(event["rule_id"], event["detect"], event["time"]) for event in seen.to_pylist()] == [(1, "inside", 7)]
    assert seen["price"].to_pylist() == [5.0]
    assert unkeyed.update(left=row(1, 7, None)).num_rows == 0, "without a key, rules compare nothing that it has"
    assert (keyed.counters["null"], unkeyed.counters["null"]) == (0, 1)

    # It lives on from there, as after any row; so does a state that was saved.
    keyed.save(tmp_path / "state")
    keyed = Monitor(rules, object="venue", time="ts", timeout=10, key=key)
    keyed.restore(tmp_path / "state")
    keyed.update(right=row(2, 8, 5.0))
    unkeyed.update(right=row(2, 8, 5.0))
    assert [event["reason"] for event in unkeyed.advance(12).to_pylist()] == ["timeout"]
    assert keyed.advance(12).num_rows == 0
    assert keyed.inside(1) == [(1, 2)]

    # Without its key, a row is none at all; with one of its own, it is another row, at no value yet.
    assert keyed.update(left=row(1, 13, 5.0, None)).num_rows == 0
    assert keyed.update(left=row(1, 13, None, "BMW")).num_rows == 0
    assert keyed.inside(1) == [(1, 2)]


def test_rules_alone_name_the_row_that_moved_once() -> None:
    rng = random.Random(12)  # noqa: S311
    rules = Rules()
    rules.add(1, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit,inside")
    rules.add(2, "left.price - right.price > 1", detect="enter,exit")
    settings: dict[str, Any] = {"object": "venue", "time": "ts", "deleted": "gone", "key": "symbol", "sequence": "seq"}
    pairs, alone = Monitor(rules, **settings), Monitor(rules, **settings, report="rules")
    said = ("rule_id", "detect", "time", "symbol", "price_before", "price")

    def compare(every: pa.Table, once: pa.Table) -> None:
        assert {tuple(row[c] for c in said) for row in every.to_pylist()} == {
            tuple(row[c] for c in said) for row in once.to_pylist()
        }
        assert all((row["object"] is None) != (row["other"] is None) for row in once.to_pylist())
        assert len(set(once["event_id"].to_pylist())) == once.num_rows

    for start in range(0, 60, 14):
        tables = {"left": quotes(rng, start), "right": quotes(rng, start)}
        compare(pairs.update(**tables), alone.update(**tables))
    compare(pairs.remove(2), alone.remove(2))
    assert alone.counters["events"]["inside"] < pairs.counters["events"]["inside"]
    with pytest.raises(FencepostError, match="report='all'; expected 'pairs' or 'rules'"):
        Monitor(rules, **settings, report="all")  # type: ignore[arg-type]
