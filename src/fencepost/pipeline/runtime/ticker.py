"""Ticks on the query of a running pipeline, where anything can end by time."""

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fencepost._files.storage import place_of
from fencepost.errors import FencepostError
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.ticks import DEFAULT_TICK, Ticks, check_ticking, is_instant
from fencepost.pipeline.runtime.identity import own_place
from fencepost.pipeline.runtime.log import Log
from fencepost.pipeline.runtime.progress import Progress
from fencepost.pipeline.runtime.sources import FAULTS
from fencepost.published import VersionDirectory
from fencepost.published.markers import Markers
from fencepost.rules.durations import parse_duration
from fencepost.snapshot import NEVER
from fencepost.snapshot.damping import has_durations
from fencepost.spark.plan.columns import quoted
from fencepost.spark.work.caches import Published, snapshot_at


def make_ticker(file: PipelineFile, frames: Mapping[str, Any], rules: str, log: Log) -> "Ticker | None":
    """The ticker of a pipeline; None where nothing can end by time."""
    operator, trigger = file.section("operator"), file.section("trigger")
    if operator["kind"] == "match" or operator["tick"] is False or trigger["once"]:
        return None
    column = operator["time"]
    types = [type_ for frame in frames.values() for _, type_ in frame.select(quoted(column)).dtypes]
    for type_ in types:
        if operator["tick"]:
            check_ticking(column, type_)
        elif not is_instant(type_):
            return None
    ticks = Ticks(
        Markers(own_place(file, "markers")),
        [f"{FAULTS} {name}" for name in frames],
        parse_duration(operator["tick"] or DEFAULT_TICK),
        parse_duration(trigger["every"]) if trigger["every"] else timedelta(0),
        dates="date" in types,
        now=_now(),
    )
    always = bool(operator["tick"] or operator["timeout"])
    return Ticker(ticks, None if always else VersionDirectory(place_of(rules).absolute()), log)


class Ticker:
    """Ticks as long as it is called; a marker that cannot be written is logged, once for each cause.

    With a directory of `rules` it only ticks while one of them expires or has a duration, such as `for`.
    """

    def __init__(self, ticks: Ticks, rules: VersionDirectory | None, log: Log) -> None:
        self._ticks, self._rules, self._log = ticks, rules, log
        self._wanted: tuple[int, bool] | None = None
        """Whether the rules of a version need ticks."""
        self._logged = ""

    def tick(self, query: Any, progress: Progress) -> None:
        """Read the progress of a pipeline's query, and announce the time to it where it is due."""
        now, idle = _now(), _is_idle(query)
        for report in progress.read(query):  # after the look at the query: what it did before that is reported
            self._ticks.see(report)
        try:
            self._ticks.tick(now, idle=idle, wanted=lambda: self._is_wanted(progress.version))
        except (FencepostError, OSError) as error:
            if str(error) != self._logged:
                self._logged = str(error)
                what = "silent objects, expired rules and durations"
                self._log.warning(f"{what} wait, since no time could be announced: {error}")

    def _is_wanted(self, version: int | None) -> bool:
        if self._rules is None:
            return True
        version = self._rules.latest() if version is None else version
        if version is None:
            return False
        if self._wanted is None or self._wanted[0] != version:
            snapshot = snapshot_at(Published(str(self._rules.path)), version)
            expires = bool((snapshot.rules.expires[snapshot.in_force] != NEVER).any())
            self._wanted = version, expires or has_durations(snapshot.damping, snapshot.in_force)
        return self._wanted[1]


def _is_idle(query: Any) -> bool:
    """Whether the query has looked for rows, is done with them, and waits."""
    status = query.status
    return not status["isTriggerActive"] and status["message"].startswith("Waiting")


def _now() -> int:
    return time.time_ns() // 1000
