"""What a running pipeline has done so far, from the progress reports of its queries."""

from collections import Counter
from typing import Any, NamedTuple, TextIO

from fencepost._text import count, printable_lines
from fencepost.deliveries.sender import Delivered
from fencepost.pipeline.runtime.changes import Applied
from fencepost.pipeline.runtime.operators import OBSERVED
from fencepost.pipeline.runtime.sources import FAULTS

_KINDS = ("enter", "exit", "cross", "inside")


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

    def __str__(self) -> str:
        rate = self.rows / self.seconds if self.seconds else 0.0
        rows, events = count(self.rows, "row"), count(self.events, "event")
        nouns = {"dead_letters": "dead letter", "rule_changes": "rule change", "bad_changes": "bad change"}
        more = [count(getattr(self, field), noun) for field, noun in nouns.items() if getattr(self, field)]
        more += [
            f"{getattr(self, name):,} {name}"
            for name in ("late", "posted", "undelivered", "waiting")
            if getattr(self, name)
        ]
        return ", ".join([f"{rows} ({rate:,.0f}/s)", events, f"rule version {self.rule_version or '-'}", *more])


class Progress:
    """Adds up the reports of a query, each once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last = -1
        self._counts: Counter[str] = Counter()
        """By the fields of `Summary`."""
        self.version: int | None = None
        """The rule version in force; None before the first micro-batch."""
        self._shown = ""

    def show_delivered(self, delivered: Delivered, waiting: int) -> None:
        """Show what a webhook did in all, and how many events wait for it."""
        self._counts |= {"posted": delivered.posted, "undelivered": delivered.undelivered, "waiting": waiting}

    def count_applied(self, applied: Applied) -> None:
        """Add the outcome of changes of rules."""
        self._counts.update(rule_changes=applied.changed, bad_changes=applied.dead)

    def read(self, query: Any) -> list[Any]:
        """Add the reports of a query that are new, and return them."""
        new = []
        for report in query.recentProgress:
            if report["batchId"] <= self._last or not report["numInputRows"]:
                continue
            self._last = report["batchId"]
            rows = sum(source["numInputRows"] for source in report["sources"] if _is_data(source))
            self._counts.update(batches=1, rows=rows)
            for name, figures in (report["observedMetrics"] or {}).items():
                self._observe(name, figures.asDict() if hasattr(figures, "asDict") else figures)
            new.append(report)
        return new

    def _observe(self, name: str, figures: Any) -> None:
        if name.startswith(FAULTS):
            self._counts["dead_letters"] += figures["faults"]
        elif name == OBSERVED:
            events = sum(figures.get(kind) or 0 for kind in _KINDS)
            self._counts.update(events=events, late=figures.get("late") or 0)
            self.version = figures.get("version") or self.version

    def summary(self, seconds: float) -> Summary:
        """All so far."""
        counts = {name: self._counts[name] for name in Summary._fields}
        return Summary(**{**counts, "rule_version": self.version, "seconds": seconds})  # type: ignore[arg-type]

    def show(self, seconds: float) -> None:
        """Write the line of progress, over the last one on a terminal; nothing where nothing is new."""
        line = str(self.summary(seconds))
        if not self._counts["batches"] or line.partition(")")[2] == self._shown:
            return
        self._shown = line.partition(")")[2]
        self._out.write(f"\r\x1b[K{line}" if self._out.isatty() else f"{line}\n")
        self._out.flush()


def log(out: TextIO, message: str) -> None:
    """Write a message below the line of progress."""
    out.write(f"\n{printable_lines(message)}\n")


def _is_data(source: Any) -> bool:
    """Whether a source of the plan is the user's, not the markers of published versions."""
    return not str(source["description"]).rstrip("]").endswith("/markers")
