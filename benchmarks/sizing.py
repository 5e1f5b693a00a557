"""The constants of `fencepost size`, measured; then runs of other sizes, which the model must foretell.

CPU seconds are those of this process and all that it has started, on one core, medians of rounds; the fixed cost of a
trigger is that of one of few rows. What others do on the machine adds little to them, but all to wall time, of which
no constant is made: the model lets the fixed work of a trigger be done in sequence. `--write` puts the constants into
the package and the tables into docs/sizing.md.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from math import exp, log2
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness import Report, console, show_missed
from benchmarks.sizing_cases import (
    SMALL,
    Case,
    Moves,
    Taken,
    bytes_below,
    jvm_memory,
    make_rules,
    memory_of,
    python_memory,
    run_bands,
    run_match,
    run_watch,
    schema_of,
    started,
)
from benchmarks.sizing_page import write_tables
from benchmarks.spark import session
from fencepost._files.whole import write_whole
from fencepost.lab.reproduce.timing import machine
from fencepost.monitor import Monitor
from fencepost.sizing import Constants, Measured, Workload, model, read_measured
from fencepost.sizing.constants import format_measured
from fencepost.sizing.model import FEW_RULES
from fencepost.spark import watch

FILE = Path(__file__).parents[1] / "src" / "fencepost" / "sizing" / "constants.json"
LOW, HIGH = 0.7, 1.3

FITTED = {
    "base": Case(10_000, 0.25),
    "rules": Case(1_000_000, 0.25),
    "events": Case(10_000, 2),
    "attributes": Case(9_000, 0.25, attributes=3),
    "key": Case(100_000, 0.25, keys=1000),
    "ranges": Case(100_000, 0.25, attributes=2, ranges=2),
    "shards": Case(10_000, 0.25, shards=2),
}
CHECKED = {
    "200,000 rules, a key": Case(200_000, 1, 100_000, keys=300),
    "3,000,000 rules": Case(3_000_000, 0.5, 20_000),
    "2 attributes": Case(50_000, 0.7, 30_000, attributes=2),
}
BENT = {
    "10 rules that always hold, inside": Case(10_000, 0.25, 20_000, 100_000, always=10),
    "1,000,000 rules that detect cross, jumps over 10": Case(1_000_000, 10, 20_000, 100_000, cross=True),
    "one object has half of the rows": Case(10_000, 0.25, 20_000, hot=0.5),
}


def net(taken: Taken, case: Case) -> float:
    """CPU seconds of a row beyond those of a trigger or query."""
    return max(taken.cpu - taken.small_cpu, 1e-9) / case.rows


def fit_rows(operator: str, taken: dict[str, Taken], told: str, cases: Mapping[str, Case]) -> dict[str, float]:
    """The constants of a row: three runs give its own part, that of the rules and that of events, others the rest."""
    lines = [[1, log2(cases[name].rules / FEW_RULES), taken[name].events] for name in ("base", "rules", "events")]
    costs = [net(taken[name], cases[name]) for name in ("base", "rules", "events")]
    row, doubling, event = np.linalg.solve(np.array(lines), np.array(costs)).tolist()
    if doubling < 0:  # noise: what rules cost is too little to be seen
        row, event = np.linalg.lstsq(np.array(lines)[:, [0, 2]], np.array(costs), rcond=None)[0].tolist()
        doubling = 0.0

    def more(name: str, known: float = 0.0) -> float:
        case = cases[name]
        expected = row + log2(case.rules / FEW_RULES) * doubling + taken[name].events * event + known
        return max(0.0, float(net(taken[name], case) - expected))

    attribute = more("attributes") / (cases["attributes"].attributes - 1)
    return {
        f"{operator}_row": row,
        f"{operator}_doubling": doubling,
        f"{operator}_{told}": event,
        f"{operator}_attribute": attribute,
        f"{operator}_key": more("key"),
        f"{operator}_range": more("ranges", attribute),
        f"{operator}_shards": more("shards"),
    }


def _for_match(case: Case, found: float) -> Case:
    """The same with more rows, since each costs less, which are in so many rules."""
    return case._replace(rows=3 * case.rows, events=found)


def touched(rows: float, buckets: int) -> float:
    """Buckets that so many rows reach."""
    return float(buckets * (1 - exp(-rows / buckets)))


def tell(what: str) -> None:
    """Progress, for whoever waits."""
    console.print(f"[dim]{time.strftime('%H:%M:%S')} {what}[/]")


# -- Spark: rows, triggers, state, shuffles ----------------------------------------------------------------


def measure_rows(spark: Any, scratch: Path, rounds: int) -> dict[str, float]:
    """Constants of rows, triggers, state and shuffles."""
    found: dict[str, float] = {}
    watched: dict[str, Taken] = {}
    matched: dict[str, Taken] = {}
    for name, case in FITTED.items():
        watched[name] = run_watch(spark, scratch / f"watch {name}", case, rounds)
        tell(f"watch, {name}: {watched[name]}")
    for name, case in FITTED.items():
        asked = _for_match(case, 10.0 if name == "events" else 1.0)
        matched[name] = run_match(spark, scratch / f"match {name}", asked, rounds)
        tell(f"match, {name}: {matched[name]}")
    found |= fit_rows("watch", watched, "event", FITTED)
    found |= fit_rows("match", matched, "found", {name: _for_match(case, 1) for name, case in FITTED.items()})
    found |= fit_triggers(spark, scratch, rounds)
    base, wide, sharded = (watched[name] for name in ("base", "attributes", "shards"))
    further = FITTED["attributes"].attributes - 1
    found["shuffled_row"] = base.shuffled
    found["shuffled_attribute"] = (wide.shuffled - base.shuffled) / further
    found["shuffled_move"] = sharded.shuffled - base.shuffled
    found["shuffled_match"] = matched["shards"].shuffled
    objects, buckets = FITTED["base"].objects, FITTED["base"].buckets
    found["state_object"] = base.written / objects
    found["state_attribute"] = (wide.written - base.written) / objects / further
    found |= fit_log(spark, scratch / "log", buckets)
    return found


def fit_triggers(spark: Any, scratch: Path, rounds: int) -> dict[str, float]:
    """What a trigger costs by itself, from runs with few and many buckets, once the JVM has compiled what it will."""
    few = FITTED["base"]._replace(rows=50_000)
    many = few._replace(buckets=256)
    costs = []
    for case in (few, many):
        taken = run_watch(spark, scratch / f"{case.buckets} buckets", case, 2 * rounds, small_warm=30)
        tell(f"{case.buckets} buckets: {taken}")
        costs.append(taken.small_cpu)
    own, other = touched(SMALL, few.buckets), touched(SMALL, many.buckets)
    bucket = max(0.0, (costs[1] - costs[0]) / (other - own))
    return {"bucket_cpu": bucket, "trigger_cpu": max(0.0, costs[0] - own * bucket)}


def start_watch(spark: Any, scratch: Path, case: Case) -> tuple[Any, Moves]:
    """A stream that has seen all objects once."""
    moves = Moves(scratch, case)
    rules = make_rules(case, 5 / case.rules, "enter,exit").compile(schema_of(case))
    told = watch(moves.stream(spark), rules, object="object", time="at", buckets=case.buckets, first="silent")
    moves.put(case.objects, 0)
    query = started(told, scratch)
    query.processAllAvailable()
    return query, moves


def written_by(spark: Any, scratch: Path, case: Case, triggers: int) -> tuple[list[int], list[int], int]:
    """Bytes of state that triggers of the case's rows write, then those of few rows; and all that lies there."""
    query, moves = start_watch(spark, scratch, case)
    grown: tuple[list[int], list[int]] = ([], [])
    for rows, sizes in ((case.rows, grown[0]), (SMALL, grown[1])):
        for _ in range(triggers):
            before = moves.state_bytes()
            moves.put(rows, 1 / case.rules)
            query.processAllAvailable()
            sizes.append(moves.state_bytes() - before)
    query.stop()
    return grown[0], grown[1], moves.state_bytes()


