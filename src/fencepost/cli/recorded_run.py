"""The check of a recorded run: it is computed again, and for some objects every rule is compared with every row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import count
from fencepost.cli.binding import BoundRules
from fencepost.cli.damped_walk import in_units, lengths_of, walk
from fencepost.cli.data import DataFile, open_data
from fencepost.cli.replaying import make_monitor, replay
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.rules.damping import Damping, damping_of
from fencepost.snapshot import NEVER, BruteForce, Table, detect_names

if TYPE_CHECKING:
    from fencepost.book import Progress

_COLUMNS = ("event_id", "rule_id", "rule_version", "object", "detect", "time", "reason")
_CHANGES = ["removed", "paused", "edited", "initial"]
"""Reasons of events that do not follow from the rules in their last version."""
_REPORT = "Look at the run with `fencepost why`; if rules and rows are the same, please report this."

Fact = tuple[int, str, Any]
"""Rule, detection and time."""


def check_run(
    bound: BoundRules,
    events: Path,
    object: str,
    time: str,
    sequence: Sequence[str] | None,
    sample: int,
    seed: int,
    report: "Progress",
    timeout: timedelta | int | None = None,
) -> dict[str, int]:
    """Refuse a run that differs from the events of rules and rows; returns how much was checked.

    `sample` rows, of whole objects, are compared with every rule but those of which the answer says that only their ids
    are; `seed` chooses them.
    """
    monitor = make_monitor(bound, object, time, list(sequence or ()), timeout)
    batches, schema = [], pa.schema([])
    for found in replay(monitor, bound, report):
        schema = found.schema
        batches.append(found.select(["event_id"]))
    if monitor.counters["late"]:
        raise FencepostError(
            f"{count(monitor.counters['late'], 'late row')} in {bound.data.path}",
            "rows in the order of time",
            "Sort the file.",
        )
    if not batches:
        return {"events": 0}
    again = pa.concat_tables(batches)
    recorded = _read_recorded(events, schema, report)
    fixed, others = _split_events(recorded, bound, _CHANGES if timeout else [*_CHANGES, "timeout"])
    _check_ids(fixed, again)
    expected = _Expected(bound, timeout)
    rows = _compare_rows(bound, monitor, expected, _count_facts(fixed, expected), sample, seed, report)
    return {
        "events": len(fixed),
        "events of other rules or changes, unchecked": others,
        "rows compared": rows,
        "rules compared by id alone": len(expected.apart),
    }


def open_recorded(path: Path) -> DataFile:
    """The events of a run; what is none is refused before any rule is read."""
    data = open_data(path)
    missing = [name for name in _COLUMNS if name not in data.schema.names]
    if missing:
        raise FencepostError(f"{path} without the column {missing[0]}", "a file of events", "Name what a run wrote.")
    return data


def _read_recorded(path: Path, schema: Any, report: "Progress") -> Any:
    data = open_recorded(path)
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


def _split_events(recorded: Any, bound: BoundRules, changes: list[str]) -> tuple[Any, int]:
    """The events that follow from rules and rows alone, which have none of these reasons, and how many others are."""
    rules = bound.snapshot.rules
    versions = dict(zip(rules.ids.tolist(), rules.versions.tolist(), strict=True))
    ids, held = (recorded[name].to_pylist() for name in ("rule_id", "rule_version"))
    is_known = np.array([versions.get(id) == version for id, version in zip(ids, held, strict=True)], np.bool_)
    is_changed = np.asarray(pc.is_in(recorded["reason"], pa.array(changes)))
    fixed = recorded.filter(pa.array(is_known & ~is_changed))
    return fixed, len(recorded) - len(fixed)


def _check_ids(recorded: Any, again: Any) -> None:
    found = Counter(recorded["event_id"].to_pylist())
    expected = set(again["event_id"].to_pylist())
    twice = [id for id, times in found.items() if times > 1]
    missing, extra = sorted(expected - found.keys()), sorted(found.keys() - expected)
    for wrong, fault in ((twice, "more than once"), (missing, "missing"), (extra, "that do not follow from the rules")):
        if wrong:
            raise FencepostError(
                f"{count(len(wrong), 'event')} {fault}, such as {wrong[0]}",
                f"the {count(len(expected), 'event')} of the run",
                _REPORT,
            )


class _Expected:
    """The facts that follow from the rows of one object, by comparing every rule with every row."""

    def __init__(self, bound: BoundRules, timeout: timedelta | int | None) -> None:
        columns = bound.columns()
        ids = columns.rules.ids.tolist()
        self._timeout = timeout
        self._detects = {
            id: detect_names(flags).split(",") for id, flags in zip(ids, columns.rules.detects.tolist(), strict=True)
        }
        self._holding = BruteForce(columns)
        self._staying = None if columns.stay is None else BruteForce(columns.stay)
        self.apart = set(columns.rules.ids[columns.rules.expires != NEVER].tolist())
        """Rules with facts that no row shows: those that expire, and damped ones whose crosses start a cooldown."""
        self.damped: dict[int, Damping] = {}
        """Rules that are walked pair by pair."""
        damping = columns.damping
        for row in [] if damping is None else damping.rules.tolist():
            text = None if damping is None else damping.text_of(row)
            assert text is not None, "it is damped"
            if "cross" in self._detects[ids[row]]:
                self.apart.add(ids[row])
            else:
                self.damped[ids[row]] = damping_of(text)
        for id in self.apart:
            self.damped.pop(id, None)

    def of(self, rows: Any) -> Counter[Fact]:
        """The facts of an object's rows, in order, without missing values."""
        times, asked = rows["fencepost time"], rows.drop_columns(["fencepost time"])
        holding = self._holding.holding(asked)
        expected: Counter[Fact] = Counter()
        before: set[int] = set()
        last = None
        for time, now in zip(times.to_pylist(), holding, strict=True):
            if self._timeout is not None and last is not None and time - last >= self._timeout:
                before = set()  # silence ended it
            last = time
            for kind, ids in (("enter", now - before), ("exit", before - now), ("inside", now)):
                own = ids - self.apart - self.damped.keys()
                expected.update((id, kind, time) for id in own if kind in self._detects[id])
            before = now
        if self.damped:
            expected.update(self._walk(times, holding, asked))
        return expected

    def _walk(self, times: Any, holding: list[set[int]], asked: Any) -> Iterator[Fact]:
        """The facts of damped rules that hold at some row."""
        staying = [set[int]()] * len(holding) if self._staying is None else self._staying.holding(asked)
        number = pa.int32() if pa.types.is_date(times.type) else pa.int64()
        ordinals = times.cast(number).to_pylist()
        timeout = None if self._timeout is None else in_units(self._timeout, times.type)
        for id in sorted(set().union(*holding) & self.damped.keys()):
            steps = [(time, id in now, id in stay) for time, now, stay in zip(ordinals, holding, staying, strict=True)]
            found = walk(lengths_of(self.damped[id], times.type), steps, timeout)
            at = pa.array([time for _, time in found], number).cast(times.type).to_pylist()
            for (kind, _), time in zip(found, at, strict=True):
                if kind in self._detects[id]:
                    yield id, kind, time


