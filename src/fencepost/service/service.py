"""Service: rules, rows and events of one process, durable; what routes and pages call.

Every method may be called from any thread. `observe` waits; `submit` gives a future. Refusals are `FencepostError`s,
which know their HTTP status (`refusals.status_of`).
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from fencepost.book import RuleBook
from fencepost.errors import FencepostError
from fencepost.published.difference import Difference
from fencepost.service.clock import newest_time, read_tick
from fencepost.service.desk import Desk
from fencepost.service.engine import Engine, Receipt
from fencepost.service.event_log import EventFilter, EventLog, EventPage
from fencepost.service.joining import group_tables
from fencepost.service.keys import Keys
from fencepost.service.publishing import Published, Publishing, VersionInfo
from fencepost.service.refusals import MissingError, TooLargeError
from fencepost.service.rows import table_of, with_times, write_rows
from fencepost.service.saves import Saves
from fencepost.service.segments import Segments
from fencepost.service.settings import Settings
from fencepost.service.single import newest_of, plain_row
from fencepost.service.starting import replay, start_watcher
from fencepost.service.statistics import Sample, Statistics
from fencepost.service.upkeep import Upkeep
from fencepost.service.values import read_values

if TYPE_CHECKING:
    from fencepost.rules import Rule
    from fencepost.service.trying import Tried
    from fencepost.snapshot import Snapshot
    from fencepost.watching.clock import BeyondClock

_LONGEST_KEY = 200
_JOINED = 20_000
"""Rows of a table of `recent_rows`, where calls have fewer."""


class Service:
    """A rule book, a Monitor that follows it, and logs of rows and events, in one directory.

    Args:
        settings: where the data is, and how rows are read.
        author: who makes changes, where the caller does not say.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with Service(Settings(data=Path(tempfile.mkdtemp()), object="symbol")) as service:
    ...     rule = service.rules.add({"condition": "price > 40", "detect": "enter,exit"}, "ann")
    ...     version = service.settle()
    ...     receipt = service.observe([{"symbol": "IBM", "price": 41.5}])
    ...     [event["detect"] for event in receipt.events.to_pylist()]
    ['enter']
    """

    def __init__(self, settings: Settings | None = None, *, author: str | None = None) -> None:
        self.settings = settings = Settings() if settings is None else settings
        self._closing = contextlib.ExitStack()
        with contextlib.ExitStack() as opened:
            settings.bind()
            opened.callback(os.close, _lock(settings.data))
            self.book = opened.enter_context(RuleBook(settings.book_url, author=author))
            self.publishing = Publishing(
                self.book, settings.data / "published", settings.types, lambda rules: self._beyond_clock(rules).faults()
            )
            self.rules = Desk(self.book, self._columns, self._beyond_clock)
            self.statistics = Statistics()
            self._saves = Saves(settings.data / "saves")
            self._rows = Segments(settings.data / "rows", "rows")
            self._events = EventLog(settings.data / "events", self._saves.last_event())
            opened.callback(self._rows.close)
            opened.callback(self._events.close)
            keys = Keys()
            start = start_watcher(settings, self._saves, self._rows, self._events, keys)
            replay(start, self._rows, self._events, keys, self.publishing)
            self.engine = Engine(
                start.watcher,
                self._rows,
                self._events,
                keys,
                self.statistics,
                start.clock,
                most_waiting=settings.limits.waiting,
            )
            self.engine.start()
            opened.callback(self.engine.stop)
            self._upkeep = Upkeep(self, self._saves, self._rows, self._events)
            self._upkeep.start()
            opened.callback(self._upkeep.stop)
            self._closing = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do what waits, save the state, and let the directory go."""
        self._closing.close()

    # -- rules ---------------------------------------------------------------------------------------------

    def settle(self) -> int:
        """Let changed rules be in force, where the settings say that nobody need publish; the version in force."""
        return self.publish().version if self.settings.publish == "auto" else self.version

    def publish(self) -> Published:
        """Let the rules be in force as the book has them now."""
        return self.publishing.publish(self.engine)

    def preview(self) -> Difference:
        """What `publish` would change."""
        return self.publishing.preview(self.engine.watcher.about)

    @property
    def version(self) -> int:
        """The version in force; 0 before the first."""
        return self.engine.watcher.version

    def versions(self, before: int | None = None, limit: int = 20) -> list[VersionInfo]:
        """The newest versions first."""
        return self.publishing.versions(self.version, before, limit)

    def difference(self, version: int) -> Difference:
        """What a version changed."""
        return self.publishing.difference(version)

    def rules_at(self, text: str) -> list[int]:
        """The ids of the rules in force that hold at values as people write them, `price=47, symbol=IBM`."""
        found: list[int] = self.engine.watcher.monitor.rules_at(**read_values(text, self._columns()))
        return found

    def _columns(self) -> Mapping[str, str]:
        """The columns that rules can use, with their types."""
        return {**self.settings.types, **(self.publishing.directory.schema() or {})}

    def _beyond_clock(self, rules: "Snapshot") -> "BeyondClock":
        """The rules that the clock cannot do with, as far as its type is known."""
        return self.engine.watcher.beyond_clock(rules)

    # -- rows ----------------------------------------------------------------------------------------------

    def submit(self, rows: Any, *, key: str | None = None) -> "Future[Receipt]":
        """Log and apply rows: an Arrow table, or records; the future has what became of them.

        Args:
            rows: with a column for the object, perhaps one for the time, and any others.
            key: whoever sends rows again with the same key is answered as before; nothing is done twice.
        """
        now, settings = datetime.now(UTC), self.settings
        about: dict[str, Any] = {"at": now.timestamp()}
        if key is None and isinstance(rows, list) and len(rows) == 1:
            row = plain_row(rows[0], settings.object, settings.time, now, self.engine.watcher.time_type)
            if row is not None:
                if (newest := newest_of(row, settings.time)) is not None:
                    about["newest"] = newest
                return self.engine.put_rows(row, None, "", about)
        table = rows if isinstance(rows, pa.Table) else table_of(rows)
        if table.num_rows > settings.limits.rows:
            raise TooLargeError(
                f"{table.num_rows:,} rows", f"at most {self.settings.limits.rows:,}", "Send several calls."
            )
        if not table.num_rows:
            raise FencepostError("no rows", "at least one", "Send one JSON object per row.")
        digest = ""
        if key is not None:
            if not 0 < len(key) <= _LONGEST_KEY or not key.isprintable():
                raise FencepostError(
                    f"Idempotency-Key of {len(key):,} characters",
                    f"1 to {_LONGEST_KEY} printable ones",
                    "Take for example a UUID.",
                )
            digest = hashlib.blake2b(write_rows(table), digest_size=16).hexdigest()
        table = with_times(table, settings.object, settings.time, now, self.engine.watcher.time_type)
        if (newest := newest_time(table[settings.time])) is not None:
            about["newest"] = newest
        return self.engine.put_rows(table, key, digest, about)

    def observe(self, rows: Any, *, key: str | None = None, wait: float | None = 60.0) -> Receipt:
        """Log and apply rows, and wait for the events they cause.

        Args:
            rows: as for `submit`.
            key: as for `submit`.
            wait: at most so many seconds.
        """
        return self.submit(rows, key=key).result(wait)

    def tick(self, time: str | int, *, wait: float | None = 60.0) -> Receipt:
        """Promise that no row will come that is older than a time, and wait for the events that this brings.

        Args:
            time: ISO 8601 where times are instants, else a number. An instant is not ahead of now.
            wait: at most so many seconds.
        """
        return self.engine.put_tick(read_tick(time, self.engine.watcher.time_type)).result(wait)

    def match(self, rows: Any) -> list[list[int]]:
        """The ids of the rules in force whose condition holds, for each row by itself; a missing column is null."""
        table = rows if isinstance(rows, pa.Table) else table_of(rows)
        most, total, answer = self.settings.limits.matches, 0, list[list[int]]()
        for found in self.engine.watcher.match_pieces(table):
            total += len(found.ids)
            if total > most:
                raise TooLargeError(
                    f"{table.num_rows:,} rows with more than {most:,} rule ids in their answer",
                    f"at most {most:,}",
                    "Send fewer rows in a call.",
                )
            answer += [sorted(ids.tolist()) for ids in found]
        return answer

    # -- events --------------------------------------------------------------------------------------------

    def events(self, after: int = 0, filters: EventFilter | None = None, limit: int = 100) -> EventPage:
        """The first events behind a position."""
        return self._events.page(after, filters or EventFilter(), limit)

    def newest_events(
        self, filters: EventFilter | None = None, limit: int = 100, before: int | None = None
    ) -> EventPage:
        """The last events; those before a position."""
        return self._events.newest(filters or EventFilter(), limit, before)

    @property
    def first_event(self) -> int:
        """The position of the first event that is kept."""
        return self._events.first

    @property
    def last_event(self) -> int:
        """The position of the last event; 0 where there is none."""
        return self._events.last

    @contextlib.contextmanager
    def listening(self, wake: Callable[[], None]) -> Iterator[None]:
        """Let something be called whenever there are new events, by the thread of the engine."""
        owner = object()
        self.engine.listen(owner, wake)
        try:
            yield
        finally:
            self.engine.unlisten(owner)

    def event(self, which: str) -> dict[str, Any]:
        """One event, by its id or its position."""
        found = self._events.at(int(which)) if which.isascii() and which.isdigit() and len(which) < 19 else None
        if found is not None:
            return found
        found, since = self._events.find(which)
        if found is None and since > self.first_event:
            raise MissingError(
                f"event {which[:80]} is not among those from position {since:,} on",
                "the position of an event that is kept, or the id of one of these: so far back an id is looked for",
                "Ask with the position of the event.",
            )
        if found is None:
            raise MissingError(f"event {which[:80]}", "the id or position of an event that is kept", "Correct it.")
        return found

    # -- questions -----------------------------------------------------------------------------------------

    def why(self, which: str) -> tuple[dict[str, Any], Any]:
        """An event, and the rule behind it as it was."""
        from fencepost.service.questions import explain_event

        event = self.event(which)
        return event, explain_event(event, self.book, self._columns())

    def why_not(self, rule: int | str, object: str) -> Any:
        """Where an object stands with a rule in force."""
        from fencepost.service.questions import named_object

        self._check_in_force(rule)
        return self.engine.watcher.monitor.why_not(rule, named_object(self.engine.watcher, object))

    def inside(self, rule: int | str) -> list[Any]:
        """The objects inside a rule in force."""
        self._check_in_force(rule)
        return self.engine.watcher.monitor.inside(rule)

    def object(self, name: str) -> Any:
        """What is known of an object: its last values, and the rules it is inside."""
        from fencepost.service.questions import find_object

        return find_object(self.engine.watcher, name)

    def objects(self, after: int = 0, limit: int = 50) -> Any:
        """Some objects, in the order in which they first came; a page of them, from a place on."""
        return self.engine.watcher.monitor.objects(after, limit)

    def state(self) -> pa.Table:
        """All objects with their last time and values and what waits: what `fencepost.spark.save_state` takes."""
        return self.engine.watcher.monitor.state()

    def _check_in_force(self, rule: int | str) -> None:
        if rule not in self.engine.watcher.monitor.rules:
            self.rules.get(rule)  # which refuses one that does not exist at all
            raise MissingError(
                f"rule {rule} is not in force", "a rule that is", "Look whether it is paused, or publish."
            )

    def backtest(
        self,
        rules: "Sequence[Rule]",
        rows: Any = None,
        *,
        last: int = 100_000,
        calls: int | None = None,
        shown: int = 100,
    ) -> "Tried":
        """How often rules would have fired on rows that are given, or on the last rows of the log.

        Args:
            rules: they are replayed alone; `rules.check` and `rules.get` make them.
            rows: an Arrow table or records; None takes stored ones.
            last: how many of those.
            calls: of how many calls they are, at most; None for as many as they are.
            shown: how many events are given back.
        """
        from fencepost.service.trying import backtest, refuse_nothing, stored_rows

        refuse_nothing(rules)
        settings = self.settings
        if rows is None:
            tables: Sequence[pa.Table] = stored_rows(self._rows, last, calls)
        else:
            table = rows if isinstance(rows, pa.Table) else table_of(rows)
            tables = [with_times(table, settings.object, settings.time, datetime.now(UTC))] if table.num_rows else []
        columns = dict(self._columns())
        about: dict[str, Any] = {"object": settings.object, "time": settings.time, "timeout": settings.silence}
        return backtest(rules, tables, columns, shown=shown, passes_over=rows is None, zone=self.book.zone, **about)

    def recent_rows(self, last: int, calls: int) -> list[pa.Table]:
        """The last rows of the log, the newest table last; those of one schema that follow each other in one.

        Args:
            last: how many rows, at most.
            calls: of how many calls, at most.
        """
        from fencepost.service.trying import stored_rows

        return [pa.concat_tables(group) for group in group_tables(stored_rows(self._rows, last, calls), _JOINED)]

    def metrics(self) -> dict[str, Any]:
        """Totals, quantiles of how long calls took, and what the engine does now."""
        watcher = self.engine.watcher
        counters = watcher.monitor.counters
        return {
            **self.statistics.as_json(),
            "late": counters["late"],
            "null": counters["null"],
            "damped": counters["damped"],
            "pending": counters["pending"],
            "ending": counters["ending"],
            "upkeep": int(self.fault is not None),
            "version": watcher.version,
            "rules": len(watcher.monitor.rules),
            "faulty": len({fault.id for fault in self.publishing.faults} | watcher.left_out.keys()),
            "waiting": self.engine.waiting,
            "position": self._rows.next - 1,
            "last_event": self.last_event,
            "first_event": self.first_event,
            "log_bytes": self._rows.size,
            "event_bytes": self._events.segments.size,
        }

    @property
    def fault(self) -> FencepostError | None:
        """What keeps the book from being followed, the state from being saved, or old files from being deleted."""
        return self._upkeep.fault

    def samples(self, seconds: float = 3600.0) -> list[Sample]:
        """The totals over time, a sample a second."""
        kept = list(self.statistics.samples)
        return [each for each in kept if not kept or each.at >= kept[-1].at - seconds]


def open_service(**given: Any) -> Service:
    """A service with some settings: `open_service(data=Path("fencepost-data"), object="symbol")`."""
    return Service(replace(Settings(), **given))


def _lock(directory: Path) -> int:
    """Hold a directory; refused while another process does."""
    file = os.open(directory / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise FencepostError(
            f"{directory}, which another process uses",
            "a directory of its own for each service",
            "Stop the other one, or name another directory with --data.",
        ) from None
    return file
