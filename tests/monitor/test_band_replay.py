"""Bands in the Monitor against the naive replay, whatever happens to them."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.band_replay import ReplayBand
from tests.effort import examples
from tests.monitor.band_scripts import Twins, random_band, random_rows, scripts
from tests.monitor.played import rules_of


@examples(150)
@given(
    scripts,
    st.sampled_from(["enter", "silent"]),
    st.one_of(st.none(), st.none(), st.integers(1, 12)),
    st.booleans(),
    st.booleans(),
)
def test_every_script_gives_the_events_of_the_replay(
    script: list[tuple[str, Any]], first: str, timeout: int | None, sequenced: bool, strings: bool
) -> None:
    twins = Twins(first, timeout, sequenced, strings)
    for action, argument in script:
        twins.play(action, argument)


@pytest.mark.parametrize(
    ("seed", "first", "timeout", "strings"),
    [(1, "enter", None, False), (2, "silent", None, True), (3, "enter", 40, False), (4, "enter", 10, True)],
)
def test_long_runs_with_live_changes_equal_the_replay(
    seed: int, first: str, timeout: int | None, strings: bool
) -> None:
    rng = random.Random(seed)  # noqa: S311
    twins = Twins(first, timeout, seed % 2 == 0, strings)
    for _ in range(12):
        twins.play("put", random_band(rng, 12))
    for _ in range(45):
        twins.play("rows", (random_rows(rng, 8), random_rows(rng, 8)))
        chance = rng.random()
        if chance < 0.5:
            twins.play("put", random_band(rng, 12))
        elif chance < 0.6:
            twins.play("remove", rng.randint(1, 12))
        elif chance < 0.7:
            twins.play("many", ([random_band(rng, 12) for _ in range(4)], {rng.randint(1, 12)}))
        elif chance < 0.8:
            twins.play("advance", rng.randint(-2, 6))
    assert len(twins.all) > 500


def test_a_state_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    rng = random.Random(9)  # noqa: S311
    twins = Twins(timeout=60)
    for id in range(1, 8):
        rule = random_band(rng, 1)
        rule = ReplayBand(*(id, *list(rule.__dict__.values())[1:-1]))
        twins.play("put", rule)
    same = rules_of(twins.replay.rules.values())
    for round_ in range(12):
        twins.play("rows", (random_rows(rng, 6), random_rows(rng, 6)))
        twins.monitor.save(tmp_path / f"{round_}")
        twins.monitor = twins.build(same)
        twins.monitor.restore(tmp_path / f"{round_}")
        twins.compare()
