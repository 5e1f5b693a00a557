"""A monitor's state, saved and restored."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.rules import Rules
from tests.effort import examples
from tests.monitor.examples import monitor_of, refusal
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
        "expected the same 1 rules in the same versions. Build the Monitor from the rules of that time, restore, "
        "then change them with add, replace and remove."
    )
    assert refusal(lambda: monitor_of("x >= 1", schema={"x": "bigint"}).restore(path)) == (
        f"x as bigint; expected double, as in {path}. Pass schema= to the Monitor with that type."
    )
    path.write_bytes(path.read_bytes()[:-9])
    assert "which is no saved state" in refusal(lambda: monitor_of("x >= 1").restore(path))
    table = pa.table({"x": [1]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert "which is no saved state" in refusal(lambda: monitor_of("x >= 1").restore(path))
    assert list(tmp_path.iterdir()) == [path]
