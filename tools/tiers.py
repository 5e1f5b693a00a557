"""Runs tiers of tests beside each other, one more than there are cores, what takes longest first.

    python -m tools.tiers quick      # make test
    python -m tools.tiers all        # make test-all
    python -m tools.tiers ci         # make ci: with make check and make docs

A tier is one pytest of its own, so none waits for another. All tests with the Spark session are one tier, and a tier
that is named by directories leaves them to it. Tests that no tier names are in the last one: none can be forgotten.
Tests with Spark wait more than they compute, hence one more.
What a tier prints is shown when it has ended. The exit code is 1 if one of them failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_PAUSE = 120.0
"""Seconds between two words on what runs."""
_LAST = 100
"""Bytes of what a tier said last that are shown."""
OLDEST = ROOT / ".venv-spark-oldest" / "bin" / "python"
QUIET = ("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")
PYTEST = ("-m", "pytest", "--durations", "10")
HALF = ("--hypothesis-profile", "half")


class Tier(NamedTuple):
    """A process that runs tests."""

    name: str
    command: tuple[str, ...]


class Ended(NamedTuple):
    """What became of a tier."""

    tier: Tier
    code: int
    seconds: float
    cpu: float
    printed: str


PARTS = {
    "processes": ("tests/spark", "tests/test_wheel.py", "tests/test_examples.py"),
    "campaign": ("tests/campaign", "tests/reproduce", "tests/cli", "tests/docs"),
    "indexes": ("tests/indexes",),
}
"""Tests without the Spark session, by directory; the others are in `rest`."""


def pytest_tier(name: str, *arguments: str, python: Path = Path(sys.executable)) -> Tier:
    """One pytest, in this environment or in another."""
    return Tier(name, (str(python), *PYTEST, *arguments))


def tiers_of(marks: str, options: Sequence[str]) -> list[Tier]:
    """The tiers that together are all tests with such marks."""

    def tier(name: str, lane: str, paths: Sequence[str]) -> Tier:
        return pytest_tier(name, "-m", marks, "--lane", lane, *options, *paths)

    others = [f"--ignore={path}" for paths in PARTS.values() for path in paths]
    parts = [tier(name, "others", paths) for name, paths in PARTS.items()]
    return [tier("spark", "spark", ()), *parts, tier("rest", "others", others)]


def quick_tiers() -> list[Tier]:
    """What every commit runs."""
    return tiers_of("not slow and not system", ["--hypothesis-profile", "quick"])


def all_tiers() -> list[Tier]:
    """Every test there is."""
    spark, *others = tiers_of("not system", HALF)
    return [spark, *system_tiers(), *oldest_tiers(), *others]


def oldest_tiers() -> list[Tier]:
    """Operators, streams, kills and pipelines on the oldest Spark."""
    paths = ("tests/spark", "tests/pipeline")
    ignored = "--ignore=tests/pipeline/test_rotation.py"  # its imports are not in that environment
    return [pytest_tier("oldest", "-m", "oldest and not system", *HALF, *QUIET, ignored, *paths, python=OLDEST)]


def system_tiers() -> list[Tier]:
    """Tests that need servers."""
    paths = ("tests/pipeline/test_lakes.py", "tests/spark/test_soak.py")
    return [
        pytest_tier("system", "-m", "system", *HALF, "tests"),
        pytest_tier("lakes, soak", "-m", "oldest and system", *QUIET, *paths, python=OLDEST),
    ]


def ci_tiers() -> list[Tier]:
    """What CI runs."""
    make = ("make", "--no-print-directory")
    return [*all_tiers(), Tier("check", (*make, "check")), Tier("docs", (*make, "docs"))]


KINDS = {"quick": quick_tiers, "all": all_tiers, "ci": ci_tiers, "oldest": oldest_tiers, "system": system_tiers}


def run_tiers(tiers: Sequence[Tier], beside: int) -> list[Ended]:
    """Run them, so many beside each other; print what each said when it has ended."""
    waiting, running, ended = [*tiers], list["Running"](), list[Ended]()
    told = time.monotonic()
    try:
        while waiting or running:
            while waiting and len(running) < beside:
                running.append(Running(waiting.pop(0)))
                print(f"started {running[-1].tier.name}", flush=True)
            time.sleep(0.2)
            if time.monotonic() - told > _PAUSE:
                told = time.monotonic()
                print("\n".join(each.progress() for each in running), flush=True)
            for each in [each for each in running if each.is_over()]:
                running.remove(each)
                ended.append(each.result())
                show(ended[-1])
    finally:
        for each in running:
            each.end()
    return ended


class Running:
    """A tier that runs; its words go to a file."""

    def __init__(self, tier: Tier) -> None:
        self.tier, self._began = tier, time.monotonic()
        self._words = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(  # noqa: S603
            tier.command,
            cwd=ROOT,
            stdout=self._words,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self._code: int | None = None
        self._cpu = 0.0

    def is_over(self) -> bool:
        """Whether it has ended; its processor time is that of all processes that it waited for."""
        if self._code is None:
            process, status, used = os.wait4(self._process.pid, os.WNOHANG)
            if process:
                self._code, self._cpu = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
                self._process.returncode = self._code
        return self._code is not None

    def result(self) -> Ended:
        """What became of it."""
        assert self._code is not None
        self._words.seek(0)
        with self._words as file:
            printed = file.read()
        return Ended(self.tier, self._code, time.monotonic() - self._began, self._cpu, printed)

    def progress(self) -> str:
        """How long it has run, and the last that it said."""
        file, size = self._words.fileno(), os.fstat(self._words.fileno()).st_size
        said = os.pread(file, _LAST, max(0, size - _LAST)).decode(errors="replace").strip().splitlines()
        return f"{self.tier.name}, {(time.monotonic() - self._began) / 60:.0f} min: {said[-1] if said else ''}"

    def end(self) -> None:
        """End it early, as Ctrl-C does."""
        self._process.terminate()
        self._process.wait()
        self._words.close()


def show(ended: Ended) -> None:
    """Print what a tier said."""
    print(f"\n===== {ended.tier.name} {'=' * (70 - len(ended.tier.name))}\n{ended.printed}", flush=True)


def is_good(ended: Ended) -> bool:
    """Whether its tests passed; 5 is pytest's word for a tier without any."""
    return ended.code in {0, 5}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tiers of a kind."""
    parser = argparse.ArgumentParser(prog="python -m tools.tiers", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--beside", type=int, default=min(4, (os.cpu_count() or 1) + 1), help="how many run at once")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    ended = run_tiers(KINDS[given.kind](), given.beside)
    print(f"{'tier':12} {'seconds':>8} {'processor':>10}  ended")
    for each in ended:
        words = "well" if is_good(each) else f"with exit code {each.code}"
        print(f"{each.tier.name:12} {each.seconds:8.0f} {each.cpu:10.0f}  {words}")
    print(f"{'all':12} {time.monotonic() - began:8.0f} {sum(each.cpu for each in ended):10.0f}")
    return 0 if all(map(is_good, ended)) else 1


if __name__ == "__main__":
    sys.exit(main())
