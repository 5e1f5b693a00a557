"""Runs a pipeline until it is stopped, or has read the rows that are there."""

import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from pyspark.errors import PySparkException

from fencepost.errors import FencepostError
from fencepost.pipeline.file.columns import source_columns
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime import identity
from fencepost.pipeline.runtime.book import FollowedBook, open_book, rule_columns
from fencepost.pipeline.runtime.changes import ChangeFollower
from fencepost.pipeline.runtime.operators import operate, required_columns
from fencepost.pipeline.runtime.progress import Progress, Summary, log
from fencepost.pipeline.runtime.session import make_session, tuned
from fencepost.pipeline.runtime.sinks import dead_letter_writer, sink_writer
from fencepost.pipeline.runtime.sources import SourceFrames, kafka_reader, source_frames
from fencepost.pipeline.runtime.ticker import make_ticker
from fencepost.pipeline.runtime.webhook import Webhook

_LOOK = 0.2
"""Seconds between two looks at the queries."""
_SHOW = 1.0
"""Seconds between two lines of progress, and between two looks at a book."""
_CHANGES_AT_ONCE = 10_000


def run_file(file: PipelineFile, spark: Any, out: TextIO, stop: threading.Event | None) -> Summary:
    """Run a pipeline without faults until `stop`, SIGINT or SIGTERM; a session of its own is stopped in the end."""
    stop = stop or threading.Event()
    with ExitStack() as ends:
        listen = ends.enter_context(_signals(stop))
        own = spark is None
        if own:
            spark = make_session(file)
            ends.callback(spark.stop)
            listen()  # Spark has put its own handler in the place of ours
        if not file.section("sink").get("checkpoint"):
            scratch = ends.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-", ignore_cleanup_errors=True))
            file.sections["sink"]["checkpoint"] = scratch
        identity.claim_checkpoint(file)
        summary = _Run(file, tuned(spark), out, ends).until(stop)
        if own:
            spark.sparkContext.setLogLevel("OFF")  # that tasks are interrupted now is meant
        return summary