def fit_log(spark: Any, scratch: Path, buckets: int) -> dict[str, float]:
    """What a trigger writes for an object that it touches, and for a bucket."""
    case = Case(10_000, 1, 50_000, 5_000, buckets=buckets)
    appended, small, _ = written_by(spark, scratch, case, 6)
    tell(f"written: {appended}, {small}")
    reached = touched(SMALL, buckets)
    # Without the triggers after which buckets were written anew.
    lines = np.array([[case.rows, buckets], [SMALL, reached]])
    each, bucket = np.linalg.solve(lines, np.array([np.percentile(appended, 25), np.median(small)])).tolist()
    return {"logged_object": max(0.0, each), "logged_bucket": max(0.0, bucket)}


def measure_bands(spark: Any, scratch: Path) -> dict[str, float]:
    """The constants of bands."""
    runs = [(10, 1e-5, 60_000), (100, 1e-5, 20_000), (10, 1e-3, 30_000)]
    taken = [run_bands(spark, scratch / f"bands {number}", *run) for number, run in enumerate(runs)]
    tell(f"bands: {taken}")
    lines = [[1, groups, each.events] for (groups, _, _), each in zip(runs, taken, strict=True)]
    row, group, event = np.linalg.solve(np.array(lines), np.array([each.row for each in taken])).tolist()
    return {
        "bands_row": max(0.0, row),
        "bands_group": max(0.0, group),
        "bands_event": max(0.0, event),
        "state_bands_row": taken[0].state,
    }


