"""What a running pipeline has done so far, from the progress reports of its queries."""

from typing import Any, NamedTuple, TextIO

from fencepost.pipeline.runtime.changes import Applied
from fencepost.pipeline.runtime.operators import OBSERVED
from fencepost.pipeline.runtime.sources import FAULTS
from fencepost.pipeline.runtime.webhook import Posted

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
    """Events that the webhook took."""
    undelivered: int
    """Events that it did not take; they are in its dead letters."""
    rule_changes: int
    bad_changes: int
    rule_version: int | None
    seconds: float

    def __str__(self) -> str:
        rate = self.rows / self.seconds if self.seconds else 0.0
        said = f"{self.rows:,} rows ({rate:,.0f}/s), {self.events:,} events, rule version {self.rule_version or '-'}"
        for name in ("dead_letters", "late", "posted", "undelivered", "rule_changes", "bad_changes"):
            if count := getattr(self, name):
                said += f", {count:,} {name.replace('_', ' ')}"
        return said


class Progress:
    """Adds up the reports of a query, each once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._last = -1
        self._batches = self._rows = self._events = self._faults = self._late = 0
        self._posted = Posted(0, 0, 0)
        self._applied = Applied(0, 0, 0)
        self._version: int | None = None
        self._shown = ""

    def posted(self, posted: Posted) -> None:
        """Hear what a webhook did."""
        self._posted = Posted(*(a + b for a, b in zip(self._posted, posted, strict=True)))

    def applied(self, applied: Applied) -> None:
        """Hear what became of changes of rules."""
        self._applied = Applied(*(a + b for a, b in zip(self._applied, applied, strict=True)))

    @property
    def version(self) -> int | None:
        """The rule version in force; None before the first micro-batch."""
        return self._version

    def take(self, query: Any) -> list[Any]:
        """Take the reports that are new, and give them."""
        taken = []
        for report in query.recentProgress:
            if report["batchId"] <= self._last or not report["numInputRows"]:
                continue
            self._last = report["batchId"]
            self._batches += 1
            self._rows += sum(source["numInputRows"] for source in report["sources"] if _is_data(source))
            for name, figures in (report["observedMetrics"] or {}).items():
                self._observe(name, figures.asDict() if hasattr(figures, "asDict") else figures)
            taken.append(report)
        return taken

    def _observe(self, name: str, figures: Any) -> None:
        if name.startswith(FAULTS):
            self._faults += figures["faults"]
        elif name == OBSERVED:
            self._events += sum(figures.get(kind) or 0 for kind in _KINDS)
            self._late += figures.get("late") or 0
            self._version = figures.get("version") or self._version

    def summary(self, seconds: float) -> Summary:
        """All so far."""
        return Summary(
            self._batches,
            self._rows,
            self._events,
            self._faults,
            self._late,
            self._posted.posted,
            self._posted.dead,
            self._applied.changed,
            self._applied.dead,
            self._version,
            seconds,
        )

    def show(self, seconds: float) -> None:
        """Write the line of progress, over the last one on a terminal; nothing where nothing is new."""
        said = str(self.summary(seconds))
        if self._batches == 0 or said.partition(")")[2] == self._shown:
            return
        self._shown = said.partition(")")[2]
        self._out.write(f"\r\x1b[K{said}" if self._out.isatty() else f"{said}\n")
        self._out.flush()


def _is_data(source: Any) -> bool:
    """Whether a source of the plan is the user's, not the markers of published versions."""
    return not str(source["description"]).rstrip("]").endswith("/markers")
