"""A long run: python -m tests.spark.soak --triggers 1000, for another operator --operator bands.

Rules and objects come and go, the program is killed at random moments, the sink is slow. In the end the answers must
equal a recomputation from what the checkpoint has recorded, and memory, state and checkpoint must be flat.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress

import fencepost as fp
from fencepost.published import VersionDirectory
from tests.spark import test_bands, test_damped, test_watch
from tests.spark.record import recorded_batches
from tests.spark.test_watch import DETECT, EPOCH

ROOT = Path(__file__).parents[2]
TIMEOUT = timedelta(seconds=600)
_ROWS = 150
_SECONDS = _ROWS // 3
"""That the rows of one file take."""
_GROWTH = 1.5
"""So much larger may the last quarter of the run be than the second one."""


class Sample(NamedTuple):
    """What the watching program takes at one moment."""

    memory: int
    state: int
    checkpoint: int
    """Without what file sources note of every file they have ever seen, which only grows."""


class Soak:
    """One run of watch.

    Args:
        path: an empty directory.
        triggers: how many micro-batches with rows there shall be.
        kills: how often the program is killed.
        seed: of all chance.
    """

    operator = "watch"
    sources: tuple[str, ...] = ("in",)
    """The folders that files of rows come into."""

    def __init__(self, path: Path, triggers: int, kills: int, seed: int = 5) -> None:
        self.path, self.triggers = path, triggers
        self._rng = random.Random(seed)  # noqa: S311
        self._most_starts = kills + 3
        self._kill_after = sorted(self._rng.sample(range(1, max(triggers - 1, kills + 2)), kills))
        self._rules = self.first_rules()
        self._rules.publish(path / "published")
        self._directory = VersionDirectory(path / "published")
        self._parts: dict[str, list[pa.Table]] = {}
        """By the name of a file: its rows in the folder of each source."""
        self._next_rule = 1_000
        self._program: subprocess.Popen[bytes] | None = None
        self.samples: list[Sample] = []
        self.started = 0
        self.noted = 0
        """Bytes of the file sources' notes."""
        for folder in (*self.sources, "offsets"):
            (path / folder).mkdir()

    def run(self, progress: Progress) -> None:
        """Feed, change, kill, until everything is taken."""
        task = progress.add_task("triggers", total=self.triggers)
        self._put()
        try:
            while self.done() < self.triggers:
                if self._program is None or self._program.poll() is not None:
                    assert self.started <= self._most_starts, self.last_words()
                    self._start()
                # One file ahead, so that every micro-batch has one and none waits.
                while len(self._parts) < min(self.done() + 2, self.triggers):
                    self._put()
                self._record()
                progress.update(task, completed=self.done())
                if self._kill_after and self.done() >= self._kill_after[0]:
                    self._kill_after.pop(0)
                    time.sleep(self._rng.random() * 0.5)
                    self._kill()
                time.sleep(0.05)
        finally:
            self._kill()

    def done(self) -> int:
        """Files that are through, of the source that has the fewest."""
        taken = [json.loads(file.read_text()) for file in (self.path / "out").glob("*/files")]
        return min(map(sum, zip(*taken, strict=True))) if taken else 0

    def events(self) -> list[str]:
        """All answers that were given: the ids of events."""
        return [id for table in self.written() for id in table["event_id"].to_pylist()]

    def written(self) -> list[pa.Table]:
        """What micro-batches have written."""
        return [pq.read_table(file) for file in (self.path / "out").glob("*/events.parquet")]

    # -- what an operator has of its own -------------------------------------------------------------------

    def first_rules(self) -> fp.Rules:
        """The rules of the first version."""
        return test_watch.rules_of(8, detect=DETECT)

    def new_conditions(self) -> tuple[str, str]:
        """Of a rule that is added, and of one that is edited."""
        return f"x > {self._rng.randrange(8)}", f"y < {self._rng.randrange(1, 9)}"

    def new_options(self) -> dict[str, Any]:
        """Of such a rule."""
        return {"detect": DETECT}

    def rows(self, number: int) -> list[pa.Table]:
        """The rows of a file, for each source."""
        return [_renamed(test_watch.traffic(_ROWS, number, start=number * _SECONDS), number)]

    def monitor(self, snapshot: fp.Snapshot) -> fp.Monitor:
        """Does in one process what the program does."""
        return fp.Monitor(snapshot, object="vehicle", time="ts", sequence="seq", timeout=TIMEOUT)

    def update(self, monitor: fp.Monitor, tables: list[pa.Table]) -> pa.Table:
        """Give it the rows of each source."""
        return monitor.update(tables[0])

    def recomputed(self) -> list[str]:
        """The ids of all events, by a Monitor that takes what each micro-batch took, as the checkpoint has it."""
        monitor, found, count = None, [], len(self.sources)
        for *files, markers in recorded_batches(self.path / "checkpoint", count + 1, self.path / "offsets"):
            versions = [int(name.split(".")[0]) for name in markers if name.endswith(".version")]
            clocks = [int(name.split(".")[0]) for name in markers if name.endswith(".clock")]
            if versions:
                snapshot = self._directory.load(max(versions))
                if monitor is None:
                    monitor = self.monitor(snapshot)
                else:
                    found.append(monitor.follow(snapshot))
            assert monitor is not None, "the first micro-batch has a marker"
            if clocks and monitor.counters["rows"]:
                now = EPOCH + timedelta(microseconds=max(clocks) - int(EPOCH.timestamp() * 1e6))
                found.append(monitor.advance(now))
            if any(files):
                found.append(self.update(monitor, [self.taken(source, names) for source, names in enumerate(files)]))
        return [id for events in found for id in events["event_id"].to_pylist()]

    def taken(self, source: int, names: list[str]) -> pa.Table:
        """The rows of files of one source."""
        first = next(iter(self._parts.values()))[source]
        return pa.concat_tables([first.slice(0, 0), *(self._parts[name][source] for name in names)])

    def growth(self) -> dict[str, float]:
        """How much more the last quarter takes than the second one, by what it is."""
        quarter = len(self.samples) // 4
        parts = self.samples[quarter : 2 * quarter], self.samples[-quarter:]
        second, last = ([sorted(column)[len(part) // 2] for column in zip(*part, strict=True)] for part in parts)
        return {name: late / early for name, early, late in zip(Sample._fields, second, last, strict=True)}

    def last_words(self) -> str:
        """The end of the program's log."""
        return (self.path / "log").read_text(errors="replace")[-3_000:]

    # -- what happens --------------------------------------------------------------------------------------

    def _put(self) -> None:
        number = len(self._parts)
        if number % 5 == 4:
            self._change_rules()
        if number % 7 == 6:
            self._directory.tick(EPOCH + timedelta(seconds=number * _SECONDS))
        tables, name = self.rows(number), f"{number:06}.parquet"
        self._parts[name] = tables
        for source, table in zip(self.sources, tables, strict=True):
            pq.write_table(table, self.path / source / f".{name}")
            (self.path / source / f".{name}").rename(self.path / source / name)

    def _change_rules(self) -> None:
        known = [rule.id for rule in self._rules]
        self._rules.remove(self._rng.choice(known))
        added, changed = self.new_conditions()
        self._rules.add(self._next_rule, added, initial=True, **self.new_options())
        edited = self._rng.choice([rule.id for rule in self._rules])
        self._rules.replace(edited, changed, enabled=self._rng.random() < 0.8, **self.new_options())
        self._next_rule += 1
        self._rules.publish(self.path / "published")

    def _start(self) -> None:
        self.started += 1
        cores = str(self._rng.choice([1, 2]))
        command = [sys.executable, "-m", "tests.spark.soak", "--run", str(self.path), "--cores", cores]
        with (self.path / "log").open("ab") as log:
            self._program = subprocess.Popen(  # noqa: S603
                [*command, "--operator", self.operator], stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )

    def _kill(self) -> None:
        if self._program is not None and self._program.poll() is None:
            os.killpg(self._program.pid, signal.SIGKILL)
            self._program.wait()
        self._program = None

    def _record(self) -> None:
        """Keep what Spark deletes after a hundred micro-batches, and see what the program takes."""
        for file in (self.path / "checkpoint" / "offsets").glob("[0-9]*"):
            kept = self.path / "offsets" / file.name
            if not kept.exists():
                shutil.copy(file, kept)
        if self.done() > len(self.samples) and self._program is not None:
            whole, state, self.noted = (
                _bytes_below(self.path / "checkpoint" / part) for part in ("", "state", "sources")
            )
            self.samples.append(Sample(_memory(self._program.pid), state, whole - self.noted))


class DampedSoak(Soak):
    """One run of watch with rules that wait, so that kills meet pairs that are pending."""

    def first_rules(self) -> fp.Rules:
        return test_damped.damped_rules(8)

    def new_conditions(self) -> tuple[str, str]:
        return f"x > {self._rng.randrange(8)}", f"x < {self._rng.randrange(1, 9)}"

    def new_options(self) -> dict[str, Any]:
        length = f"{self._rng.randrange(1, 90)} seconds"
        return {"detect": "enter,exit,inside", self._rng.choice(["for_", "keep_firing_for", "cooldown"]): length}


class BandSoak(Soak):
    """One run of bands."""

    operator, sources = "bands", ("left", "right")

    def first_rules(self) -> fp.Rules:
        return test_bands.rules_of(8)

    def new_conditions(self) -> tuple[str, str]:
        low = self._rng.randrange(-8, 8) / 2
        by_kind = self._rng.choice(["", " AND left.kind = 'bid'", " AND right.kind = 'ask'"])
        return f"left.price - right.price > {low}", f"left.price - right.price BETWEEN {low} AND {low + 1}{by_kind}"

    def rows(self, number: int) -> list[pa.Table]:
        start = number * _SECONDS
        return [_renamed(test_bands.quotes(_ROWS, 2 * number + side, start=start), number) for side in range(2)]

    def monitor(self, snapshot: fp.Snapshot) -> fp.Monitor:
        return test_bands.monitor_of(snapshot, timeout=TIMEOUT, schema=self._directory.schema())

    def update(self, monitor: fp.Monitor, tables: list[pa.Table]) -> pa.Table:
        return monitor.update(left=tables[0], right=tables[1])


class MatchSoak(Soak):
    """One run of match, which keeps no state: each row once, with the rules of the version that was claimed for it."""

    operator = "match"

    def events(self) -> list[str]:
        """All answers that were given: the number of each row and its rules."""
        rows = [row for table in self.written() for row in table.to_pylist()]
        return [f"{row['seq']} {sorted(row['rule_ids'])}" for row in rows]

    def recomputed(self) -> list[str]:
        """The same, from the files and the version that each micro-batch took."""
        query = json.loads((self.path / "checkpoint" / "metadata").read_text())["id"]
        found, last = [], 0
        for number, (names,) in enumerate(recorded_batches(self.path / "checkpoint", 1, self.path / "offsets")):
            claim = json.loads((self.path / "published" / "claims" / query / f"{number:08}").read_text())
            assert claim["version"] >= last, "versions only grow"
            last, rows = claim["version"], self.taken(0, names)
            sets = self._directory.load(last).match(rows).sets()
            found += [f"{seq} {sorted(ids)}" for seq, ids in zip(rows["seq"].to_pylist(), sets, strict=True)]
        return found


SOAKS: dict[str, type[Soak]] = {
    **{soak.operator: soak for soak in (Soak, BandSoak, MatchSoak)},
    "damped": DampedSoak,
}
"""By the name of the operator; rules that wait are a run of watch."""


def _renamed(table: pa.Table, number: int) -> pa.Table:
    """Objects come and go: after thirty files all of them are others."""
    named = [name and f"{name}-{(number + int(name[1:]) * 3) // 30}" for name in table[0].to_pylist()]
    return table.set_column(0, table.column_names[0], pa.array(named, pa.string()))


def _bytes_below(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return total


def _memory(group: int) -> int:
    """Bytes that the processes of a group have in memory; what they share counts once for each."""
    total = 0
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getpgid(int(process)) == group:
                total += int(Path("/proc", process, "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ProcessLookupError):
            continue
    return total


def run_until_killed(path: Path, operator: str, cores: str) -> None:
    """The program that is killed: writes the answers of each micro-batch to a directory of its own, slowly."""
    from fencepost.spark import bands, match, tune, watch
    from tests.spark.watcher import session

    spark = session(cores)
    tune(spark)
    schema = test_bands.SCHEMA if operator == "bands" else test_watch.SCHEMA
    published, folders = path / "published", SOAKS[operator].sources
    sources = [
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{path}/{folder}")
        for folder in folders
    ]
    kept: Any = {"buckets": 4, "timeout": TIMEOUT, "observe": operator}
    if operator == "bands":
        events = bands(sources[0], sources[1], published, **test_bands.NAMED, **kept)
    elif operator == "match":
        events = match(sources[0], published, observe=operator)
    else:
        events = watch(sources[0], published, object="vehicle", time="ts", sequence="seq", **kept)
    rng = random.Random()  # noqa: S311

    def write(batch: Any, number: int) -> None:
        table = batch.toArrow()
        time.sleep(rng.random() * 0.2)
        draft = path / "drafts" / str(number)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        pq.write_table(table, draft / "events.parquet")
        (draft / "files").write_text(json.dumps(_files_taken(path, number, len(folders))))
        target = path / "out" / str(number)
        shutil.rmtree(target, ignore_errors=True)  # a repeated micro-batch replaces what it wrote
        target.parent.mkdir(exist_ok=True)
        draft.rename(target)

    writer = events.writeStream.foreachBatch(write).option("checkpointLocation", f"{path}/checkpoint")
    writer.start().awaitTermination()


def _files_taken(path: Path, number: int, sources: int) -> list[int]:
    """How many files a micro-batch took of each source: none if it has only markers, two where a kill left one."""

    def offsets(batch: int) -> list[int]:
        file = path / "checkpoint" / "offsets" / str(batch)
        lines = file.read_text().splitlines()[2 : 2 + sources] if file.exists() else ["-"] * sources
        return [-1 if line == "-" else int(json.loads(line)["logOffset"]) for line in lines]

    return [now - before for now, before in zip(offsets(number), offsets(number - 1), strict=True)]


def main() -> int:
    """Run it, and say what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.soak", description=__doc__)
    parser.add_argument("--triggers", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--operator", choices=SOAKS, default="watch")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cores", default="2", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run is not None:
        run_until_killed(given.run, given.operator, given.cores)
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="fencepost-soak-") as name, Progress(console=console) as progress:
        soak = SOAKS[given.operator](Path(name), given.triggers, given.kills)
        soak.run(progress)
        told, expected, growth = soak.events(), soak.recomputed(), soak.growth()
        last = soak.samples[-1]
    same = Counter(told) == Counter(expected)
    console.print(
        f"{given.triggers:,} triggers, {given.kills} kills, {soak.started} starts: {len(told):,} events, "
        f"{'each told once, as recomputed' if same else f'but {len(expected):,} recomputed'}.\n"
        f"In the end {last.memory / 1e6:,.0f} MB of memory, {last.state / 1e3:,.0f} KB of state, "
        f"{last.checkpoint / 1e3:,.0f} KB of checkpoint; the last quarter against the second: "
        + ", ".join(f"{what} {ratio:.2f}x" for what, ratio in growth.items())
        + f". Spark's file sources note what they have seen: {soak.noted / given.triggers:,.0f} bytes per file."
    )
    return 0 if same and max(growth.values()) <= _GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