# -- one process: snapshots, events, publishing ------------------------------------------------------------


def measure_snapshots(scratch: Path) -> dict[str, float]:
    """Bytes of rules on disk, and of events."""
    sizes = {
        name: published_bytes(scratch / name, case)
        for name, case in {
            "plain": Case(300_000, 1),
            "boxes": Case(300_000, 1, attributes=2, ranges=2),
            "few keys": Case(300_000, 1, keys=3_000),
            "many keys": Case(300_000, 1, keys=30_000),
        }.items()
    }
    tell(f"snapshots: {sizes}")
    key = max(0.0, (sizes["many keys"] - sizes["few keys"]) / 27_000)
    rule = max(sizes["plain"], sizes["few keys"] - 3_000 * key) / 300_000
    monitor = Monitor(make_rules(Case(1000, 1), 0.01, "enter,exit"), object="object", time="at")
    rng = np.random.default_rng(1)
    rows = {"object": np.arange(20_000) % 1000, "at": np.arange(20_000), "x0": rng.random(20_000)}
    events = monitor.update(pa.table(rows))
    return {
        "snapshot_rule": rule,
        "snapshot_range": (sizes["boxes"] - sizes["plain"]) / 300_000,
        "snapshot_key": key,
        "event_bytes": events.nbytes / events.num_rows,
    }


def published_bytes(folder: Path, case: Case) -> int:
    """Bytes of the first version."""
    make_rules(case, 5 / case.rules, "enter,exit").publish(folder, schema_of(case))
    return bytes_below(folder)


def publish_here(count: int) -> dict[str, float]:
    """In a process of its own: CPU seconds to publish so many rules, and bytes of them at the peak."""
    with tempfile.TemporaryDirectory() as name:
        published_bytes(Path(name, "warm"), Case(1000, 1))
        before = memory_of(os.getpid())["VmRSS"]
        rules = make_rules(Case(count, 1), 5 / count, "enter,exit")
        begin = time.process_time()
        rules.publish(Path(name, "rules"), {"x0": "double"})
        spent = time.process_time() - begin
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": spent, "bytes": peak - before}


def memory_here(rules: int, objects: int, rows: int) -> dict[str, float]:
    """In a process of its own: bytes of Python workers and of the JVM after triggers of all objects and of rows."""
    case = Case(rules, 0.25, objects, rows)
    with tempfile.TemporaryDirectory() as name:
        spark = session(Path(name))
        query, moves = start_watch(spark, Path(name, "run"), case)
        moves.put(rows, 1 / rules)
        query.processAllAvailable()
        told = {"python": float(python_memory()), "jvm": jvm_memory(spark)}
        query.stop()
        spark.stop()
    return told


