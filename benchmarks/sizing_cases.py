"""Runs of any size on one core, whose CPU time, bytes and events `benchmarks.sizing` fits its constants to."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark_bands import SYMBOLS, Quoted, hotspot_rules
from fencepost.lab.reproduce.spark_plans import frames, write
from fencepost.lab.reproduce.timing import cpu_of
from fencepost.rules import Rules
from fencepost.sizing import Workload
from fencepost.spark import match, watch

Floats = npt.NDArray[np.float64]

ROUNDS = 3
SMALL = 200
"""Rows of a trigger whose cost is not that of its rows."""


class Case(NamedTuple):
    """What is run: the fields are those of `fencepost.sizing.Workload`; rules of two ranges need two attributes."""

    rules: int
    events: float
    objects: int = 50_000
    rows: int = 600_000
    keys: int = 0
    attributes: int = 1
    ranges: int = 1
    shards: int | None = None
    buckets: int = 32
    always: int = 0
    cross: bool = False
    hot: float = 0.0
    """The share of rows that one object has."""


class Taken(NamedTuple):
    """What a run took, medians of rounds."""

    cpu: float
    """Seconds of the large trigger, or query."""
    small_cpu: float
    """Of a trigger of few rows, or of the query on one row."""
    events: float
    """Per row of the large trigger."""
    shuffled: float
    """Bytes per row."""
    state: float = 0.0
    """Bytes of the state right after all objects came."""
    written: float = 0.0
    """Bytes of state that the large trigger wrote."""
    small_written: float = 0.0

    def workload(self, case: Case, operator: Any) -> Workload:
        """What the model is asked about: the case, with the events that there really were."""
        return Workload(
            case.rules,
            1.0,
            case.objects,
            self.events,
            operator,
            keys=case.keys,
            ranges=case.ranges,
            attributes=case.attributes,
        )


# -- rules and rows ----------------------------------------------------------------------------------------


def columns_of(case: Case) -> list[str]:
    """The numbers that a row carries."""
    return [f"x{number}" for number in range(case.attributes)]


def sides_of(case: Case) -> float:
    """How long the range of a rule is, for a value to be in as many as `events` says where that is matches."""
    among = case.rules / max(1, case.keys)
    return float((case.events / among) ** (1 / case.ranges))


def make_rules(case: Case, side: float, detect: str) -> Rules:
    """Ranges of the columns in turn, or boxes of all of them; of keys in turn."""
    rng = np.random.default_rng(3)
    names, rules = columns_of(case), Rules()
    ids = np.arange(case.rules)
    for place in range(case.attributes if case.ranges == 1 else 1):
        bounded = names[place : place + case.ranges]
        own = ids[place :: case.attributes] if case.ranges == 1 else ids
        table: dict[str, Any] = {"rule_id": own}
        for name in bounded:
            lower = rng.random(len(own))
            table |= {f"{name}_from": lower, f"{name}_to": lower + rng.exponential(side, len(own))}
        arguments: dict[str, Any] = {"ranges": {name: (f"{name}_from", f"{name}_to") for name in bounded}}
        if case.keys:
            table["symbol"] = symbols(own % case.keys)
            arguments["equal"] = ["symbol"]
        rules.add_table(pa.table(table), detect=detect, **arguments)
    for number in range(case.always):
        rules.add(case.rules + number, "x0 >= -1", detect="inside")
    return rules


def symbols(numbers: npt.NDArray[np.int64]) -> Any:
    """Keys as texts."""
    return pa.array([f"SYM{number:06d}" for number in range(int(numbers.max()) + 1)]).take(pa.array(numbers))


def schema_of(case: Case) -> dict[str, str]:
    """The columns that rules use."""
    return ({"symbol": "string"} if case.keys else {}) | dict.fromkeys(columns_of(case), "double")


class Moves:
    """Files of moves, one per trigger."""

    def __init__(self, path: Path, case: Case) -> None:
        self.path, self._case, self._files = path, case, 0
        self._rng = np.random.default_rng(7)
        self._places: Floats = self._rng.random((len(columns_of(case)), case.objects))
        (path / "in").mkdir(parents=True)

    def put(self, rows: int, step: float) -> None:
        """A file whose rows move their objects by about a step, in every column that rules are spread over."""
        case = self._case
        objects = np.resize(self._rng.permutation(case.objects), rows)
        if case.hot:
            objects[: int(case.hot * rows)] = 0
            self._rng.shuffle(objects)
        table: dict[str, Any] = {"object": objects, "at": self._files * 10**9 + np.arange(rows)}
        if case.keys:
            table["symbol"] = symbols(objects % case.keys)
        for place, name in enumerate(columns_of(case)):
            moves = self._rng.uniform(-2, 2, rows) * step
            table[name] = np.clip(self._places[place][objects] + moves, 0, 1)
            self._places[place][objects] = table[name]
        draft = self.path / "in" / f".{self._files}"
        pq.write_table(pa.table(table), draft)
        draft.rename(self.path / "in" / f"{self._files}.parquet")
        self._files += 1

    def stream(self, spark: Any) -> Any:
        """The moves, a file per trigger."""
        declared = ", ".join(f"{name} {kind}" for name, kind in schema_of(self._case).items())
        source = spark.readStream.schema(f"object bigint, at bigint, {declared}")
        return source.option("maxFilesPerTrigger", 1).parquet(f"{self.path}/in")

    def state_bytes(self) -> int:
        """Bytes below the state store's directory."""
        return bytes_below(self.path / "checkpoint" / "state")


