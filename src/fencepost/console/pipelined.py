"""A source over a pipeline on Spark: its progress, its book, its versions, and the events in its files."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq

from fencepost._files.whole import PRIVATE, write_whole
from fencepost._text import count
from fencepost.book import RuleBook
from fencepost.console.book_rules import BookRules
from fencepost.console.recorder import Recorder
from fencepost.console.rows import RecentRows
from fencepost.console.serving import ConsoleServer
from fencepost.console.source import (
    KINDS,
    EventsPart,
    Figure,
    Missing,
    ObjectsPart,
    Overview,
    RowsPart,
    RulesPart,
    VersionsPart,
)
from fencepost.console.stream_rows import StreamObjects, StreamRows
from fencepost.console.versions import BookVersions, rules_at
from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.identity import own_place
from fencepost.pipeline.runtime.last_rows import why_none
from fencepost.published import VersionDirectory

_LOOK = 1.0
_ROWS = 100_000
"""Events that say how objects are, and objects at most."""
_BY_EVENTS = "The workers of Spark know all objects. Here are those that had an event of late, as it was then."
_FILES = 50
"""Files of events that are read at once, and of those that were there before."""


class PipelineSource:
    """A pipeline that runs in this process.

    Args:
        file: what it was started with.
        progress: what it has done so far.
        rules: the directory of versions that its operator follows.
        ends: closed with the source.
    """

    def __init__(self, file: PipelineFile, progress: Any, rules: str, ends: ExitStack) -> None:
        self.title = file.path.name
        self.about = f"A pipeline on Spark, {file.path}"
        self._progress = progress
        self._versions = VersionDirectory(rules)
        self._book = _open_book(file, ends)
        self.recorder = Recorder()
        self._sink = _find_sink(file)
        self._last: dict[str, int] = {}
        self.rules: RulesPart | Missing = Missing(
            "The rules of this pipeline are published to a directory by somebody else. Look at them there, or under "
            "Versions."
        )
        if self._book is not None:
            self.rules = BookRules(self._book, lambda values: rules_at(self._versions, values))
        self.versions: VersionsPart | Missing = BookVersions(
            None, rules, publishing=Missing("A pipeline publishes its book by itself, a second after a change.")
        )
        self.events: EventsPart | Missing = self.recorder
        if self._sink is None:
            self.events = Missing(
                "No sink of this pipeline writes Parquet or JSON files on this machine, which the console could follow."
            )
        self.objects: ObjectsPart | Missing = Missing("Objects are kept by the workers of Spark. Look at their events.")
        self._recent = RecentRows("object", "time", _ROWS)
        reason = why_none(file)
        stream = Missing(reason) if reason else StreamRows(file, self._versions, self._book)
        self.rows: RowsPart | Missing = stream
        self._objects = StreamObjects(
            stream, self._book, self._recent, lambda values: rules_at(self._versions, values), _BY_EVENTS, _ROWS
        )
        if self._sink is not None and file.section("operator")["kind"] == "watch":
            self.objects = self._objects

    # -- following -----------------------------------------------------------------------------------------

    def follow(self, ended: threading.Event) -> None:
        """Note what the pipeline does, until it is over."""
        while not ended.wait(_LOOK):
            counts = dict(self._progress.counts)
            fresh = {name: number - self._last.get(name, 0) for name, number in counts.items()}
            self._last = counts
            events = None if self._sink is None else self._sink.read_new()
            if events is None:
                self.recorder.count(fresh.get("rows", 0), {kind: fresh.get(kind, 0) for kind in KINDS})
            else:
                self.recorder.record(events, fresh.get("rows", 0))
                rows = _as_rows(events)
                self._recent.record(rows)
                self._objects.record(rows)

    # -- answers -------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """The pipeline looks at its book by itself."""

    def why(self, event: Mapping[str, Any]) -> Any:
        """The rule behind an event, where the book knows it."""
        from fencepost.service.questions import explain_event

        if self._book is None:
            return Missing("The book that has the rule is not known to this pipeline.")
        try:
            return explain_event(event, self._book, self._versions.schema() or {})
        except FencepostError as error:
            return Missing(str(error))

    def overview(self) -> Overview:
        """How things are now."""
        found = self._progress.figures(0.0)
        counts, batch = found["counts"], found["last_batch"]
        rows, events, latency = self.recorder.series()
        per_second = self.recorder.rates()
        lag = self._progress.lag()
        figures = [
            Figure("Rows per second", f"{per_second[0]:,.0f}", f"{counts['rows']:,} in all"),
            Figure("Events per second", f"{per_second[1]:,.1f}", f"{counts['events']:,} in all"),
            Figure("Behind", "\u2013" if lag is None else f"{max(0.0, lag):,.1f} s", "age of the newest row"),
            Figure("Late rows", f"{counts['late']:,}", "older than the last row of their object"),
            Figure("Not usable", f"{counts['dead_letters']:,}", "rows among the dead letters"),
        ]
        facts = [
            ("Rules in force", "\u2013" if found["rules"] is None else f"{int(found['rules']):,}"),
            ("Version in force", str(found["rule_version"] or "\u2013")),
            ("Last batch", "none yet" if batch is None else f"{count(batch['rows'], 'row')} in {batch['seconds']:g} s"),
            ("Restarts", f"{counts['restarts']:,}"),
        ]
        if found["pending"] is not None:
            facts.append(("Held back", f"{int(found['pending'] + (found['ending'] or 0)):,}"))
        facts += [
            (f"Sink {name}", f"{sink['posted']:,} posted, {sink['waiting']:,} wait")
            for name, sink in found["sinks"].items()
        ]
        parts = (("Events", self.events), ("Objects", self.objects))
        left_out = [(name, part.reason) for name, part in parts if isinstance(part, Missing)]
        state = "running" if counts["batches"] else "starting"
        return Overview(state, figures, rows, events, latency, facts, left_out=left_out)


def _open_book(file: PipelineFile, ends: ExitStack) -> RuleBook | None:
    from fencepost.pipeline.runtime.book import open_book

    url = file.section("rules").get("book")
    return ends.enter_context(open_book(url, file)) if url else None


def _find_sink(file: PipelineFile) -> "_EventFiles | None":
    """The first sink whose files can be read here."""
    for sink in file.sinks.values():
        if sink["format"] in _READERS and sink.get("path") and "://" not in str(sink["path"]).removeprefix("file://"):
            return _EventFiles(file.resolved(sink["path"]), _READERS[sink["format"]])
    return None


class _EventFiles:
    """Files that a sink writes, each read once."""

    def __init__(self, folder: Path, read: Callable[[Path], Any]) -> None:
        self._folder, self._read = folder, read
        self._seen: set[str] | None = None

    def read_new(self) -> Any:
        """The events of files that are new; None for none."""
        there = sorted(self._written(), key=lambda path: path.name)
        if self._seen is None:
            self._seen = {path.name for path in there[:-_FILES]}
        new = [path for path in there if path.name not in self._seen][:_FILES]
        tables = []
        for path in new:
            try:
                table = self._read(path)
            except (OSError, pa.ArrowException):
                continue  # it is still written, or was replaced: the next look finds it
            self._seen.add(path.name)
            if table.num_rows and "event_id" in table.schema.names:
                tables.append(_as_events(table))
        return pa.concat_tables(tables, promote_options="permissive") if tables else None

    def _written(self) -> Iterator[Path]:
        """Files that are whole: those that Spark has noted, where it notes them."""
        notes = self._folder / "_spark_metadata"
        if not notes.is_dir():
            yield from (path for path in self._folder.glob("part-*") if path.is_file())
            return
        for note in sorted((path for path in notes.iterdir() if path.name[:1].isdigit()), key=_number)[-_FILES:]:
            for line in note.read_text().splitlines()[1:]:
                yield self._folder / Path(json.loads(line)["path"]).name


def _number(note: Path) -> int:
    return int(note.name.partition(".")[0])


def _as_events(table: Any) -> Any:
    """Events as a Monitor gives them: times are instants, identifiers are numbers."""
    for name, type_ in (("time", pa.timestamp("us", "UTC")), ("rule_id", pa.int64())):
        place = table.schema.get_field_index(name)
        column = table.column(place)
        if column.type != type_ and (name == "rule_id" or not pa.types.is_integer(column.type)):
            try:
                table = table.set_column(place, name, column.cast(type_))
            except pa.ArrowException:
                continue
    return table


def _as_rows(events: Any) -> Any:
    """What events say of their objects: the values after, as rows have them."""
    names = events.schema.names
    return events.select(["object", "time", *(name for name in names if f"{name}_before" in names)])


_READERS: Mapping[str, Callable[[Path], Any]] = {"parquet": pq.read_table, "json": pj.read_json}


@contextmanager
def open_console(
    file: PipelineFile, progress: Any, rules: str, say: Callable[[str], None], show: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Serve the pages of a pipeline while it runs.

    The address ends with a token that opens the pages. Logs go to many places, so it is in a file of the user's own.

    Args:
        file: of the pipeline.
        progress: what it has done so far.
        rules: the directory of versions that its operator follows.
        say: writes to the log.
        show: shows the address to somebody who looks on, if anybody does.
    """
    with ExitStack() as ends:
        source = PipelineSource(file, progress, rules, ends)
        ended = threading.Event()
        following = threading.Thread(target=source.follow, args=(ended,), name="fencepost console", daemon=True)
        server = ends.enter_context(ConsoleServer(source))
        following.start()
        place = own_place(file, "console.url")
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, f"{server.address}\n", mode=PRIVATE)
        ends.callback(place.unlink, missing_ok=True)
        say(f"console at {server.base}; the address that opens it is in {place}")
        if show is not None:
            show(f"open the console: {server.address}")
        try:
            yield
        finally:
            ended.set()
            following.join(5)