def apart(*words: object) -> dict[str, float]:
    """What this program prints in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sizing", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    tell(f"{' '.join(map(str, words))}: {found}")
    return found


def measure_memory() -> dict[str, float]:
    """Bytes of workers, by rules, objects and rows; what publishing takes."""
    few, many = 10_000, 400_000
    sizes = [(few, few, few), (1_000_000, few, few), (few, few, many), (few, many, many)]
    found = [apart("--memory", *size) for size in sizes]
    lines = [[1, rules, objects, max(rows, objects)] for rules, objects, rows in sizes]
    core, rule, each, row = np.linalg.solve(np.array(lines), [one["python"] for one in found]).tolist()
    published = apart("--publish", 1_000_000)
    return {
        "python_core": core,
        "python_rule": max(0.0, rule),
        "python_object": max(0.0, each),
        "python_row": max(0.0, row),
        "jvm": float(np.median([one["jvm"] for one in found])),
        "publish_rule": published["seconds"] / 1_000_000,
        "publish_memory": max(0.0, published["bytes"] / 1_000_000),
    }


# -- the model against other runs --------------------------------------------------------------------------


def compare(report: Report, what: str, predicted: float, measured: float) -> None:
    """A line: predicted over measured, with both."""
    shown = (f"{value:,.0f}" if value >= 100 else f"{value:.2f}" for value in (predicted, measured))
    report.within(f"{what}: {' / '.join(shown)}", predicted / measured, LOW, HIGH)


def check_rows(spark: Any, scratch: Path, constants: Constants, rounds: int, report: Report) -> None:
    """Runs of match and watch at sizes that no constant was fitted to."""
    for name, case in (CHECKED | BENT).items():
        taken = run_watch(spark, scratch / f"check {name}", case, rounds)
        tell(f"check, {name}: {taken}")
        asked = taken.workload(case, "watch")
        predicted = model.row_seconds(asked, constants) * case.rows
        compare(report, f"watch, {name}, CPU s of {case.rows:,} rows", predicted, taken.cpu - taken.small_cpu)
        if name in BENT:
            continue
        compare(
            report, f"watch, {name}, bytes shuffled per row", model.shuffled_bytes(asked, constants), taken.shuffled
        )
        whole = model.written_bytes(asked, constants, case.objects, case.buckets, case.rows)
        compare(report, f"watch, {name}, bytes written", whole, taken.written)
    for name, case in CHECKED.items():
        more = _for_match(case, 3 * case.events)
        taken = run_match(spark, scratch / f"check match {name}", more, rounds)
        tell(f"check, match, {name}: {taken}")
        predicted = model.row_seconds(taken.workload(more, "match"), constants) * more.rows
        compare(report, f"match, {name}, CPU s of {more.rows:,} rows", predicted, taken.cpu - taken.small_cpu)
    check_log(spark, scratch / "check log", constants, report)


def check_log(spark: Any, scratch: Path, constants: Constants, report: Report, triggers: int = 12) -> None:
    """What triggers write that touch a part of the objects, and what the checkpoint has then."""
    case = Case(20_000, 1, 100_000, 5_000, buckets=64)
    grown, _, held = written_by(spark, scratch, case, triggers)
    asked = Workload(case.rules, 1, case.objects)
    many, few = (model.written_bytes(asked, constants, case.objects, case.buckets, rows) for rows in (case.rows, SMALL))
    compare(report, "bytes written by 5,000 of 100,000 objects", many, float(np.mean(grown)))
    kept = model.checkpoint_bytes(asked, constants, case.objects, triggers * (many + few))
    compare(report, f"bytes in the checkpoint after {2 * triggers} triggers", kept, held)


def check_bands(spark: Any, scratch: Path, constants: Constants, report: Report) -> None:
    """A run of bands around another number of differences, with other steps."""
    taken = run_bands(spark, scratch / "check bands", 40, 3e-4, 20_000)
    tell(f"check, bands: {taken}")
    asked = Workload(10_000, 1, 20_000, taken.events, "bands", groups=40)
    compare(report, "bands, 40 groups, CPU us of a row", 1e6 * model.row_seconds(asked, constants), 1e6 * taken.row)


def check_snapshots(scratch: Path, constants: Constants, report: Report) -> None:
    """Bytes of more rules."""
    case = Case(1_000_000, 1, keys=10_000)
    predicted = model.snapshot_bytes(Workload(case.rules, 1, keys=case.keys), constants)
    compare(report, "bytes of 1,000,000 rules with 10,000 keys", predicted, published_bytes(scratch / "snapshot", case))


def check_memory(constants: Constants, report: Report) -> None:
    """Workers with another number of everything, and more rules to publish."""
    size = (300_000, 200_000, 200_000)
    predicted = model.python_bytes(Workload(size[0], 1), constants, *size)
    compare(report, "bytes of Python workers", predicted, apart("--memory", *size)["python"])
    found = apart("--publish", 3_000_000)
    compare(report, "CPU s to publish 3,000,000 rules", 3e6 * constants.publish_rule, found["seconds"])
    compare(report, "bytes to publish 3,000,000 rules", 3e6 * constants.publish_memory, found["bytes"])


MEASURES: Mapping[str, Callable[[Any, Path, int], dict[str, float]]] = {
    "snapshots": lambda _, scratch, __: measure_snapshots(scratch / "published"),
    "rows": measure_rows,
    "bands": lambda spark, scratch, _: measure_bands(spark, scratch),
    "memory": lambda *_: measure_memory(),
}
SUBJECTS = tuple(MEASURES)


def run(subjects: Sequence[str], full: bool, write: bool, measure: bool = True) -> Report:
    """Measure the subjects, write if asked to, and check; constants of other subjects stay as they are."""
    rounds = 5 if full else 3
    found = read_measured().constants._asdict() if FILE.exists() else {}
    report = Report("size: predicted over measured")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        spark = session(scratch) if {"rows", "bands"} & set(subjects) else None
        if "rows" in subjects:
            tell("warming up")
            run_watch(spark, scratch / "warm", FITTED["base"], rounds=1, warm=10)
            run_match(spark, scratch / "warm match", _for_match(FITTED["base"], 1), rounds=1, warm=6)
        for subject in subjects if measure else ():
            found |= MEASURES[subject](spark, scratch, rounds)
        constants = Constants(**found)
        text = format_measured(Measured(constants, machine() | {"pyspark": version("pyspark")}))
        if write and measure:
            write_whole(FILE, text)
            tell(text)
        if "rows" in subjects:
            check_rows(spark, scratch, constants, rounds, report)
        if "bands" in subjects:
            check_bands(spark, scratch, constants, report)
        if spark is not None:
            spark.stop()
        if "snapshots" in subjects:
            check_snapshots(scratch, constants, report)
        if "memory" in subjects:
            check_memory(constants, report)
    if write:
        write_tables(report, whole=set(subjects) == set(SUBJECTS))
    return report


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=__doc__)
    parser.add_argument("subjects", nargs="*", help=f"of {', '.join(SUBJECTS)}; default: all")
    parser.add_argument("--full", action="store_true", help="more rounds")
    parser.add_argument("--check", action="store_true", help="measure no constants, check those of the package")
    parser.add_argument("--write", action="store_true", help="put the constants into the package, the tables into docs")
    parser.add_argument("--memory", nargs=3, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--publish", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory or given.publish:
        print(json.dumps(memory_here(*given.memory) if given.memory else publish_here(given.publish)))
        return
    wrong = set(given.subjects) - set(SUBJECTS)
    if wrong:
        parser.error(f"got {', '.join(sorted(wrong))}; expected any of {', '.join(SUBJECTS)}")
    report = run(given.subjects or SUBJECTS, given.full, given.write, not given.check)
    report.show()
    show_missed([report])


if __name__ == "__main__":
    main()