def bytes_below(folder: Path) -> int:
    """Of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# -- what Spark shuffles -----------------------------------------------------------------------------------


def shuffled_so_far(spark: Any) -> int:
    """Bytes that stages have written to shuffles."""
    store = spark.sparkContext._jsc.sc().statusStore()
    empty = spark.sparkContext._jvm.java.util.ArrayList()
    quantiles = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.double, 0)
    stages = store.stageList(None, False, False, quantiles, empty)
    return sum(stages.apply(number).shuffleWriteBytes() for number in range(stages.size()))


# -- the operators -----------------------------------------------------------------------------------------


def run_watch(spark: Any, scratch: Path, case: Case, rounds: int = ROUNDS, warm: int = 1, small_warm: int = 0) -> Taken:
    """A stream of watch: triggers of all rows in turn with triggers of few; some of both before anything is timed."""
    among = case.rules / max(1, case.keys)
    side = float((5 / among) ** (1 / case.ranges))
    # Of boxes with two ranges a move along one side meets only those that it is level with.
    step = case.events / (2 * among * case.ranges * side ** (case.ranges - 1))
    if case.cross:  # which is told of rules that lie between the ends of a move
        side, step = 0.01 / among, case.events / among
    rules: Any = make_rules(case, side, "cross" if case.cross else "enter,exit")
    moves = Moves(scratch, case)
    if case.shards is None:
        rules = rules.compile(schema_of(case))
    named: dict[str, Any] = {"buckets": case.buckets, "shards": case.shards, "observe": "watch", "first": "silent"}
    told = watch(moves.stream(spark), rules, object="object", time="at", **named)
    moves.put(case.objects, 0)
    query = started(told, scratch)
    query.processAllAvailable()
    state = moves.state_bytes()
    for rows in [case.rows, SMALL] * warm + [SMALL] * small_warm:
        moves.put(rows, step)
        query.processAllAvailable()
    large: list[float] = []
    small: list[float] = []
    written: list[int] = []
    small_written: list[int] = []
    shuffled = 0
    for _ in range(rounds):
        for rows, taken, grown in ((case.rows, large, written), *[(SMALL, small, small_written)] * 2):
            moves.put(rows, step)
            before, sent = moves.state_bytes(), shuffled_so_far(spark)
            taken.append(cpu_of(query.processAllAvailable))
            grown.append(moves.state_bytes() - before)
            if rows == case.rows:
                shuffled = shuffled_so_far(spark) - sent
    reports = [each for each in query.recentProgress if each["numInputRows"]]
    query.stop()
    whole = [each for each in reports if each["numInputRows"] == case.rows][-rounds:]
    kinds = ("enter", "exit", "cross", "inside")
    counted = [sum(each["observedMetrics"]["watch"][kind] or 0 for kind in kinds) for each in whole]
    return Taken(
        float(np.median(large)),
        float(np.median(small)),
        float(np.median(counted)) / case.rows,
        shuffled / case.rows,
        state,
        float(np.median(written)),
        float(np.median(small_written)),
    )


def started(told: Any, scratch: Path) -> Any:
    """A query that keeps nothing of what comes out, and looks for files five times a second."""
    writer = told.writeStream.option("checkpointLocation", str(scratch / "checkpoint"))
    return writer.format("noop").trigger(processingTime="200 milliseconds").start()


def run_match(spark: Any, scratch: Path, case: Case, rounds: int = ROUNDS, warm: int = 1) -> Taken:
    """A query of match on all rows, in turn with the same on one row."""
    scratch.mkdir(parents=True)
    rng = np.random.default_rng(5)
    table: dict[str, Any] = {"id": np.arange(case.rows)}
    if case.keys:
        table["symbol"] = symbols(rng.integers(0, case.keys, case.rows))
    table |= {name: rng.random(case.rows) for name in columns_of(case)}
    rows = pa.table(table)
    full, one = frames(spark, rows, scratch / "rows")
    rules: Any = make_rules(case, sides_of(case), "inside")
    found = rules.compile(schema_of(case)).match(rows)
    if case.shards is None:
        rules = rules.compile(schema_of(case))
    large, small = (partial(write, match(frame, rules, shards=case.shards)) for frame in (full, one))
    for _ in range(warm):
        large()
        small()
    sent = shuffled_so_far(spark)
    large()
    shuffled = shuffled_so_far(spark) - sent
    taken = [(cpu_of(large), cpu_of(small)) for _ in range(rounds)]
    cpu, small_cpu = np.median(taken, axis=0).tolist()
    return Taken(cpu, small_cpu, len(found.ids) / case.rows, shuffled / case.rows)


class BandsTaken(NamedTuple):
    """What a run of bands took."""

    row: float
    """CPU seconds of a row, without the fixed cost of a trigger."""
    events: float
    """Per row."""
    state: float
    """Bytes per row that is kept."""


def run_bands(
    spark: Any, scratch: Path, groups: int, step: float, updates: int, rules: int = 10_000, rows: int = 5_000
) -> BandsTaken:
    """A stream of bands around so many differences, whose rows move by about a step."""
    quoted = Quoted(scratch, rows)
    quoted.put(2 * rows * len(SYMBOLS), 0)
    query = quoted.start(spark, hotspot_rules(rules, groups))
    query.processAllAvailable()
    state = quoted.state_bytes() / (2 * rows * len(SYMBOLS))
    large: list[float] = []
    small: list[float] = []
    for _ in range(1 + ROUNDS):
        for amount, taken in ((SMALL, small), (updates, large)):
            quoted.put(amount, step)
            taken.append(cpu_of(query.processAllAvailable))
    last = [each for each in query.recentProgress if each["numInputRows"] >= updates][-1]["observedMetrics"]["bands"]
    query.stop()
    net = float(np.median(large[1:])) - float(np.median(small[1:]))
    return BandsTaken(net / updates, (last["enter"] + last["exit"]) / updates, state)


# -- memory ------------------------------------------------------------------------------------------------


def descendants(of: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", process, "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(process))
    waiting = [of]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting += found


def memory_of(process: int) -> dict[str, int]:
    """Bytes by the names of /proc/PID/status: VmHWM, RssFile and so on."""
    lines = Path("/proc", str(process), "status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}


def python_memory() -> int:
    """Bytes that the Python workers below this process had at most, without the files that they have mapped."""
    total = 0
    for process in descendants(os.getpid()):
        command = Path("/proc", str(process), "cmdline").read_bytes()
        if b"pyspark" in command and b"java" not in command.split(b"\0")[0]:
            found = memory_of(process)
            total += found["VmHWM"] - found["RssFile"]
    return total


def jvm_memory(spark: Any) -> float:
    """Bytes: twice what lives in the heap, and what is outside of it."""
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    spark.sparkContext._jvm.java.lang.System.gc()
    live, committed = runtime.totalMemory() - runtime.freeMemory(), runtime.totalMemory()
    [java] = [
        process
        for process in descendants(os.getpid())
        if b"java" in Path("/proc", str(process), "cmdline").read_bytes().split(b"\0")[0]
    ]
    return float(2 * live + max(0, memory_of(java)["VmRSS"] - committed))
