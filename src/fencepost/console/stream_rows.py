"""The last rows of a stream on Spark, read again when somebody tries a condition or asks why there is no event.

They are kept for some seconds, so that whoever types does not have them read at every key.
"""

import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import count
from fencepost.book import RuleBook
from fencepost.console.rows import RowObjects, find_trail
from fencepost.console.source import Missing, SeenObject, Trail, Trial
from fencepost.console.tries import try_rules
from fencepost.errors import FencepostError
from fencepost.pipeline.file.clock import timeout_of
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.last_rows import read_last_rows
from fencepost.published import VersionDirectory
from fencepost.rules import Rule, Rules

_ROWS = 100_000
_FRESH = 10.0
"""Seconds that rows which were read are taken for the last ones."""


class StreamRows:
    """The last rows of a pipeline that runs in this process.

    Args:
        file: what it was started with.
        versions: the rules that its operator follows.
        book: the rule book, if it has one.
    """

    def __init__(self, file: PipelineFile, versions: VersionDirectory, book: RuleBook | None) -> None:
        self._file, self._versions, self._book = file, versions, book
        self._zone = "UTC" if book is None else book.zone
        self._lock = threading.Lock()
        self._read: tuple[float, pa.Table] | None = None
        operator = file.section("operator")
        self.object, self.time = str(operator["object"]), operator.get("time") or "time"

    def table(self) -> pa.Table:
        """The rows, in the order of time."""
        from fencepost.service.rows import with_times

        with self._lock:
            if self._read is None or time.monotonic() - self._read[0] > _FRESH:
                rows = read_last_rows(self._file, _ROWS)
                # Spark has instants in the zone of its session; a service has them in UTC.
                rows = with_times(rows, self.object, self.time, datetime.now(UTC))
                self._read = time.monotonic(), rows
            return self._read[1]

    def kept(self) -> str:
        """How many they are and since when, in words."""
        rows = self.table()
        since = pc.min(rows[self.time]).as_py()
        shown = since.strftime("%Y-%m-%d %H:%M:%S UTC") if isinstance(since, datetime) else since
        return f"{'the last ' if rows.num_rows > 1 else ''}{count(rows.num_rows, 'row')} of the source, since {shown}"

    # -- trying --------------------------------------------------------------------------------------------

    def try_condition(self, old: Rule | None, condition: str, options: Mapping[str, Any]) -> Trial:
        """What a rule and its next condition would have reported on these rows."""
        from fencepost.service.trying import backtest

        def replay(rules: list[Rule]) -> Any:
            return backtest(rules, [self.table()], shown=0, passes_over=True, **self._about())

        def check(fields: Mapping[str, Any]) -> Rule:
            return Rules.from_dicts([fields], zone=self._zone)[fields["id"]]

        return try_rules(old, condition, options, check, replay)

    def _about(self) -> dict[str, Any]:
        return {
            "columns": dict(self._versions.schema() or {}),
            "object": self.object,
            "time": self.time,
            "timeout": timeout_of(self._file),
            "zone": self._zone,
        }

    # -- objects -------------------------------------------------------------------------------------------

    def rows_of(self, name: str) -> pa.Table:
        """The rows of an object."""
        rows = self.table()
        return rows.filter(pc.equal(rows[self.object].cast(pa.string()), name).fill_null(False))

    def why_not(self, rule: Rule, name: str) -> Any:
        """Where an object stands with a rule after its last rows."""
        from fencepost.service.trying import stand

        mine = self.rows_of(name)
        if not mine.num_rows:
            return Missing(f"No row of {name} is among {self.kept()}.")
        return stand(rule, [mine], mine[self.object][0].as_py(), **self._about())


class StreamObjects(RowObjects):
    """Objects by their last events, and by the last rows of the stream where somebody asks for one."""

    def __init__(self, stream: StreamRows | Missing, rules: RuleBook | None, *given: Any) -> None:
        super().__init__(*given)
        self._stream, self._book = stream, rules

    def page(self, after: str, limit: int, beginning: str) -> tuple[list[SeenObject], str | None]:
        """The next objects that had an event, and the one of that name in any case."""
        found, following = super().page(after, limit, beginning)
        if beginning and not after and all(str(each.name) != beginning for each in found):
            own = self.get(beginning)
            found = found if own is None else [own, *found]
        return found, following

    def get(self, name: str) -> SeenObject | None:
        """One object: as its last rows have it, or else its last event."""
        trail = self.trail(name, 1_000)
        if trail is None or not trail.times:
            return super().get(name)
        values = {
            column: next((each for each in reversed(own) if each is not None), None)
            for column, own in trail.values.items()
        }
        return SeenObject(name, trail.times[-1], values)

    def trail(self, name: str, rows: int) -> Trail | None:
        """Its last rows."""
        if isinstance(self._stream, Missing):
            return super().trail(name, rows)
        try:
            found = find_trail([self._stream.rows_of(name)], self._stream.object, self._stream.time, name, rows)
        except FencepostError:  # nothing was read yet, or it is not there any more
            found = None
        return super().trail(name, rows) if found is None else found

    @property
    def told_from(self) -> str:
        """What an answer to why-not rests on."""
        return "" if isinstance(self._stream, Missing) else f"Found in {self._stream.kept()}."

    def why_not(self, rule: int, name: str) -> Any:
        """Where an object stands with a rule, as the last rows tell."""
        if isinstance(self._stream, Missing):
            return Missing(f"That cannot be told here: {self._stream.reason}")
        if self._book is None:
            return Missing("The rules of this pipeline are in no book that could be asked.")
        found = self._book.some([rule])
        if not found:
            return Missing(f"There is no rule {rule}.")
        known = found[0]
        if not known.enabled:
            return Missing(f"Rule {rule} is paused.")
        return self._stream.why_not(known, name)
