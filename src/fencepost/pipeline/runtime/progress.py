"""What a running pipeline has done so far, from the progress reports of its queries."""

import bisect
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fencepost._text import count
from fencepost.deliveries.sender import Delivered
from fencepost.pipeline.file.ticks import NEWEST
from fencepost.pipeline.runtime.changes import Applied
from fencepost.pipeline.runtime.log import Log
from fencepost.pipeline.runtime.operators import OBSERVED, TIMES
from fencepost.pipeline.runtime.sources import FAULTS

KINDS = ("enter", "exit", "cross", "inside", "silent")
WAITING = ("pending", "ending")
TRIGGER_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
"""Seconds that divide how long triggers took."""
LATENCY_BOUNDS = (*TRIGGER_BOUNDS, 300.0, 900.0, 3600.0, 21600.0, 86400.0)
"""Seconds that divide how old events were when they were written."""


class Histogram:
    """Counts of seconds, divided by bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.sum = tuple(bounds), 0.0
        self._counts = [0] * (len(bounds) + 1)

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration, which may have come several times."""
        self._counts[bisect.bisect_left(self.bounds, seconds)] += times
        self.sum += times * seconds

    def counts(self) -> list[int]:
        """How many were up to each bound and above the one before; the last are those above all bounds."""
        return list(self._counts)


_GAUGES = ("rules", "rejected", "skipped", *WAITING)


class Summary(NamedTuple):
    """What a pipeline did."""

    batches: int
    rows: int
    """Read from the sources, usable or not."""
    events: int
    """Events, or matches."""
    dead_letters: int
    """Rows that could not be used; they are in the dead letters where the source names a place."""
    late: int
    posted: int
    """Events that the webhook accepted."""
    undelivered: int
    """Events that it did not accept; they are in its dead letters."""
    waiting: int
    """Events that are still to be posted; the next run does that."""
    rule_changes: int
    bad_changes: int
    rule_version: int | None
    seconds: float
    null: int = 0
    """Rows without a value in any column that rules use."""
    restarts: int = 0
    """How often the pipeline was started again after a failure that passed."""
    damped: int = 0
    """Enters that waited and came to nothing."""

    def __str__(self) -> str:
        rate = self.rows / self.seconds if self.seconds else 0.0
        rows, events = count(self.rows, "row"), count(self.events, "event")
        nouns = {"dead_letters": "dead letter", "rule_changes": "rule change", "bad_changes": "bad change"}
        nouns["restarts"] = "restart"
        more = [count(getattr(self, field), noun) for field, noun in nouns.items() if getattr(self, field)]
        more += [
            f"{getattr(self, name):,} {name}"
            for name in ("late", "posted", "undelivered", "waiting")
            if getattr(self, name)
        ]
        return ", ".join([f"{rows} ({rate:,.0f}/s)", events, f"rule version {self.rule_version or '-'}", *more])


class Sent(NamedTuple):
    """What became of the events of one webhook."""

    delivered: Delivered
    waiting: int