class _Run:
    """A pipeline while it runs: the query of its operator, and those of dead letters and rule changes."""

    def __init__(self, file: PipelineFile, spark: Any, out: TextIO, ends: ExitStack) -> None:
        self._file, self._spark, self._out = file, spark, out
        self.progress = Progress(out)
        self._begun = time.monotonic()
        try:
            frames = {name: self._source(name) for name in file.sources}
            self._book = self._followed_book(frames, ends)
            rows = {name: source.rows for name, source in frames.items()}
            answers = operate(file, rows, self._rules())
            self._ticker = make_ticker(file, rows, self._rules(), out)
            self._webhook = Webhook(file) if file.section("sink")["format"] == "webhook" else None
            if self._webhook is not None:
                ends.callback(self._webhook.sender.start().stop)
            self._queries = {"the pipeline": self._start(sink_writer(answers, file, self._webhook))}
            ends.callback(self._stop)
            for name, source in frames.items():
                if (writer := dead_letter_writer(source.dead, file, name)) is not None:
                    self._queries[f"the dead letters of {name}"] = self._start(writer)
            if self._book is not None and file.section("rules.changes"):
                self._queries["rule changes"] = self._start(self._change_writer(self._book))
        except PySparkException as error:
            raise _refusal("the pipeline", error) from None

    def until(self, stop: threading.Event) -> Summary:
        """Watch over the queries until all have ended, one has failed, or it is time to stop."""
        main = next(iter(self._queries.values()))
        shown = self._begun
        while not stop.is_set() and any(query.isActive for query in self._queries.values()):
            self._refuse_failure()
            stop.wait(_LOOK)
            if self._ticker is None:
                self.progress.read(main)
            else:
                self._ticker.tick(main, self.progress)
            if time.monotonic() - shown >= _SHOW:
                shown = time.monotonic()
                self._show_delivered()
                self.progress.show(shown - self._begun)
                self._follow_book()
        self._refuse_failure()
        self.progress.read(main)
        self._deliver_rest(stop)
        return self.progress.summary(time.monotonic() - self._begun)

    def _deliver_rest(self, stop: threading.Event) -> None:
        """Wait until the receiver has had every event, unless it is time to stop: then the next run goes on."""
        if self._webhook is None:
            return
        while not stop.is_set() and not self._webhook.sender.drain(_SHOW):
            self._show_delivered()
            self.progress.show(time.monotonic() - self._begun)
        self._show_delivered()
        if (message := self._webhook.describe_undelivered()) is not None:
            log(self._out, message)

    def _show_delivered(self) -> None:
        if self._webhook is not None:
            self.progress.show_delivered(self._webhook.sender.counts, self._webhook.spool.waiting())

    def _source(self, name: str) -> SourceFrames:
        columns = source_columns(self._file, name, [])
        assert columns is not None, "a file without faults has columns"
        time = self._file.section("operator").get("time")
        return source_frames(self._spark, self._file, name, columns.read, required_columns(self._file), time)

    def _followed_book(self, frames: dict[str, SourceFrames], ends: ExitStack) -> FollowedBook | None:
        rules = self._file.section("rules")
        if not rules["book"]:
            return None
        book = ends.enter_context(open_book(rules["book"], self._file))
        types = dict(next(iter(frames.values())).rows.dtypes)
        shards = self._file.section("operator").get("shards")
        return FollowedBook(book, self._rules(), rule_columns(types, self._file), shards)

    def _rules(self) -> str:
        """The directory that operators follow."""
        directory = self._file.section("rules")["directory"]
        return self._file.located(directory) if directory else str(identity.own_place(self._file, "rules"))

    def _change_writer(self, followed: FollowedBook) -> Any:
        changes = self._file.section("rules.changes")
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": _CHANGES_AT_ONCE, **changes["options"]}
        messages = kafka_reader(self._spark, changes["servers"], changes["topic"], options)
        state = identity.own_place(self._file, "changes")
        dead = self._file.resolved(changes["dead_letters"]) if changes["dead_letters"] else None
        follower = ChangeFollower(
            followed.book, self._follow_book, state, followed.schema, dead, self.progress.count_applied
        )
        writer = messages.writeStream.foreachBatch(follower.take)
        return writer.option("checkpointLocation", str(state / "checkpoint"))

    def _start(self, writer: Any) -> Any:
        trigger = self._file.section("trigger")
        if trigger["once"]:
            writer = writer.trigger(availableNow=True)
        elif trigger["every"]:
            writer = writer.trigger(processingTime=trigger["every"])
        return writer.start()

    def _follow_book(self) -> None:
        if self._book is not None and (message := self._book.follow()):
            log(self._out, message)

    def _refuse_failure(self) -> None:
        if self._webhook is not None:
            self._webhook.sender.raise_failure()
        for name, query in self._queries.items():
            if not query.isActive and (error := query.exception()) is not None:
                raise _refusal(name, error)

    def _stop(self) -> None:
        for query in self._queries.values():
            query.stop()


def _refusal(name: str, error: Exception) -> FencepostError:
    """A failed query in one sentence, or in the words of the operator that refused something."""
    text = str(error)
    ours = re.search(r"FencepostError: (.+?); (?:expected )?(.+?)\. ([^\n]+)", text)
    if ours:
        return FencepostError(ours[1], ours[2], ours[3])
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return FencepostError(
        f"{name}, which stopped: {first}",
        "a query that runs",
        "Correct the cause and run it again; it goes on from its checkpoint.",
    )


@contextmanager
def _signals(stop: threading.Event) -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM set the event; gives what begins to listen again. Only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def end(number: int, _: object) -> None:
        sys.stderr.write(f"\n{signal.Signals(number).name}: stopping\n")
        stop.set()

    def listen() -> None:
        for number in before:
            signal.signal(number, end)

    listen()
    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