def _count_facts(events: Any, expected: _Expected) -> dict[Any, Counter[Fact]]:
    """The reported facts of each object, but for crossings and those that are compared by their ids alone.

    What time caused counts for damped rules.
    """
    facts: dict[Any, Counter[Fact]] = {}
    for event in events.select(["object", "rule_id", "detect", "time", "reason"]).to_pylist():
        id = event["rule_id"]
        if event["detect"] in ("cross", "silent") or id in expected.apart:
            continue
        if event["reason"] is None or id in expected.damped:
            facts.setdefault(event["object"], Counter())[id, event["detect"], event["time"]] += 1
    return facts


def _compare_rows(
    bound: BoundRules,
    monitor: Monitor,
    expected: _Expected,
    facts: dict[Any, Counter[Fact]],
    sample: int,
    seed: int,
    report: "Progress",
) -> int:
    """Compare what follows from the rows of chosen objects with the facts; returns how many rows."""
    done = 0
    for name, rows in _choose_objects(bound, monitor, sample, seed, report):
        wanted, found = expected.of(rows), facts.get(name, Counter())
        if found != wanted:
            (id, kind, time), _ = next(iter(((found - wanted) or (wanted - found)).items()))
            raise FencepostError(
                f"{found[id, kind, time]} of `{kind}` of rule {id} for {name} at {time}",
                f"{wanted[id, kind, time]}, by comparing every rule",
                _REPORT,
            )
        done += rows.num_rows
        report("comparing", done, sample)
    return done


def _choose_objects(bound: BoundRules, monitor: Monitor, sample: int, seed: int, report: "Progress") -> Any:
    """Chosen objects with their rows in order, missing values filled with the last known ones."""
    column, time, used = monitor.object, str(monitor.time), (*bound.snapshot.attributes, *bound.snapshot.keys)
    counts: Counter[Any] = Counter()
    for table in bound.batches(report, "choosing"):
        counts.update(table[column].to_pylist())
    counts.pop(None, None)
    order = np.random.default_rng(seed).permutation(len(counts)).tolist()
    names, chosen, rows = list(counts), list[Any](), 0
    for place in order:
        if rows >= sample:
            break
        chosen.append(names[place])
        rows += counts[names[place]]
    chosen_rows = []
    for table in bound.batches(report, "gathering"):
        chosen_rows.append(table.filter(pc.is_in(table[column], pa.array(chosen, table.schema.field(column).type))))
    whole = pa.concat_tables(chosen_rows, promote_options="default")
    for name in chosen:
        own = whole.filter(pc.equal(whole[column], name))
        yield name, _sort_rows(own, time, monitor.sequence, used)


def _sort_rows(rows: Any, time: str, sequence: Sequence[str], used: Sequence[str]) -> Any:
    rows = rows.filter(pc.is_valid(rows[time])).sort_by([(name, "ascending") for name in (time, *sequence)])
    given = Table(rows)
    columns = {name: _nan_to_null(given.arrow(name)) for name in used}
    observes = np.zeros(rows.num_rows, np.bool_)
    for values in columns.values():
        observes |= np.asarray(pc.is_valid(values))
    filled = {name: pc.fill_null_forward(values.filter(pa.array(observes))) for name, values in columns.items()}
    times = given.arrow(time).filter(pa.array(observes))
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("us", times.type.tz))
    elif pa.types.is_integer(times.type):
        times = times.cast(pa.int64())
    return pa.table({**filled, "fencepost time": times})


def _nan_to_null(values: Any) -> Any:
    """The values, with null for NaN, which is no observation."""
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values
