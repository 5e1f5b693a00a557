"""No failure leaves damage: every file operation fails once, or is the last thing that a process does."""

import builtins
import contextlib
import errno
import functools
import io
import json
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy import Engine, event

import fencepost as fp
from fencepost.deliveries.spool import Event, Letter, Spool, stream_batch
from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile, read_pipeline
from fencepost.pipeline.runtime.sinks import SeveralSinks
from fencepost.published import VersionDirectory
from fencepost.service.saves import Saves
from fencepost.service.segments import Segments
from tests.campaign.changed_bytes import ROWS, SCHEMA, draw_rules
from tests.campaign.trial import DifferenceError, Trial, require

MODES = ("ENOSPC", "EIO", "dies before", "dies after")
_STRIDE = 23
"""One try of a publish takes one point in so many; the next seeds have the others."""
_DEAD = 77
"""The exit code of a process that died where it should."""


class Saboteur:
    """Counts operations on files below a directory, and lets one of them fail.

    Args:
        root: the directory.
        point: the number of the operation that fails; none below zero.
        mode: one of MODES.
    """

    def __init__(self, root: Path, point: int, mode: str) -> None:
        self.root, self.point, self.mode = str(root), point, mode
        self.count = 0
        self.hit = ""

    def operation(self, name: str, place: Any, call: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        """Do an operation, unless it is the one that fails."""
        if not self._is_below(place):
            return call()
        number, self.count = self.count, self.count + 1
        if number != self.point:
            return call()
        self.hit = f"operation {number}, {name} of {place}, {self.mode}"
        if self.mode == "dies after":
            with contextlib.suppress(OSError):  # as of a folder that is there; it dies all the same
                call()
        elif torn is not None:
            torn()
        raise self.end()

    def end(self) -> OSError:
        """The error of an operation that fails, unless the process dies."""
        if self.mode.startswith("dies"):
            os._exit(_DEAD)
        code = getattr(errno, self.mode)
        return OSError(code, os.strerror(code))

    def _is_below(self, place: Any) -> bool:
        if isinstance(place, int):
            place = os.readlink(f"/proc/self/fd/{place}")
        return isinstance(place, (str, os.PathLike)) and os.fspath(place).startswith(self.root)

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Stand between the product and its files."""
        names = ("replace", "rename", "link", "mkdir", "unlink", "rmdir", "fsync", "fdatasync", "truncate", "write")
        kept = {name: getattr(os, name) for name in names}
        opened, low_level, arrow = io.open, os.open, pa.OSFile

        def stand_before(name: str) -> Any:
            def call(*given: Any, **named: Any) -> Any:
                if named.get("dir_fd") is not None:
                    place: Any = os.path.join(os.readlink(f"/proc/self/fd/{named['dir_fd']}"), given[0])
                else:
                    place = given[0]

                def torn() -> None:
                    kept["write"](given[0], bytes(given[1])[: len(given[1]) // 2])

                half = torn if name == "write" else None
                return self.operation(name, place, lambda: kept[name](*given, **named), half)

            return call

        def open_file(file: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            if not set(mode) & set("wax+"):
                return opened(file, mode, *given, **named)
            found = self.operation("open", file, lambda: opened(file, mode, *given, **named))
            return _Written(self, found, file) if self._is_below(file) else found

        def open_low(path: Any, flags: int, *given: Any, **named: Any) -> Any:
            def call() -> int:
                return low_level(path, flags, *given, **named)

            return self.operation("open", path, call) if flags & (os.O_WRONLY | os.O_RDWR) else call()

        def open_arrow(path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
            def call() -> Any:
                return arrow(path, mode, *given, **named)

            return self.operation("open", path, call) if "w" in mode else call()

        try:
            for name in names:
                setattr(os, name, stand_before(name))
            builtins.open = io.open = open_file
            os.open, pa.OSFile = open_low, open_arrow
            yield
        finally:
            for name, function in kept.items():
                setattr(os, name, function)
            builtins.open = io.open = opened
            os.open, pa.OSFile = low_level, arrow


class _Written:
    """An open file whose writes are operations; one that fails has written half."""

    def __init__(self, saboteur: Saboteur, file: Any, place: Any) -> None:
        self._saboteur, self._file, self._place = saboteur, file, place

    def write(self, content: Any) -> Any:
        def torn() -> None:
            self._file.write(content[: len(content) // 2])
            self._file.flush()

        return self._saboteur.operation("write", self._place, lambda: self._file.write(content), torn)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        self._file.__enter__()
        return self

    def __exit__(self, *given: object) -> Any:
        return self._file.__exit__(*given)


def try_points(
    seed: int,
    prepare: Callable[[Path], None],
    act: Callable[[Path], None],
    examine: Callable[[Path, bool], None],
    stride: int = 1,
) -> int:
    """Let operations of an act fail, in one way that the seed chooses, and examine what is left.

    Args:
        seed: of the way to fail, and of the first point.
        prepare: what there is before, in an empty directory.
        act: what fails.
        examine: raises where something is damaged; told whether the act was finished.
        stride: from one point to the next.
    """
    mode = MODES[seed % len(MODES)]
    with tempfile.TemporaryDirectory() as folder:
        point, tried = seed // len(MODES) % stride, 0
        before = Path(folder) / "before"
        before.mkdir()
        prepare(before)
        while True:
            path = Path(folder) / str(point)
            shutil.copytree(before, path)
            hit = fail_at(path, point, mode, act)
            try:
                examine(path, not hit)
            except DifferenceError as difference:
                raise DifferenceError(f"{hit}: {difference}") from difference
            except Exception as error:
                raise RuntimeError(f"{hit}: then {type(error).__name__}: {error}") from error
            if not hit:
                return tried
            point, tried = point + stride, tried + 1


def fail_at(path: Path, point: int, mode: str, act: Callable[[Path], None]) -> str:
    """Let one operation fail; says which, or nothing if the act has fewer."""
    saboteur = Saboteur(path, point, mode)
    if mode.startswith("dies"):
        return _die_at(path, saboteur, act)
    try:
        with saboteur.at_work(), _statements(saboteur):
            act(path)
    except (FencepostError, OSError) as error:
        require(bool(saboteur.hit), f"refused although nothing failed: {error}")
    except Exception as error:
        # The database wraps what a statement raises.
        if not isinstance(getattr(error, "orig", error), (OSError, sqlite3.Error)):
            raise RuntimeError(f"{saboteur.hit}: {type(error).__name__}: {error}") from error
    return saboteur.hit


def _die_at(path: Path, saboteur: Saboteur, act: Callable[[Path], None]) -> str:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            with saboteur.at_work(), _statements(saboteur):
                act(path)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    require(code in (0, _DEAD), f"the process ended with {code} at operation {saboteur.point}")
    return f"operation {saboteur.point}, {saboteur.mode}" if code == _DEAD else ""


@contextlib.contextmanager
def _statements(saboteur: Saboteur) -> Iterator[None]:
    """What a book writes goes through its database: there, each statement is an operation."""

    def before(*_: Any) -> None:
        if saboteur.mode != "dies after":
            saboteur.operation("statement", saboteur.root, lambda: None)

    def after(*_: Any) -> None:
        if saboteur.mode == "dies after":
            saboteur.operation("statement", saboteur.root, lambda: None)

    listened = [("before_cursor_execute", before), ("after_cursor_execute", after), ("commit", before)]
    for name, function in listened:
        event.listen(Engine, name, function)
    try:
        yield
    finally:
        for name, function in listened:
            event.remove(Engine, name, function)


def require_no_drafts(path: Path) -> None:
    """Nothing is left of files that were not written to their end, once the next writer was there."""
    drafts = sorted(str(file.relative_to(path)) for file in path.rglob(".*"))
    require(not drafts, f"{drafts} are left")


# -- publish and collect -----------------------------------------------------------------------------------------------


def _rules_of(version: int) -> fp.Rules:
    rules = draw_rules(random.Random(3), 12)  # noqa: S311
    rules.replace(0, f"price > {version * 10}")
    return rules


@functools.cache
def _expected(version: int) -> Any:
    return _rules_of(version).compile(SCHEMA).match(ROWS).sets()


def _publish(version: int, path: Path, shards: int | None) -> int:
    return _rules_of(version).publish(path / "published", schema=SCHEMA, shards=shards)


def _check_versions(path: Path, published: list[int]) -> None:
    """Each version that readers see is whole, and is one of those that were published, in their order."""
    directory = VersionDirectory(path / "published")
    found = []
    for version in directory.versions():
        answer = directory.load(version).match(ROWS).sets()
        same = [number for number in published if answer == _expected(number)]
        require(bool(same), f"version {version} is none that was published")
        found += same
        plan = directory.shards()
        if plan is not None:
            directory.verify_shards(version, plan)
    require(found == sorted(found), f"versions are there in the order {found}")


def try_publish(seed: int) -> int:
    """The first version, or the second one; with shards, too."""
    variant = seed // len(MODES) // _STRIDE
    shards, old = (None, 2)[variant % 2], variant % 4 < 2

    def prepare(path: Path) -> None:
        if old:
            _publish(1, path, shards)

    def act(path: Path) -> None:
        _publish(2, path, shards)

    def examine(path: Path, finished: bool) -> None:
        _check_versions(path, [1, 2])
        latest = VersionDirectory(path / "published").latest()
        require(not finished or latest is not None, "a version that was published is not there")
        require(not old or latest is not None, "the old version is gone")
        number = _publish(3, path, shards)
        directory = VersionDirectory(path / "published")
        require(directory.latest() == number and number > (latest or 0), f"the next version is {number}")
        require(directory.load().match(ROWS).sets() == _expected(3), "the next version is another")
        require(directory.markers.newest()[0] == number, "streams do not hear of the next version")
        directory.collect(timedelta(0), fresh_for=timedelta(0))
        require_no_drafts(path)

    return try_points(seed, prepare, act, examine, _STRIDE)


def try_collect(seed: int) -> int:
    """Old versions are collected."""

    def prepare(path: Path) -> None:
        for version in (1, 2, 3):
            _publish(version, path, None)

    def act(path: Path) -> None:
        VersionDirectory(path / "published").collect(timedelta(0))

    def examine(path: Path, _: bool) -> None:
        directory = VersionDirectory(path / "published")
        require(directory.latest() == 3, f"the newest version is {directory.latest()}")
        _check_versions(path, [1, 2, 3])
        directory.collect(timedelta(0))
        require(directory.versions() == [3], f"versions {directory.versions()} are left")
        require(_publish(4, path, None) == 4, "the next version has another number")
        directory.collect(timedelta(0), fresh_for=timedelta(0))
        require_no_drafts(path)

    return try_points(seed, prepare, act, examine, 3)


def try_leftovers(seed: int) -> int:
    """Nothing that no reader can need is left for ever after a publish or a collection that failed."""
    collecting = seed // len(MODES) // _STRIDE % 2 == 1

    def prepare(path: Path) -> None:
        for version in (1, 2):
            _publish(version, path, None)

    def act(path: Path) -> None:
        if collecting:
            VersionDirectory(path / "published").collect(timedelta(0))
        else:
            _publish(3, path, None)

    def examine(path: Path, _: bool) -> None:
        number = _publish(4, path, None)
        for _round in range(2):
            VersionDirectory(path / "published").collect(timedelta(0), fresh_for=timedelta(0))
        newest = f"{number:08}"
        files = {file.name for file in (path / "published").iterdir()}
        needed = {newest, f"{newest}.published", "used", "schema.json", "markers", "collected"}
        require(files <= needed, f"{sorted(files - needed)} are left")

    return try_points(seed, prepare, act, examine, _STRIDE)


# -- the state of a monitor --------------------------------------------------------------------------------------------


def _monitor(rows: int) -> Any:
    monitor = fp.Monitor(draw_rules(random.Random(1), 12), object="o", time="t", schema=SCHEMA)  # noqa: S311
    if rows:
        monitor.update({name: column[:rows] for name, column in ROWS.items()})
    return monitor


def try_save(seed: int) -> int:
    """A state replaces an older one."""

    def examine(path: Path, finished: bool) -> None:
        monitor = _monitor(0)
        monitor.restore(path / "state")
        rows = monitor.counters["rows"]
        require(rows == 20 if finished else rows in (10, 20), f"the state is that after {rows} rows")
        require(monitor.inside(3) == _monitor(rows).inside(3), "the state is another")
        _monitor(30).save(path / "state")
        monitor.restore(path / "state")
        require(monitor.counters["rows"] == 30, "the next state is another")
        require_no_drafts(path)

    return try_points(
        seed,
        lambda path: _monitor(10).save(path / "state"),
        lambda path: _monitor(20).save(path / "state"),
        examine,
    )


# -- the book ----------------------------------------------------------------------------------------------------------


def _write_rules(path: Path) -> None:
    lines = [f'{{"id": {id}, "condition": "price > {id}"}}' for id in range(2, 40)]
    (path / "rules.jsonl").write_text("\n".join(lines) + "\n")


def _import(path: Path) -> None:
    with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
        book.import_file(path / "rules.jsonl", existing="replace")


def try_import(seed: int) -> int:
    """All rules of a file come into a book, or none."""

    def prepare(path: Path) -> None:
        _write_rules(path)
        with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
            book.add(1, "price > 1")
            book.add(2, "price > 999")

    def examine(path: Path, finished: bool) -> None:
        with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
            found = {rule.id: rule.condition for rule in book}
        old = {1: "price > 1", 2: "price > 999"}
        new = {1: "price > 1"} | {id: f"price > {id}" for id in range(2, 40)}
        require(found == new if finished else found in (old, new), f"the book has {sorted(found)}")
        _import(path)
        with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
            require({rule.id: rule.condition for rule in book} == new, "the next import did not take")
        require_no_drafts(path)

    return try_points(seed, prepare, _import, examine)


def _sync_table(count: int, high: int) -> Any:
    return pa.table({"rule_id": range(count), "low": [0] * count, "high": [high] * count})


def _sync(path: Path, count: int, high: int) -> None:
    with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
        book.sync(_sync_table(count, high), origin="table", ranges={"price": ("low", "high")})


def try_sync(seed: int) -> int:
    """A book mirrors a table whole, or as it was."""

    def examine(path: Path, finished: bool) -> None:
        with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
            found = len(book), book[3].condition
        old, new = (20, _condition_of(10)), (15, _condition_of(30))
        require(found == new if finished else found in (old, new), f"the book has {found}")
        _sync(path, 25, 40)
        with fp.RuleBook(f"sqlite:///{path}/book.db") as book:
            require((len(book), book[3].condition) == (25, _condition_of(40)), "the next table did not take")
        require_no_drafts(path)

    return try_points(seed, lambda path: _sync(path, 20, 10), lambda path: _sync(path, 15, 30), examine)


@functools.cache
def _condition_of(high: int) -> str:
    """How a book writes a rule of the table."""
    with tempfile.TemporaryDirectory() as folder:
        _sync(Path(folder), 5, high)
        with fp.RuleBook(f"sqlite:///{folder}/book.db") as book:
            return str(book[3].condition)


# -- deliveries and sinks ----------------------------------------------------------------------------------------------


def _spool_events(batch: int) -> list[Event]:
    return [Event(f"{batch}-{number}", f"o{number % 3}", json.dumps({"n": number})) for number in range(12)]


def _take_batch(spool: Spool, batch: int) -> None:
    """As a stream does: one that comes again is not taken twice."""
    if not spool.has_batch(batch):
        name, given = stream_batch(batch), _spool_events(batch)
        spool.commit(name, {part: spool.write_part(name, part, given[part::2]) for part in range(2)})


def _send_some(spool: Spool, batch: int) -> None:
    """A third is given up, a third is sent."""
    waiting = sorted(spool.read(stream_batch(batch)))
    spool.give_up({stream_batch(batch): [Letter(each.event, 2, "no") for each in waiting[:4]]})
    spool.finish(waiting[:8])


def try_spool(seed: int) -> int:
    """A batch goes into a spool, and is sent in part: no event is lost, whatever fails."""

    def prepare(path: Path) -> None:
        spool = Spool(path)
        spool.open()
        _take_batch(spool, 0)
        _send_some(spool, 0)
        spool.close()

    def act(path: Path) -> None:
        spool = Spool(path)
        spool.open()
        try:
            _take_batch(spool, 1)
            _send_some(spool, 1)
            spool.remove(stream_batch(0))
        finally:
            spool.close()

    def examine(path: Path, finished: bool) -> None:
        spool = Spool(path)
        spool.open()
        _take_batch(spool, 1)
        letters = {letter.event for letter in spool.letters()}
        waiting = {each.event for name in spool.names() for each in spool.read(name)}
        given = {0: set(_spool_events(0)), 1: set(_spool_events(1))}
        require(letters | waiting <= given[0] | given[1], "there are events that nobody gave")
        held = len((letters | waiting) & given[1])
        require(held == 8 if finished else held >= 8, f"{held} of 12 events are there, of which 4 were sent")
        require(len(letters & given[0]) == 4, f"{len(letters & given[0])} of 4 events that were given up are there")
        spool.give_up({stream_batch(1): [Letter(event, 3, "no") for event in given[1]]})
        require(len(spool.letters()) == 16, "not all events that are given up now are known")
        spool.close()
        require_no_drafts(path)

    return try_points(seed, prepare, act, examine)


_PIPELINE = """
[source]
format = "json"
path = "in"
schema = "o string, t timestamp, x double"
[rules]
directory = "published"
[operator]
type = "match"
[[sink]]
format = "json"
path = "out"
checkpoint = "checkpoint"
[[sink]]
format = "console"
"""


class _Writer:
    """Writes files as Spark does, of which nothing fails: Spark's own care is not tried here."""

    def __init__(self, batch: int) -> None:
        self.batch = batch

    def mode(self, _: str) -> "_Writer":
        return self

    def save(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        for part in range(2):
            with open(os.path.join(path, f"part-{part:05}.json"), "w") as file:
                file.write(f"{self.batch} {part}\n")


def pipeline_in(path: Path) -> PipelineFile:
    """A pipeline with several sinks."""
    (path / "pipeline.toml").write_text(_PIPELINE)
    return read_pipeline(path / "pipeline.toml")[0]


def sink_in(path: Path) -> Any:
    """One of its sinks, as it starts."""
    return SeveralSinks(pipeline_in(path), {})._sinks[0]


def write_batch(path: Path, batch: int) -> None:
    """As a stream does: one that a sink has noted is not written again."""
    sink = sink_in(path)
    if not sink.has_batch(batch):
        if sink._last < 0:
            sink._write_note(-1)
        sink._write_files(_Writer(batch), path / "out", batch)
        sink._write_note(batch)


def try_sink(seed: int) -> int:
    """Files of one of several sinks: each micro-batch once, whatever fails."""

    def examine(path: Path, _: bool) -> None:
        for batch in (1, 2):
            write_batch(path, batch)
        found = sorted(file.read_text() for file in (path / "out").glob("part-*"))
        require(found == [f"{batch} {part}\n" for batch in range(3) for part in range(2)], f"there is {found}")
        require_no_drafts(path)

    return try_points(seed, lambda path: write_batch(path, 0), lambda path: write_batch(path, 1), examine)


# -- the log of a service ----------------------------------------------------------------------------------------------


@functools.cache
def _saved() -> Any:
    return _monitor(1)


def _log_rows(path: Path, rows: range, told: Path | None = None) -> None:
    """As a service does: a row is told to be there once it is synced, and every third one is saved.

    What fails is refused, and the next row comes all the same.
    """
    log, saves = Segments(path / "rows", "rows", roll=150), Saves(path / "saves")
    for row in rows:
        try:
            position = log.append([b"row %d" % row], 1)
            try:
                log.sync()
            except FencepostError:
                log.drop_last()
                raise
            if told is not None:
                with told.open("a") as file:
                    file.write(f"{position} row {row}\n")
            if row % 3 == 2:
                about: dict[str, Any] = {"event": 0, "version": {}, "row": row}
                saves.write(position, _saved(), about)
                log.collect(saves.oldest() + 1, 0.0, 0)
        except (FencepostError, OSError):
            continue
    log.close()


def _rows_of(log: Segments) -> dict[int, str]:
    return {block.first: bytes(block.content).decode() for block in log.blocks()}


def try_log(seed: int) -> int:
    """Rows go into the log of a service, which rolls, and is saved: what was told is there, whatever fails."""
    died = MODES[seed % len(MODES)].startswith("dies")

    def told_at(path: Path) -> Path:
        return path.with_name(f"told-{path.name}")

    def examine(path: Path, finished: bool) -> None:
        log, saves = Segments(path / "rows", "rows", roll=150), Saves(path / "saves")
        found, place = _rows_of(log), told_at(path)
        lines = [line.partition(" ") for line in place.read_text().splitlines()] if place.exists() else []
        told = {int(position): row for position, _, row in lines}
        require(log.first <= saves.oldest() + 1, f"rows begin at {log.first}, behind the save of {saves.oldest()}")
        lost = {at: row for at, row in told.items() if at >= log.first and found.get(at) != row}
        require(not lost, f"the rows {lost} were told to be there; there are {found}")
        new = {at: row for at, row in found.items() if at > 4 and at not in told}
        require(len(new) <= (1 if died else 0), f"the rows {new} are there, and nobody was told of them")
        require(list(found) == list(range(log.first, log.next)), f"there are the positions {list(found)}")
        save = saves.load()
        require(save is not None and save.position < log.next, "the last save cannot be replayed from")
        require(
            not finished or (len(told), saves.positions()) == (8, [9, 12]), f"{len(told)} rows, {saves.positions()}"
        )
        log.close()
        _log_rows(path, range(12, 18))
        again = Segments(path / "rows", "rows", roll=150)
        require([*_rows_of(again).values()][-3:] == [f"row {row}" for row in range(15, 18)], "the next rows are others")
        again.close()
        names = sorted(file.name for file in (path / "saves").iterdir())
        kept = [f"{at:020}.{ending}" for at in (again.next - 4, again.next - 1) for ending in ("monitor", "save")]
        require(names == kept, f"there are the saves {names}")
        require_no_drafts(path)

    return try_points(
        seed,
        lambda path: _log_rows(path, range(4)),
        lambda path: _log_rows(path, range(4, 12), told_at(path)),
        examine,
        5,
    )


PROMISE = "no failure leaves damage"
TRIALS = [
    Trial("failures.publish", PROMISE, "every file operation of publish fails or is the last", try_publish),
    Trial("failures.collect", PROMISE, "every file operation of collect", try_collect),
    Trial("failures.leftovers", PROMISE, "what a failed publish leaves is collected", try_leftovers),
    Trial("failures.save", PROMISE, "every file operation of Monitor.save", try_save),
    Trial("failures.import", PROMISE, "every statement of a book's import", try_import),
    Trial("failures.sync", PROMISE, "every statement of a table that a book mirrors", try_sync),
    Trial("failures.spool", PROMISE, "every file operation of a spool of deliveries", try_spool),
    Trial("failures.log", PROMISE, "every file operation of the log and the saves of a service", try_log),
    Trial("failures.sink", PROMISE, "every file operation of one of several sinks", try_sink),
]
