"""A monitor's state, saved and restored."""

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.book import RuleBook
from fencepost.monitor import Monitor
from fencepost.rules import Rules
from tests.effort import examples
from tests.monitor.examples import monitor_of, refusal, summarize
from tests.monitor.played import options
from tests.monitor.scripts import Pair, kinds_of_objects, rules, scripts
from tests.replay import ReplayRule


@examples(80)
@given(scripts, kinds_of_objects, st.one_of(st.none(), st.integers(1, 12)), st.lists(rules(), max_size=3), st.data())
def test_saving_and_restoring_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, Any]],
    kind: str,
    timeout: int | None,
    start: list[ReplayRule],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("state") / "monitor.arrow"
    pair = Pair(kind, "enter", timeout, False, start)
    stop = data.draw(st.integers(0, len(script)))
    for action, argument in script[:stop]:
        pair.play(action, argument)
    pair.monitor.save(path)
    same = Rules.from_dicts(
        {"id": rule.id, "condition": rule.condition(), "version": rule.version, **options(rule)}
        for rule in pair.replay.rules.values()
        if rule.enabled or data.draw(st.booleans())  # a rule that is paused need not be among them
    )
    pair.monitor = pair.build(same)
    pair.monitor.restore(path)
    for action, argument in script[stop:]:
        pair.play(action, argument)


def test_a_restored_monitor_forgets_what_it_held(tmp_path: Path) -> None:
    monitor, other = monitor_of("x >= 1", time=None), monitor_of("x >= 1", time=None)
    monitor.update({"vehicle": ["a"], "x": [1.0]})
    monitor.save(tmp_path / "state")
    other.update({"vehicle": ["b"], "x": [1.0]})
    assert other.inside(1) == ["b"]
    other.restore(tmp_path / "state")
    assert other.inside(1) == ["a"]
    assert other.counters == monitor.counters


