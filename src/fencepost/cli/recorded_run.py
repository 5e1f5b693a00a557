"""A recorded run checked: computed again as a whole, and for some objects by comparing every rule with every row."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.cli.asking import Asked
from fencepost.cli.data import open_data
from fencepost.cli.watching import watch_file, watcher
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.snapshot import NEVER, BruteForce, Table, detect_names

if TYPE_CHECKING:
    from fencepost.book import Progress

_COLUMNS = ("event_id", "rule_id", "rule_version", "object", "detect", "time", "reason")
_CHANGES = ["removed", "paused", "edited", "initial", "timeout"]
"""Reasons that rules in their last version do not give."""
_REPORT = "Look at the run with `fencepost why`; if rules and rows are the same, please report this."

Fact = tuple[int, str, Any]
"""Rule, detection and time."""


def check_run(
    asked: Asked,
    events: Path,
    object: str,
    time: str,
    sequence: Sequence[str] | None,
    sample: int,
    seed: int,
    report: "Progress",
) -> dict[str, int]:
    """Refuses a run that differs from what rules and rows give; how much was checked.

    `sample` rows, of whole objects, are compared with every rule; `seed` chooses them.
    """
    monitor = watcher(asked, object, time, list(sequence or ()))
    parts = list(watch_file(monitor, asked, report))
    if monitor.counters["late"]:
        raise FencepostError(
            f"{monitor.counters['late']:,} late rows in {asked.data.path}",
            "rows in the order of time",
            "Sort the file.",
        )
    again = pa.concat_tables(parts) if parts else None
    if again is None:
        return {"events": 0}
    recorded = _read_recorded(events, again.schema, report)
    fixed, others = _of_these_rules(recorded, asked)
    _same_ids(fixed, again)
    facts = _facts(fixed)
    rows = _compared(asked, monitor, facts, sample, seed, report)
    return {"events": len(fixed), "events of other rules or changes, unchecked": others, "rows compared": rows}


def _read_recorded(path: Path, schema: Any, report: "Progress") -> Any:
    data = open_data(path)
    missing = [name for name in _COLUMNS if name not in data.schema.names]
    if missing:
        raise FencepostError(f"{path} without the column {missing[0]}", "a file of events", "Name what a run wrote.")
    types = {name: schema.field(name).type for name in _COLUMNS if schema.field(name).type != pa.null()}
    tables = []
    for table, done in data.batches(types if data.is_text else {}):
        tables.append(table.select(_COLUMNS))
        report("reading events", done, data.bytes)
    whole = pa.concat_tables(tables) if tables else schema.empty_table().select(_COLUMNS)
    try:
        return whole.cast(pa.schema([(name, types.get(name, pa.string())) for name in _COLUMNS]))
    except pa.ArrowException as error:
        raise FencepostError(
            f"{path}, whose events have other types ({str(error).splitlines()[0]})",
            "events of this run",
            "Name its events.",
        ) from None


def _of_these_rules(recorded: Any, asked: Asked) -> tuple[Any, int]:
    """The events that follow from rules and rows alone, and how many others there are."""
    rules = asked.snapshot.rules
    versions = dict(zip(rules.ids.tolist(), rules.versions.tolist(), strict=True))
    ids, held = (recorded[name].to_pylist() for name in ("rule_id", "rule_version"))
    is_known = np.array([versions.get(id) == version for id, version in zip(ids, held, strict=True)], np.bool_)
    is_changed = np.asarray(pc.is_in(recorded["reason"], pa.array(_CHANGES)))
    fixed = recorded.filter(pa.array(is_known & ~is_changed))
    return fixed, len(recorded) - len(fixed)


def _same_ids(recorded: Any, again: Any) -> None:
    found = Counter(recorded["event_id"].to_pylist())
    expected = set(again["event_id"].to_pylist())
    twice = [id for id, count in found.items() if count > 1]
    missing, extra = sorted(expected - found.keys()), sorted(found.keys() - expected)
    for wrong, what in ((twice, "more than once"), (missing, "missing"), (extra, "that rules and rows do not give")):
        if wrong:
            raise FencepostError(
                f"{len(wrong):,} events {what}, such as {wrong[0]}", f"the {len(expected):,} events of the run", _REPORT
            )


def _facts(events: Any) -> dict[Any, Counter[Fact]]:
    """What was told of each object, crossings and what time ended aside."""
    told: dict[Any, Counter[Fact]] = {}
    for event in events.select(["object", "rule_id", "detect", "time", "reason"]).to_pylist():
        if event["detect"] != "cross" and event["reason"] is None:
            told.setdefault(event["object"], Counter())[event["rule_id"], event["detect"], event["time"]] += 1
    return told


def _compared(
    asked: Asked, monitor: Monitor, facts: dict[Any, Counter[Fact]], sample: int, seed: int, report: "Progress"
) -> int:
    """How many rows of chosen objects were compared with every rule."""
    assert asked.rules is not None
    columns = asked.rules.columns(asked.schema)
    expiring = set(columns.rules.ids[columns.rules.expires != NEVER].tolist())
    detects = {
        id: detect_names(flags).split(",")
        for id, flags in zip(columns.rules.ids.tolist(), columns.rules.detects.tolist(), strict=True)
    }
    brute_force, done = BruteForce(columns), 0
    for name, rows in _objects(asked, monitor, sample, seed, report):
        expected: Counter[Fact] = Counter()
        before: set[int] = set()
        times = rows["fencepost time"].to_pylist()
        for time, now in zip(times, brute_force.holding(rows.drop_columns(["fencepost time"])), strict=True):
            for kind, ids in (("enter", now - before), ("exit", before - now), ("inside", now)):
                expected.update((id, kind, time) for id in ids - expiring if kind in detects[id])
            before = now
        found = Counter({fact: count for fact, count in facts.get(name, Counter()).items() if fact[0] not in expiring})
        if found != expected:
            (id, kind, time), _ = next(iter(((found - expected) or (expected - found)).items()))
            raise FencepostError(
                f"{found[id, kind, time]} of `{kind}` of rule {id} for {name} at {time}",
                f"{expected[id, kind, time]}, as comparing every rule tells",
                _REPORT,
            )
        done += rows.num_rows
        report("comparing", done, sample)
    return done


def _objects(asked: Asked, monitor: Monitor, sample: int, seed: int, report: "Progress") -> Any:
    """Chosen objects with their rows in order, missing values filled with the last known ones."""
    column, time, used = monitor.object, str(monitor.time), (*asked.snapshot.attributes, *asked.snapshot.keys)
    counts: Counter[Any] = Counter()
    for table in asked.batches(report, "choosing"):
        counts.update(table[column].to_pylist())
    counts.pop(None, None)
    order = np.random.default_rng(seed).permutation(len(counts)).tolist()
    names, chosen, rows = list(counts), list[Any](), 0
    for place in order:
        if rows >= sample:
            break
        chosen.append(names[place])
        rows += counts[names[place]]
    parts = []
    for table in asked.batches(report, "gathering"):
        parts.append(table.filter(pc.is_in(table[column], pa.array(chosen, table.schema.field(column).type))))
    whole = pa.concat_tables(parts, promote_options="default")
    for name in chosen:
        own = whole.filter(pc.equal(whole[column], name))
        yield name, _in_order(own, time, monitor.sequence, used)


def _in_order(rows: Any, time: str, sequence: Sequence[str], used: Sequence[str]) -> Any:
    rows = rows.filter(pc.is_valid(rows[time])).sort_by([(name, "ascending") for name in (time, *sequence)])
    given = Table(rows)
    columns = {name: _as_null(given.arrow(name)) for name in used}
    observes = np.zeros(rows.num_rows, np.bool_)
    for values in columns.values():
        observes |= np.asarray(pc.is_valid(values))
    taken = {name: pc.fill_null_forward(values.filter(pa.array(observes))) for name, values in columns.items()}
    times = given.arrow(time).filter(pa.array(observes))
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz))
    elif pa.types.is_integer(times.type):
        times = times.cast(pa.int64())
    return pa.table({**taken, "fencepost time": times})


def _as_null(values: Any) -> Any:
    """NaN is no observation."""
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values
