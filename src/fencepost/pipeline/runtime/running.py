"""Runs a pipeline until it is stopped, or has read the rows that are there."""

import contextlib
import io
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JNetworkError

from fencepost.errors import FencepostError, UnreachableError
from fencepost.pipeline.file.checks import column_faults
from fencepost.pipeline.file.clock import clock_of
from fencepost.pipeline.file.columns import Columns, source_columns
from fencepost.pipeline.file.document import PipelineFile, sink_name
from fencepost.pipeline.file.faults import PipelineFaultsError
from fencepost.pipeline.runtime import identity
from fencepost.pipeline.runtime.book import FollowedBook, open_book, rule_columns
from fencepost.pipeline.runtime.changes import ChangeFollower, ChangeFormat
from fencepost.pipeline.runtime.decoding import NewSchemaError, WriterSchemas, new_schema_in
from fencepost.pipeline.runtime.feeds import feed_arguments
from fencepost.pipeline.runtime.formats import SPARK_ERRORS, first_line, open_stream
from fencepost.pipeline.runtime.log import Log
from fencepost.pipeline.runtime.operators import observe_times, operate, required_columns
from fencepost.pipeline.runtime.progress import Progress, Summary
from fencepost.pipeline.runtime.retries import Retries, is_passing, may_pass
from fencepost.pipeline.runtime.session import make_session
from fencepost.pipeline.runtime.signals import Signals, heard_signals
from fencepost.pipeline.runtime.sinks import dead_letter_writer, make_webhooks, sink_writer
from fencepost.pipeline.runtime.sources import SourceFrames, kafka_reader, source_frames
from fencepost.pipeline.runtime.ticker import make_ticker
from fencepost.pipeline.status import StatusFile
from fencepost.spark import tune
from fencepost.spark.state import check_state_form

_LOOK = 0.2
"""Seconds between two looks at the queries."""
_SHOW = 1.0
"""Seconds between two lines of progress, and between two looks at a book."""
_CHANGES_AT_ONCE = 10_000


_STATUS = 5.0
"""Seconds after which the status is written again though nothing is new: it says that the pipeline lives."""


Beside = Callable[[PipelineFile, Progress, str, Callable[[str], None]], AbstractContextManager[None]]
"""What runs beside a pipeline and looks on: it gets the file, the progress, the directory of rules, and a log."""


def run_file(file: PipelineFile, spark: Any, log: Log, stop: threading.Event, beside: Beside | None = None) -> Summary:
    """Run a pipeline without faults until `stop`, SIGINT or SIGTERM; a session of its own is stopped in the end."""
    with ExitStack() as ends:
        signals = ends.enter_context(heard_signals(stop))
        if file.checkpoint is None:
            scratch = ends.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-", ignore_cleanup_errors=True))
            file.set_checkpoint(scratch)
        supervisor = _Supervisor(file, spark, log, stop, signals)
        if beside is not None:
            ends.enter_context(beside(file, supervisor.progress, rules_directory(file), log.info))
        return supervisor.run(ends)


def rules_directory(file: PipelineFile) -> str:
    """The directory of versions that operators follow."""
    directory = file.section("rules")["directory"]
    return file.located(directory) if directory else str(identity.own_place(file, "rules"))