def test_saved_state_is_refused_where_it_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "state.arrow"
    monitor = monitor_of("x >= 1")
    monitor.update({"vehicle": [7], "ts": [1], "x": [1.0]})
    monitor.save(path)
    assert refusal(lambda: monitor_of("x >= 1", time="other").restore(path)) == (
        f"A Monitor with time='other'; expected time='ts', as in {path}. "
        "Build the Monitor with the settings of the one that saved."
    )
    assert refusal(lambda: monitor_of("x >= 1", "x >= 2").restore(path)) == (
        f"A Monitor whose 2 rules, or their versions, differ from those of {path}; "
        "expected the same 1 rule in the same versions. Build the Monitor from the rules of that time, restore, "
        "then change them with add, replace and remove."
    )
    assert refusal(lambda: monitor_of("x >= 1", schema={"x": "bigint"}).restore(path)) == (
        f"x as bigint; expected double, as in {path}. Pass schema= to the Monitor with that type."
    )
    assert refusal(lambda: monitor_of("x >= 1").restore(tmp_path / "missing")) == (
        f"The state file {tmp_path / 'missing'} cannot be read (No such file or directory); "
        "expected a file as Monitor.save of this version wrote it. "
        "Check the path, or restore a copy; without one, begin with a new Monitor and update it with past rows."
    )
    assert "Is a directory" in refusal(lambda: monitor_of("x >= 1").restore(tmp_path))
    table = pa.table({"x": [1]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert "was saved in another format, or is something else" in refusal(lambda: monitor_of("x >= 1").restore(path))
    assert list(tmp_path.iterdir()) == [path]


def monitor_with_all_kinds_of_state() -> Monitor:
    rules = Rules()
    rules.add(1, "x >= 1 AND k = 'u'", detect="enter,exit")
    rules.add(2, "left.price - right.price BETWEEN -1 AND 1", detect="enter,exit")
    return Monitor(rules, object="id", time="ts")


def test_every_byte_of_a_saved_state_that_changes_is_noticed(tmp_path: Path) -> None:
    monitor, path = monitor_with_all_kinds_of_state(), tmp_path / "state"
    monitor.update({"id": list("abcdefgh"), "ts": range(8), "x": np.arange(8) / 2, "k": list("uvuvuvuv")})
    monitor.update(left={"id": ["a"], "ts": [9], "price": [1.0]}, right={"id": ["b"], "ts": [9], "price": [1.5]})
    monitor.save(path)
    saved = path.read_bytes()
    restored = monitor_with_all_kinds_of_state()
    restored.restore(path)
    assert restored.counters == monitor.counters
    before = restored.counters, restored.inside(1), restored.inside(2)
    rng = np.random.default_rng(4)
    damaged: list[bytes] = []
    for at in [*rng.integers(0, len(saved), 300), *range(8), *range(len(saved) - 40, len(saved))]:
        changed = bytearray(saved)
        changed[at] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(changed))
    damaged += [saved[: int(size)] for size in [*rng.integers(0, len(saved), 100), *range(40), len(saved) - 1]]
    damaged += [saved[:-32], saved[1:], saved + b"\0", saved + saved, saved + saved[-32:], b""]
    for content in damaged:
        path.write_bytes(content)
        refused = refusal(lambda: restored.restore(path))
        assert refused.startswith(f"The state file {path} ")
        assert "restore a copy" in refused
    assert (restored.counters, restored.inside(1), restored.inside(2)) == before


def test_a_state_is_on_the_disk_before_it_takes_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor, path, synced = monitor_with_all_kinds_of_state(), tmp_path / "state", list[int]()
    monitor.save(path)
    first, replace = path.read_bytes(), Path.replace
    monitor.update({"id": ["a"], "ts": [1], "x": [2.0], "k": ["u"]})

    def sync(opened: int) -> None:
        synced.append(os.fstat(opened).st_size)

    def replaced(draft: Path, target: Path) -> Path:
        assert synced == [draft.stat().st_size]
        assert path.read_bytes() == first
        return replace(draft, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", replaced)
    monitor.save(path)
    assert path.read_bytes() != first
    assert len(synced) == 2  # and then the folder


def test_a_paused_rule_keeps_its_version(tmp_path: Path) -> None:
    monitor = monitor_of("x >= 1", "x >= 2")
    monitor.update({"vehicle": [7], "ts": [1], "x": [3.0]})
    monitor.replace(2, "x >= 2", detect="enter,exit")
    assert summarize(monitor.replace(2, "x >= 2", detect="enter,exit", enabled=False)) == [(7, 2, "exit", 1, "paused")]
    monitor.save(tmp_path / "state")

    one = monitor_of("x >= 1")  # knows nothing of the paused rule
    both = Rules()  # has it as it was in the beginning
    both.add(1, "x >= 1", detect="inside,enter,exit,cross")
    both.add(2, "x >= 2", detect="inside,enter,exit,cross", enabled=False)
    for restored in (one, Monitor(both, object="vehicle", time="ts")):
        restored.restore(tmp_path / "state")
        assert "Rule 2" in refusal(lambda: restored.add(2, "x >= 2"))  # noqa: B023
        assert restored.replace(2, "x >= 0", detect="enter", initial=True)["rule_version"].to_pylist() == [4]
        restored.save(tmp_path / "again")
        again = Rules.from_dicts(
            [
                {"id": 1, "condition": "x >= 1", "detect": "inside,enter,exit,cross"},
                {"id": 2, "condition": "x >= 0", "detect": "enter", "version": 4},
            ]
        )
        Monitor(again, object="vehicle", time="ts").restore(tmp_path / "again")


@examples(60)
@given(scripts, kinds_of_objects, st.one_of(st.none(), st.integers(1, 12)), st.lists(rules(), max_size=3), st.data())
def test_a_monitor_loaded_with_its_rules_goes_on_as_if_nothing_had_been(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, Any]],
    kind: str,
    timeout: int | None,
    start: list[ReplayRule],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("state") / "monitor.arrow"
    pair = Pair(kind, "enter", timeout, False, start)
    stop = data.draw(st.integers(0, len(script)))
    for action, argument in script[:stop]:
        pair.play(action, argument)
    pair.monitor.save(path, rules=True)
    counters, shown = pair.monitor.counters, list(pair.monitor.rules)
    pair.monitor = Monitor.load(path)
    assert pair.monitor.counters == counters
    assert sorted(pair.monitor.rules, key=lambda rule: rule.id) == sorted(shown, key=lambda rule: rule.id)
    for action, argument in script[stop:]:
        pair.play(action, argument)


def test_all_settings_are_loaded_and_every_byte_counts(tmp_path: Path) -> None:
    given_rules = Rules()
    given_rules.add(1, "x >= 1 AND k = 'u'", detect="enter,exit", labels={"a": "b"}, name="one")
    given_rules.add(2, "left.x - right.x BETWEEN -1 AND 1", detect="enter,exit")
    given_rules.add(3, "x > 5", enabled=False)
    settings: dict[str, Any] = {"first": "silent", "timeout": timedelta(minutes=5), "sequence": ["a", "b"]}
    settings |= {"schema": {"x": "decimal(9,2)", "k": "string", "y": "bigint"}, "deleted": "gone", "key": "k"}
    monitor = Monitor(given_rules, object="id", time="ts", report="rules", **settings)
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    monitor.update([{"id": 1, "ts": noon, "x": Decimal("0.5"), "k": "u", "y": 3}])
    monitor.save(tmp_path / "m", rules=True)
    late: list[Any] = []
    loaded = Monitor.load(str(tmp_path / "m"), late=late.append)
    loaded.save(tmp_path / "again", rules=True)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    row = [{"id": 1, "ts": noon + timedelta(minutes=1), "x": Decimal("1.50")}]
    assert loaded.update(row).to_pylist() == monitor.update(row).to_pylist()
    assert loaded.update([{"id": 1, "ts": noon, "x": Decimal("1.50")}]).num_rows == 0
    assert len(late) == 1
    assert loaded.add(4, "y = 3", detect="enter", initial=True).num_rows == 1, "declared columns are remembered"
    assert loaded.replace(3, "x > 6") is not None
    assert loaded.rules[3].version == 2
    same = Monitor(given_rules, object="id", time="ts", report="rules", **settings)
    same.restore(tmp_path / "m")
    assert same.counters["rows"] == 1

    content = (tmp_path / "m").read_bytes()
    assert b"pickle" not in content
    for place in [*range(0, len(content), 97), *range(len(content) - 48, len(content))]:
        changed = bytearray(content)
        changed[place] ^= 1
        (tmp_path / "changed").write_bytes(changed)
        assert "the state file" in refusal(lambda: Monitor.load(tmp_path / "changed")).lower()
    (tmp_path / "changed").write_bytes(content[:-100])
    refusal(lambda: Monitor.load(tmp_path / "changed"))
    monitor.save(tmp_path / "state")
    assert "has no rules" in refusal(lambda: Monitor.load(tmp_path / "state"))


def test_a_loaded_monitor_goes_on_with_its_book(tmp_path: Path) -> None:
    with RuleBook(f"sqlite:///{tmp_path}/rules.db") as book:
        book.add(1, "x >= 1", detect="enter,exit")
        monitor = Monitor(book, object="id")
        monitor.update_one(7, x=2.0)
        monitor.save(tmp_path / "m", rules=True)
        book.replace(1, "x >= 3", detect="enter,exit")
        loaded = Monitor.load(tmp_path / "m", book=book)
        assert loaded.refresh()["reason"].to_pylist() == ["edited"]
        assert loaded.rules[1].version == 2
        assert "without a rule book" in refusal(Monitor.load(tmp_path / "m").refresh)
