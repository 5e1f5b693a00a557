"""The first minute: processes on a machine where nothing was compiled, with and without the package's code."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import fencepost
from benchmarks.harness import Report
from fencepost.compiled import fitting_baselines_here
from fencepost.warming import warm

__all__ = ["run"]

ROUNDS = 3
RULES = """
import fencepost as fp
rules = fp.Rules()
rules.add(1, "x > 3 AND y < 5", detect="enter,exit")
rules.add(2, "s = 'a' AND x > 2", detect="enter,exit")
"""
MATCH = (
    RULES
    + """
assert rules.compile().match({"x": [4.0], "y": [2.0], "s": ["a"]}).sets() == [{1, 2}]
"""
)
UPDATE = (
    RULES
    + """
monitor = fp.Monitor(rules, object="o", time="t")
rows = {"o": [1, 1], "t": [1, 2], "x": [5.0, 1.0], "y": [1.0, 1.0], "s": ["a", "b"]}
assert monitor.update(rows).num_rows == 4
"""
)
SPARK = (
    RULES
    + """
from pyspark.sql import SparkSession
from fencepost.spark import tune, watch
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
tune(spark)
rows = spark.createDataFrame([(1, 1, 5.0, 1.0, "a")], "o long, t long, x double, y double, s string")
assert len(watch(rows, rules, object="o", time="t").collect()) == 2
"""
)
COUNTS = """
import json
from fencepost.compiled import counts
print(json.dumps(counts))
"""


class Run(NamedTuple):
    """What a process took."""

    seconds: float
    cpu: float
    counts: dict[str, int]


def start(program: str, package: Path, cache: Path) -> Run:
    """Run a program with the package of a directory and the code that is kept in another."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-c", program + COUNTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-3000:]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(seconds, cpu, json.loads(done.stdout.splitlines()[-1]))


def run(full: bool) -> list[Report]:
    """The report; `full` also compiles in every process, as a machine does for which the package has no code."""
    here = fitting_baselines_here()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        bare, package = home / "bare", home / "package"
        for place in (bare, package):
            source = Path(fencepost.__file__).parent
            shutil.copytree(source, place / "fencepost", ignore=shutil.ignore_patterns("__pycache__", "_code"))
        if here:
            warm(None, here[0], package / "fencepost")
        report = Report(f"The first minute: processes on a machine without compiled code, {here[:1] or 'no baseline'}")
        number = 0

        def cold(program: str, place: Path = package, rounds: int = ROUNDS) -> Run:
            nonlocal number
            found = []
            for _ in range(rounds):
                number += 1
                found.append(start(program, place, home / f"cache{number}"))
            best = min(found)
            assert place is bare or not here or best.counts["compiled"] == 0, best.counts
            return best

        goals: list[tuple[str, str, float]] = [
            ("first match", MATCH, 1.5),
            ("first Monitor.update", UPDATE, 2),
        ]
        for what, program, goal in goals:
            judge(report, f"{what}, with the code of the package", cold(program), goal)
            if full:
                note(report, f"{what}, compiled", cold(program, bare, 1))
        judge(report, "first event of watch on Spark, with the code of the package", cold(SPARK, rounds=1), 20)
        warmed = home / "warmed"
        start(MATCH, bare, warmed)
        again = min(start(MATCH, bare, warmed) for _ in range(ROUNDS))
        judge(report, "import and first match, compiled before", again, 0.5)
        report.headline("import and first match in a new process", "", f"{again.seconds:.2f} s")
    return [report]


def judge(report: Report, what: str, found: Run, goal: float) -> None:
    """A goal for what one waits; of how much of it the processor works."""
    report.at_most(f"{what} (seconds)", found.seconds, goal, " s")
    note(report, f"  {what}: of the processor", found)


def note(report: Report, what: str, found: Run) -> None:
    """What a process took, without a goal."""
    made: Any = ", ".join(f"{number} {kind}" for kind, number in found.counts.items() if number)
    report.note(what, f"{found.cpu:,.2f} s ({made or 'no code in the first process'})")


if __name__ == "__main__":
    for each in run(full="--full" in sys.argv):
        each.show()