class _Supervisor:
    """Starts Spark and the pipeline, and again after a failure that may pass; says how things are."""

    def __init__(self, file: PipelineFile, spark: Any, log: Log, stop: threading.Event, signals: Signals) -> None:
        self._file, self._spark, self._log, self._stop, self._signals = file, spark, log, stop, signals
        self._begun = time.monotonic()
        self.progress = Progress(log)
        self._retries = Retries(file, log)
        self._status = StatusFile(identity.own_place(file), {"pipeline": str(file.path)})
        self._written: tuple[float, dict[str, Any]] = (0.0, {})

    def run(self, ends: ExitStack) -> Summary:
        """All of it; how it ends stays in the status."""
        self._say("starting")
        try:
            if self._file.section("metrics"):
                from fencepost.pipeline.runtime.metrics import serving_metrics  # needs a package of its own

                self._log.info(f"serving figures at {ends.enter_context(serving_metrics(self._file, self.progress))}")
            own = self._spark is None
            if own:
                self._start_spark(ends)
            self._tune()
            if self._spark is not None:
                check_state_form(self._spark, identity.own_place(self._file).parent)
            summary = self._run_again_and_again()
            if own and self._spark is not None:
                self._spark.sparkContext.setLogLevel("OFF")  # that tasks are interrupted now is meant
        except BaseException as error:
            if isinstance(error, FencepostError):
                self._file.secrets.hide_in(error)
            self._say("failed", self._log.hide(str(error) or type(error).__name__))
            raise
        self._say("stopped", self._signals.heard)
        return summary

    def _start_spark(self, ends: ExitStack) -> None:
        section = self._file.section("session")
        place = identity.own_place(self._file, "spark.log")
        said = self._file.resolved(section["log"]) if section["log"] else place
        self._log.info(f"starting Spark at {section['master']}, which writes to {said} ...")
        while self._spark is None and not self._stop.is_set():
            try:
                self._spark = make_session(self._file, said)
            except FencepostError as error:  # of the book, which has the zone
                refusal = error
            except Exception as error:  # whatever the JVM says
                refusal = _refusal("Spark, which did not start", error, said)
            else:
                break
            if not (is_passing(refusal) and self._retries.wait("Spark did not start", refusal, self._stop)):
                raise refusal from None
        if self._spark is not None:
            ends.callback(self._spark.stop)
            self._signals.listen()  # Spark has put its own handler in the place of ours

    def _tune(self) -> None:
        said = io.StringIO()
        if self._spark is not None:
            with contextlib.redirect_stdout(said):
                tune(self._spark)
        for line in said.getvalue().splitlines():
            self._log.info(line)

    def _run_again_and_again(self) -> Summary:
        while not self._stop.is_set():
            batches = self.progress.counts.get("batches", 0)
            try:
                with ExitStack() as parts:
                    return _Run(self._file, self._spark, self._log, self, parts).until(self._stop)
            except NewSchemaError as new:
                failed = self._learn(new)
                if failed is not None and not self._retries.wait("the pipeline stopped", failed, self._stop):
                    raise failed from None
            except FencepostError as error:
                if self.progress.counts.get("batches", 0) > batches:
                    self._retries.succeeded()
                self._say("retrying" if is_passing(error) else "failed", self._log.hide(error.one_line))
                if not is_passing(error) or not self._retries.wait("the pipeline stopped", error, self._stop):
                    raise
                self.progress.count_restart()
        return self.progress.summary(self._seconds())

    def _learn(self, new: NewSchemaError) -> UnreachableError | None:
        """Fetch the schema that messages came with; returns why not, if that may pass."""
        try:
            has_it = WriterSchemas(self._file, new.section).learn(new.id)
        except UnreachableError as error:
            return error
        words = f"messages of schema {new.id} have come"
        if has_it:
            self._log.info(f"{words}; it was fetched, going on from the checkpoint")
        else:
            self._log.warning(f"{words}, which the registry does not have: they are dead letters")
        return None

    def _seconds(self) -> float:
        return time.monotonic() - self._begun

    def show(self) -> None:
        """Say how things are, to people and in the status."""
        self.progress.show(self._seconds())
        figures = self.progress.figures(self._seconds())
        figures["counts"].pop("seconds")
        at, before = self._written
        if figures != before or time.monotonic() - at >= _STATUS:
            self._say("running")
            self._written = time.monotonic(), figures

    def say_stopping(self) -> None:
        """Say to people that the pipeline was told to end."""
        self._log.info(f"{self._signals.heard}: stopping" if self._signals.heard else "stopping")

    def _say(self, state: str, reason: str | None = None) -> None:
        self._status.write(state, self.progress.figures(self._seconds()), reason)


