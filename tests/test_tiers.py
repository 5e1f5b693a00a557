"""What makes `make test` quick: no interpreters that nobody marked, and a share of the examples."""

import multiprocessing
import subprocess
import sys

import pytest
from hypothesis import settings
from tools import tiers

from tests.effort import FULL, LEAST, examples


def test_a_test_without_the_mark_may_not_start_an_interpreter() -> None:
    with pytest.raises(pytest.fail.Exception, match="Mark it"):
        subprocess.run([sys.executable, "-c", ""], check=True)
    with pytest.raises(pytest.fail.Exception, match="Mark it"):
        multiprocessing.get_context("spawn").Process(target=print).start()
    assert subprocess.run(["/bin/true"], check=True).returncode == 0


@pytest.mark.slow
def test_a_test_with_the_mark_may() -> None:
    assert subprocess.run([sys.executable, "-c", ""], check=True).returncode == 0


def test_examples_are_a_share_but_never_the_simplest_alone() -> None:
    before = settings.get_current_profile_name()
    try:
        for name, counts in {
            "full": [600, 60, 3],
            "half": [300, 30, 3],
            "quick": [150, 15, 3],
            "plain": [50, LEAST, 3],
        }.items():
            settings.load_profile(name)
            assert [examples(count).max_examples for count in (600, FULL, 3)] == counts
    finally:
        settings.load_profile(before)


def test_tiers_leave_no_test_out_and_run_none_twice() -> None:
    """Every tier but the last names directories, which the last one ignores; lanes are all tests."""
    spark, *parts, rest = tiers.tiers_of("not system", [])
    assert "spark" in spark.command
    named = [path for tier in parts for path in tier.command if path.startswith("tests/")]
    assert sorted(f"--ignore={path}" for path in named) == sorted(a for a in rest.command if a.startswith("--ignore"))
    assert len(named) == len(set(named))
    assert all((tiers.ROOT / path).exists() for path in named)
    assert not [other for path in named for other in named if other.startswith(f"{path}/")]
    assert all(tier.command[tier.command.index("--lane") + 1] == "others" for tier in (*parts, rest))


@pytest.mark.slow
def test_tiers_run_beside_each_other_and_one_that_fails_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    programs = {"good": "print('fine')", "bad": "raise SystemExit(3)", "none": "raise SystemExit(5)"}
    given = [tiers.Tier(name, (sys.executable, "-c", program)) for name, program in programs.items()]
    ended = {each.tier.name: each for each in tiers.run_tiers(given, beside=2)}
    assert {name: tiers.is_good(each) for name, each in ended.items()} == {"good": True, "bad": False, "none": True}
    assert ended["good"].printed == "fine\n"
    assert "===== bad" in capsys.readouterr().out
