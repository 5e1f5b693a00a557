"""Runs trials in a process of their own, shares time between them, and keeps a journal of every try."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.campaign.trial import Trial

ROOT = Path(__file__).parents[2]
FAILURES = ("difference", "raw error", "crash", "hang")
_GRACE = 5
"""Seconds that a process has to end in order."""
_SHOWN = 2
"""Failures of one trial that the report shows in full."""


@dataclass(frozen=True)
class Result:
    """What came of one try: "ok" or one of the failures."""

    trial: str
    seed: int
    outcome: str
    looked_at: int
    seconds: float
    detail: str = ""


class Child:
    """A process that tries; one that died or hung is replaced.

    Args:
        module: where the process finds its list of trials.
    """

    def __init__(self, module: str) -> None:
        self.module = module
        self._process: subprocess.Popen[bytes] | None = None

    def attempt(self, trial: Trial, seed: int) -> Result:
        """Try once; whatever becomes of the process is the result."""
        start = time.monotonic()
        if self._process is None:
            self._process = self._start()
        process = self._process
        assert process.stdin is not None
        process.stdin.write(json.dumps([trial.name, seed]).encode() + b"\n")
        process.stdin.flush()
        answer = _read_line(process, trial.patience)
        seconds = time.monotonic() - start
        if answer is None:
            self.stop()
            return Result(trial.name, seed, "hang", 0, seconds, f"No answer after {trial.patience:.0f} s.")
        if not answer.endswith(b"\n"):
            code = process.wait()
            self.stop()
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            return Result(trial.name, seed, "crash", 0, seconds, f"The process died: {how}.")
        outcome, looked_at, detail = json.loads(answer)
        return Result(trial.name, seed, outcome, looked_at, seconds, detail)

    def _start(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "tests.campaign.child", self.module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )  # fmt: skip

    def stop(self) -> None:
        """End the process: first in order, so that a trial ends what it has started itself."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
        self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _read_line(process: "subprocess.Popen[bytes]", patience: float) -> bytes | None:
    """A line of an answer; without its end where the process died, None where it takes too long."""
    assert process.stdout is not None
    deadline, line = time.monotonic() + patience, b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        some = os.read(process.stdout.fileno(), 65_536)
        if not some:
            break
        line += some
    return line


class Journal:
    """A file with a line for the run and one for every try, so that a run that was broken off goes on.

    Args:
        path: a new file, or that of the run to go on with.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: list[Result] = []
        self.run: dict[str, Any] = {}
        text = path.read_text() if path.exists() else ""
        if text and not text.endswith("\n"):
            path.write_text(text + "\n")
        for line in text.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue  # the run was broken off in the middle of a line
            if "trial" in found:
                self.results.append(Result(**found))
            else:
                self.run = found

    def begin(self, seed: int, minutes: float, only: str | None = None) -> None:
        """Write what the whole run has in common."""
        self.run = {"seed": seed, "minutes": minutes, "only": only}
        self._append(self.run)

    def add(self, result: Result) -> None:
        """Keep what came of one try."""
        self.results.append(result)
        self._append(asdict(result))

    def _append(self, found: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(found) + "\n")


def run_trials(trials: Sequence[Trial], module: str, journal: Journal, console: Console) -> None:
    """Try for the minutes of a journal: always the trial that has had least time; each at least once."""
    seconds = journal.run["minutes"] * 60
    spent: dict[str, float] = {trial.name: 0.0 for trial in trials}
    tries = {trial.name: 0 for trial in trials}
    for result in journal.results:
        if result.trial in spent:
            spent[result.trial] += result.seconds
            tries[result.trial] += 1
    failed = sum(result.outcome != "ok" for result in journal.results)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Child(module) as child, Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=max(seconds, 1e-9))
        while sum(spent.values()) < seconds or not all(tries.values()):
            untried = [trial for trial in trials if not tries[trial.name]]
            trial = min(untried or trials, key=lambda each: spent[each.name])
            seed = journal.run["seed"] + tries[trial.name]
            told = f"{trial.name} {seed}, {sum(tries.values()):,} tries, {failed} failed"
            progress.update(bar, description=told, completed=sum(spent.values()))
            result = child.attempt(trial, seed)
            journal.add(result)
            spent[trial.name] += result.seconds
            tries[trial.name] += 1
            if result.outcome != "ok":
                failed += 1
                console.print(f"[red]{result.outcome}[/red] {trial.name} seed {seed}")


def repeat_command(result: Result) -> str:
    """What repeats one try."""
    return f"python -m tests.campaign --only {result.trial} --seed {result.seed}"


def report(trials: Sequence[Trial], results: Sequence[Result], console: Console) -> bool:
    """Print what was tried and what failed; True if nothing did."""
    table = Table("promise", "trial", "tried by", title="Campaign")
    for name in ("tries", "looked at", "failures"):
        table.add_column(name, justify="right")
    for trial in trials:
        own = [result for result in results if result.trial == trial.name]
        failures = Counter(result.outcome for result in own if result.outcome != "ok")
        seeds = [str(result.seed) for result in own if result.outcome != "ok"]
        told = ", ".join(f"{count} {kind}" for kind, count in failures.items()) or "0"
        if seeds:
            told += f" (seeds {', '.join(seeds[:5])}{', ...' if len(seeds) > 5 else ''})"
        looked_at = sum(result.looked_at for result in own)
        table.add_row(trial.promise, trial.name, trial.tried_by, f"{len(own):,}", f"{looked_at:,}", told)
    console.print(table)
    for trial in trials:
        own = [result for result in results if result.trial == trial.name and result.outcome != "ok"]
        if own and trial.known:
            console.print(f"{trial.name} fails as known: {trial.known}")
        for result in _one_of_each(own):
            console.print(f"\n{result.trial}, seed {result.seed}: {result.outcome}. Repeat it with:", highlight=False)
            console.print(f"  {repeat_command(result)}", highlight=False, soft_wrap=True)
            console.print(escape(result.detail.rstrip()), highlight=False, soft_wrap=True)
    return all(result.outcome == "ok" for result in results)


def _one_of_each(failures: Sequence[Result]) -> Iterator[Result]:
    """A few failures of each kind."""
    for kind in FAILURES:
        yield from [result for result in failures if result.outcome == kind][:_SHOWN]
