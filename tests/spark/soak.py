"""A long run: python -m tests.spark.soak --triggers 1000.

Rules and objects come and go, the watching program is killed at random moments, the sink is slow. In the end the
events must equal a recomputation from what the checkpoint has recorded, and memory, state and checkpoint must be flat.
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
from tests.spark.record import recorded_batches
from tests.spark.test_watch import DETECT, EPOCH, rules_of, traffic

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
    """One run.

    Args:
        path: an empty directory.
        triggers: how many micro-batches with rows there shall be.
        kills: how often the program is killed.
        seed: of all chance.
    """

    def __init__(self, path: Path, triggers: int, kills: int, seed: int = 5) -> None:
        self.path, self.triggers = path, triggers
        self._rng = random.Random(seed)  # noqa: S311
        self._most_starts = kills + 3
        self._kill_after = sorted(self._rng.sample(range(1, max(triggers - 1, kills + 2)), kills))
        self._rules = rules_of(8, detect=DETECT)
        self._rules.publish(path / "published")
        self._directory = VersionDirectory(path / "published")
        self._parts: dict[str, pa.Table] = {}
        self._next_rule = 1_000
        self._program: subprocess.Popen[bytes] | None = None
        self.samples: list[Sample] = []
        self.started = 0
        self.noted = 0
        """Bytes of the file sources' notes."""
        (path / "in").mkdir()
        (path / "offsets").mkdir()

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
        """Files that are through."""
        return sum(int(file.read_text()) for file in (self.path / "out").glob("*/files"))

    def events(self) -> list[str]:
        """The ids of all events that were told."""
        tables = [pq.read_table(file) for file in (self.path / "out").glob("*/events.parquet")]
        return [id for table in tables for id in table["event_id"].to_pylist()]

    def recomputed(self) -> list[str]:
        """The ids of all events, by a Monitor that takes what each micro-batch took, as the checkpoint has it."""
        monitor, found = None, []
        for files, markers in recorded_batches(self.path / "checkpoint", 2, self.path / "offsets"):
            versions = [int(name.split(".")[0]) for name in markers if name.endswith(".version")]
            clocks = [int(name.split(".")[0]) for name in markers if name.endswith(".clock")]
            if versions:
                snapshot = self._directory.load(max(versions))
                if monitor is None:
                    monitor = fp.Monitor(snapshot, object="vehicle", time="ts", sequence="seq", timeout=TIMEOUT)
                else:
                    found.append(monitor.follow(snapshot))
            assert monitor is not None, "the first micro-batch has a marker"
            if clocks and monitor.counters["rows"]:
                now = EPOCH + timedelta(microseconds=max(clocks) - int(EPOCH.timestamp() * 1e6))
                found.append(monitor.advance(now))
            if files:
                found.append(monitor.update(pa.concat_tables([self._parts[name] for name in files])))
        return [id for events in found for id in events["event_id"].to_pylist()]

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
        table = traffic(_ROWS, number, start=number * _SECONDS)
        # Objects come and go: after thirty files all of them are others.
        named = [v and f"{v}-{(number + int(v[1:]) * 3) // 30}" for v in table["vehicle"].to_pylist()]
        table = table.set_column(0, "vehicle", pa.array(named, pa.string()))
        name = f"{number:06}.parquet"
        pq.write_table(table, self.path / "in" / f".{name}")
        (self.path / "in" / f".{name}").rename(self.path / "in" / name)
        self._parts[name] = table

    def _change_rules(self) -> None:
        known = [rule.id for rule in self._rules]
        self._rules.remove(self._rng.choice(known))
        self._rules.add(self._next_rule, f"x > {self._rng.randrange(8)}", detect=DETECT, initial=True)
        edited = self._rng.choice([rule.id for rule in self._rules])
        self._rules.replace(edited, f"y < {self._rng.randrange(1, 9)}", detect=DETECT, enabled=self._rng.random() < 0.8)
        self._next_rule += 1
        self._rules.publish(self.path / "published")

    def _start(self) -> None:
        self.started += 1
        cores = str(self._rng.choice([1, 2]))
        with (self.path / "log").open("ab") as log:
            self._program = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "tests.spark.soak", "--watch", str(self.path), "--cores", cores],
                stdout=log, stderr=log, cwd=ROOT, start_new_session=True,
            )  # fmt: skip

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


def watch_until_killed(path: Path, cores: str) -> None:
    """The program that is killed: watches, and writes each micro-batch to a directory of its own, slowly."""
    from fencepost.spark import tune, watch
    from tests.spark.test_watch import SCHEMA
    from tests.spark.watcher import session

    spark = session(cores)
    tune(spark)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{path}/in")
    events = watch(
        source, path / "published", object="vehicle", time="ts", sequence="seq", buckets=4, timeout=TIMEOUT, observe="w"
    )
    rng = random.Random()  # noqa: S311

    def write(batch: Any, number: int) -> None:
        table = batch.toArrow()
        time.sleep(rng.random() * 0.2)
        draft = path / "drafts" / str(number)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        pq.write_table(table, draft / "events.parquet")
        (draft / "files").write_text(str(_files_taken(path, number)))
        target = path / "out" / str(number)
        shutil.rmtree(target, ignore_errors=True)  # a repeated micro-batch replaces what it wrote
        target.parent.mkdir(exist_ok=True)
        draft.rename(target)

    writer = events.writeStream.foreachBatch(write).option("checkpointLocation", f"{path}/checkpoint")
    writer.start().awaitTermination()


def _files_taken(path: Path, number: int) -> int:
    """How many files a micro-batch took: none if it has only markers, two where a kill left one planned."""

    def offset(batch: int) -> int:
        file = path / "checkpoint" / "offsets" / str(batch)
        source = file.read_text().splitlines()[2] if file.exists() else "-"
        return -1 if source == "-" else int(json.loads(source)["logOffset"])

    return offset(number) - offset(number - 1)


def main() -> int:
    """Run it, and say what came out."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.soak", description=__doc__)
    parser.add_argument("--triggers", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--watch", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cores", default="2", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch is not None:
        watch_until_killed(given.watch, given.cores)
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="fencepost-soak-") as name, Progress(console=console) as progress:
        soak = Soak(Path(name), given.triggers, given.kills)
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