class _Run:
    """A pipeline while it runs: the query of its operator, and those of dead letters and rule changes."""

    def __init__(self, file: PipelineFile, spark: Any, log: Log, supervisor: _Supervisor, ends: ExitStack) -> None:
        self._file, self._spark, self._log, self._supervisor = file, spark, log, supervisor
        self.progress = supervisor.progress
        self._begun = time.monotonic()
        self._queries: dict[str, Any] = {}
        with _in_plain_words("the pipeline"):
            frames = {name: self._source(name) for name in file.sources}
            self._check_columns(frames)
            identity.claim_checkpoint(file)
            identity.clear_drafts(file)
            self._book = self._followed_book(frames, ends)
            rows = {name: source.rows for name, source in frames.items()}
            log.info(f"preparing rules of {self._rules()} ...")
            answers = operate(file, rows, self._rules())
            if file.section("metrics"):
                answers = observe_times(answers)
            self._ticker = make_ticker(file, rows, self._rules(), log)
            self._webhooks = make_webhooks(file)
            for webhook in self._webhooks.values():
                ends.callback(webhook.sender.start().stop)
            ends.callback(self._stop)
            self._queries["the pipeline"] = self._start(sink_writer(answers, file, self._webhooks))
            for name, source in frames.items():
                if (writer := dead_letter_writer(source.dead, file, name)) is not None:
                    self._queries[f"the dead letters of {name}"] = self._start(writer)
            if self._book is not None and file.section("rules.changes"):
                self._queries["rule changes"] = self._start(self._change_writer(self._book))
            log.info("reading; the first micro-batch takes longest ...")

    def until(self, stop: threading.Event) -> Summary:
        """Watch over the queries until all have ended, one has failed, or it is time to stop."""
        with _in_plain_words("the pipeline"):
            main = self._queries["the pipeline"]
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
                    self._supervisor.show()
                    self._follow_book()
            if stop.is_set():
                self._supervisor.say_stopping()
            self._refuse_failure()
            self.progress.read(main)
            self._deliver_rest(stop)
            return self.progress.summary(time.monotonic() - self._begun)

    def _deliver_rest(self, stop: threading.Event) -> None:
        """Wait until the receivers have had every event, unless it is time to stop: then the next run goes on."""
        for webhook in self._webhooks.values():
            while not stop.is_set() and not webhook.sender.drain(_SHOW):
                self._show_delivered()
                self._supervisor.show()
        self._show_delivered()
        for webhook in self._webhooks.values():
            if (message := webhook.describe_undelivered()) is not None:
                self._log.warning(message)

    def _show_delivered(self) -> None:
        for section, webhook in self._webhooks.items():
            name = sink_name(self._file, section)
            self.progress.show_delivered(name, webhook.sender.counts, webhook.spool.waiting())

    def _source(self, name: str) -> SourceFrames:
        columns = source_columns(self._file, name, [])
        time = self._file.section("operator").get("time")
        schema = {} if columns is None else columns.read
        return source_frames(self._spark, self._file, name, schema, required_columns(self._file), time)

    def _check_columns(self, frames: dict[str, SourceFrames]) -> None:
        """Refuse what only Spark could tell: columns that are missing, or of a wrong type."""
        known = [source_columns(self._file, name, []) for name in frames]
        if all(columns is not None and None not in columns.types.values() for columns in known):
            return
        types = {name: dict(source.rows.dtypes) for name, source in frames.items()}
        found = {name: Columns({}, {**each}) for name, each in types.items()}
        if faults := list(column_faults(self._file, found)):
            raise PipelineFaultsError(self._file.path.name, faults)

    def _followed_book(self, frames: dict[str, SourceFrames], ends: ExitStack) -> FollowedBook | None:
        rules = self._file.section("rules")
        if not rules["book"]:
            return None
        book = ends.enter_context(open_book(rules["book"], self._file))
        types = dict(next(iter(frames.values())).rows.dtypes)
        shards = self._file.section("operator").get("shards")
        clock = clock_of(self._file, {"source": Columns({}, {**types})})
        unusable = None if clock is None else clock.find_faults
        schema = rule_columns(types, self._file)
        return FollowedBook(book, self._rules(), schema, shards, self._log.progress, unusable)

    def _rules(self) -> str:
        return rules_directory(self._file)

    def _change_writer(self, followed: FollowedBook) -> Any:
        changes = self._file.section("rules.changes")
        format_: ChangeFormat = changes["format"] or "json"
        state = identity.own_place(self._file, "changes")
        dead = self._file.resolved(changes["dead_letters"]) if changes["dead_letters"] else None
        follower = ChangeFollower(
            followed.book,
            self._follow_book,
            state,
            followed.schema,
            dead,
            self.progress.count_applied,
            format_,
            None if format_ == "json" else feed_arguments(self._file),
        )
        if format_ == "delta":
            feed = open_stream(self._spark, self._file, changes, "", readChangeFeed="true")
            writer = feed.writeStream.foreachBatch(follower.take_rows)
        else:
            options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": _CHANGES_AT_ONCE, **changes["options"]}
            messages = kafka_reader(self._spark, changes["servers"], changes["topic"], options)
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
            self._log.warning(message)

    def _refuse_failure(self) -> None:
        for webhook in self._webhooks.values():
            webhook.sender.raise_failure()
        for name, query in self._queries.items():
            if not query.isActive and (error := query.exception()) is not None:
                raise _refusal(name, error)

    def _stop(self) -> None:
        for query in self._queries.values():
            query.stop()


@contextlib.contextmanager
def _in_plain_words(name: str) -> Iterator[None]:
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise FencepostError(
            f"{name}, whose JVM does not answer any more ({_cause_of(error)})",
            "a JVM that runs",
            "Look for its end in Spark's log or the system's; run it again, it goes on from its checkpoint.",
        ) from None
    except SPARK_ERRORS as error:
        raise _refusal(name, error) from None


def _refusal(name: str, error: Exception, log: Path | None = None) -> FencepostError:
    """A failed query in one sentence, or in the words of the operator that refused something."""
    text = str(error)
    if (new := new_schema_in(text)) is not None:
        return new
    ours = re.search(r"FencepostError: (.+?); (?:expected )?(.+?)\. ([^\n]+)", text)
    if ours:
        return FencepostError(ours[1], ours[2], ours[3])
    first = _cause_of(error)
    remedy = "Correct the cause and run it again; it goes on from its checkpoint."
    kind = UnreachableError if may_pass(text) else FencepostError
    if log is not None:
        return kind(f"{name}: {first}", "a session that starts", f"{remedy} Spark's own words are in {log}.")
    return kind(f"{name}, which stopped: {first}", "a query that runs", remedy)


def _cause_of(error: Exception) -> str:
    """The line of a failure that names its cause: the last of a Python traceback, or else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.endswith("Traceback (most recent call last):") for line in lines):
        named = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
        return named[-1] if named else first_line(error)
    return first_line(error)
