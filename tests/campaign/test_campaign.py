"""Every trial holds for a few seeds, and the runner notices what does not hold."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.campaign import band_oracle, oracle, planted
from tests.campaign.__main__ import MODULE, choose
from tests.campaign.bands import try_bands
from tests.campaign.catalogue import KNOWN, TRIALS
from tests.campaign.runner import ROOT, Child, Journal, Result, repeat_command, report, run_trials
from tests.campaign.semantics import try_script
from tests.campaign.trial import DifferenceError, Trial

pytestmark = pytest.mark.slow
PLANTED = {trial.name: trial for trial in planted.TRIALS}
FOUND = {
    "good": "ok",
    "raises": "raw error",
    "exits": "crash",
    "crashes": "crash",
    "hangs": "hang",
    "lies": "difference",
}
SHORT = choose(TRIALS, None, minutes=1)


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(scope="module")
def child() -> Any:
    with Child(MODULE) as found:
        yield found


@pytest.mark.parametrize("trial", SHORT, ids=[trial.name for trial in SHORT])
def test_a_trial_holds_for_fixed_seeds(trial: Trial, child: Child) -> None:
    for seed in (0, 1):
        result = child.attempt(trial, seed)
        assert result.outcome == "ok", f"{repeat_command(result)}\n{result.detail}"
        assert result.looked_at > 0 or seed > 0


def test_what_is_known_to_fail_is_a_trial_that_the_short_form_leaves_out() -> None:
    assert set(KNOWN) <= {trial.name for trial in TRIALS}
    assert not {trial.name for trial in SHORT} & set(KNOWN)
    assert {trial.name for trial in choose(TRIALS, None, minutes=60)} == {trial.name for trial in TRIALS}
    assert [trial.name for trial in choose(TRIALS, "bytes.state", minutes=1)] == ["bytes.state"]
    assert len(choose(TRIALS, "bytes", minutes=1)) == 11


def test_every_planted_fault_is_noticed_and_the_run_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.begin(seed=3, minutes=0)
    console = quiet()
    run_trials(planted.TRIALS, planted.__name__, journal, console)
    assert {result.trial: result.outcome for result in journal.results} == FOUND
    assert "SIGSEGV" in {result.trial: result.detail for result in journal.results}["crashes"]
    assert "exit code 3" in {result.trial: result.detail for result in journal.results}["exits"]
    assert not report(planted.TRIALS, journal.results, console)
    told = printed(console)
    assert "an answer is wrong for seed 3" in told
    assert "python -m tests.campaign --only lies --seed 3" in told
    assert report([PLANTED["good"]], [journal.results[0]], quiet())


def test_a_run_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.begin(seed=100, minutes=0.05)
    for seed in (100, 101):
        journal.add(Result("good", seed, "ok", 1, 1.4))
    with path.open("a") as file:
        file.write('{"trial": "good", "se')
    again = Journal(path)
    assert len(again.results) == 2
    run_trials([PLANTED["good"]], planted.__name__, again, quiet())
    assert [result.seed for result in again.results[:4]] == [100, 101, 102, 103]
    assert sum(result.seconds for result in again.results) >= 3
    assert Journal(path).results == again.results


def test_a_seed_repeats_what_it_did(child: Child) -> None:
    trial = next(trial for trial in TRIALS if trial.name == "semantics.watch")
    one, other = (child.attempt(trial, 17) for _ in range(2))
    assert one.looked_at == other.looked_at > 0


def test_the_command_repeats_one_seed_and_fails_if_it_fails() -> None:
    command = [sys.executable, "-m", "tests.campaign", "--only", "bytes.schema", "--seed", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)  # noqa: S603
    lines = [json.loads(line) for line in sorted((ROOT / "campaign").glob("*"))[-1].read_text().splitlines()]
    assert [(line["trial"], line["seed"]) for line in lines[1:]] == [("bytes.schema", 0)]
    assert done.returncode == (0 if lines[1]["outcome"] == "ok" else 1)


def test_the_oracles_notice_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_difference(attempt: Any) -> None:
        for seed in range(20):
            attempt(seed)

    with monkeypatch.context() as patch:
        patch.setattr(oracle.Range, "holds", lambda self, value: self.low is None or value >= self.low)
        with pytest.raises(DifferenceError):
            first_difference(try_script)
    with monkeypatch.context() as patch:
        patch.setattr(band_oracle.Band, "place", lambda *_: 0)
        with pytest.raises(DifferenceError):
            first_difference(try_bands)