class Progress:
    """Adds up the reports of a query, each once, also over restarts of it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last = -1
        self._counts: Counter[str] = Counter()
        """By the fields of `Summary`, and events by kind."""
        self.version: int | None = None
        """The rule version in force; None before the first micro-batch."""
        self.gauges: dict[str, float] = {}
        """What the operator said last: rules in force, versions that could not be used, rules without columns, and what
        damping holds."""
        self.newest: int | None = None
        """The newest event time of any row, in microseconds since 1970; None where times are no instants."""
        self.batch: dict[str, Any] | None = None
        """The last micro-batch."""
        self.offsets_behind: int | None = None
        """Messages that were not read yet when the last micro-batch was planned, where the source tells."""
        self.triggers = Histogram(TRIGGER_BOUNDS)
        """How long micro-batches took."""
        self.latencies = Histogram(LATENCY_BOUNDS)
        """From the time of events to the end of the micro-batch that wrote them."""
        self.sent: dict[str, Sent] = {}
        """By the names of webhooks."""
        self._shown = ""
        self._seen: Any = None
        """Which report of which query was the last."""

    @property
    def counts(self) -> Mapping[str, int]:
        """So far."""
        return self._counts

    def show_delivered(self, name: str, delivered: Delivered, waiting: int) -> None:
        """Show what a webhook did in this run of the query, and how many events wait for it."""
        self.sent[name] = Sent(delivered, waiting)

    def count_applied(self, applied: Applied) -> None:
        """Add the outcome of changes of rules."""
        self._counts.update(rule_changes=applied.changed, bad_changes=applied.dead)

    def count_restart(self) -> None:
        """Note that the query starts again; what its webhooks did before is kept."""
        self._counts["restarts"] += 1
        for sent in self.sent.values():
            self._counts.update(posted=sent.delivered.posted, undelivered=sent.delivered.undelivered)
        self.sent.clear()

    def read(self, query: Any) -> list[Any]:
        """Add the reports of a query that are new, and return them."""
        last, new = query.lastProgress, []
        if last is None or self._seen == (seen := (last["runId"], last["batchId"], last["timestamp"])):
            return []
        self._seen = seen
        # Spark keeps a hundred reports, and to fetch them all takes longer than most triggers.
        is_next = last["numInputRows"] and last["batchId"] == self._last + 1
        for report in [last] if is_next else query.recentProgress:
            if report["batchId"] <= self._last or not report["numInputRows"]:
                continue
            self._last = report["batchId"]
            rows = sum(source["numInputRows"] for source in report["sources"] if _is_data(source))
            self._counts.update(batches=1, rows=rows)
            for name, figures in (report["observedMetrics"] or {}).items():
                self._observe(name, figures.asDict() if hasattr(figures, "asDict") else figures)
            self._note_batch(report, rows)
            new.append(report)
        return new

    def _note_batch(self, report: Any, rows: int) -> None:
        seconds = (report.get("durationMs") or {}).get("triggerExecution", 0) / 1000
        self.triggers.add(seconds)
        self._note_latencies(report, seconds)
        self.batch = {"id": self._last, "time": report.get("timestamp"), "rows": rows, "seconds": seconds}
        behind = [_offsets_behind(source) for source in report["sources"]]
        known = [number for number in behind if number is not None]
        self.offsets_behind = sum(known) if known else None

    def _note_latencies(self, report: Any, seconds: float) -> None:
        figures = (report["observedMetrics"] or {}).get(TIMES)
        if figures is None or not report.get("timestamp"):
            return
        end = datetime.fromisoformat(report["timestamp"]).timestamp() + seconds
        for each in json.loads(figures["times"] or "[]"):
            self.latencies.add(max(0.0, end - each["x"] / 1e6), round(each["y"]))

    def _observe(self, name: str, figures: Any) -> None:
        if name.startswith(FAULTS):
            self._counts["dead_letters"] += figures["faults"]
            newest = figures.get(NEWEST)
            if newest is not None:
                self.newest = newest if self.newest is None else max(newest, self.newest)
        elif name == OBSERVED:
            kinds = {kind: figures.get(kind) or 0 for kind in KINDS}
            self._counts.update(kinds)
            self._counts.update(events=sum(kinds.values()), late=figures.get("late") or 0)
            self._counts.update(null=figures.get("null_rows") or 0, damped=figures.get("damped") or 0)
            self.version = figures.get("version") or self.version
            self.gauges |= {name: figures[name] for name in _GAUGES if figures.get(name) is not None}

    def lag(self) -> float | None:
        """Seconds from the newest event time to now."""
        return None if self.newest is None else time.time() - self.newest / 1e6

    def summary(self, seconds: float) -> Summary:
        """All so far."""
        counts = {name: self._counts[name] for name in Summary._fields}
        counts["posted"] += sum(sent.delivered.posted for sent in self.sent.values())
        counts["undelivered"] += sum(sent.delivered.undelivered for sent in self.sent.values())
        counts["waiting"] = sum(sent.waiting for sent in self.sent.values())
        return Summary(**{**counts, "rule_version": self.version, "seconds": seconds})  # type: ignore[arg-type]

    def figures(self, seconds: float) -> dict[str, Any]:
        """All so far, for the status file."""
        newest = None if self.newest is None else datetime.fromtimestamp(self.newest / 1e6, UTC).isoformat()
        sinks = {name: {**sent.delivered._asdict(), "waiting": sent.waiting} for name, sent in self.sent.items()}
        return {
            "counts": {**self.summary(seconds)._asdict(), **{kind: self._counts[kind] for kind in KINDS}},
            "rule_version": self.version,
            "rules": self.gauges.get("rules"),
            "rejected_versions": self.gauges.get("rejected", 0),
            "skipped_rules": self.gauges.get("skipped", 0),
            **{name: self.gauges.get(name) for name in WAITING},
            "last_batch": self.batch,
            "newest": newest,
            "offsets_behind": self.offsets_behind,
            "sinks": sinks,
        }

    def show(self, seconds: float) -> None:
        """Write the line of progress; nothing where nothing is new."""
        summary = self.summary(seconds)
        line = str(summary)
        if not self._counts["batches"] or line.partition(")")[2] == self._shown:
            return
        self._shown = line.partition(")")[2]
        self._log.show(line, summary._asdict())


def _is_data(source: Any) -> bool:
    """Whether a source of the plan is the user's, not the markers of published versions."""
    return not str(source["description"]).rstrip("]").endswith("/markers")


def _offsets_behind(source: Any) -> int | None:
    """How many messages of its topics a source of Kafka had left unread; None for others."""
    try:
        latest, end = (_offsets(source[name]) for name in ("latestOffset", "endOffset"))
        return sum(
            max(0, offset - end.get(topic, {}).get(partition, 0))
            for topic, partitions in latest.items()
            for partition, offset in partitions.items()
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _offsets(given: Any) -> dict[str, dict[str, int]]:
    found = json.loads(given) if isinstance(given, str) else given
    return {topic: {str(part): int(offset) for part, offset in parts.items()} for topic, parts in found.items()}
