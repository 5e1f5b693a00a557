"""The clock of a pipeline as its file tells it, and the rules that it cannot do with."""

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from fencepost.errors import FencepostError
from fencepost.ordinals import AttributeType
from fencepost.pipeline.file.columns import Columns
from fencepost.pipeline.file.document import PipelineFile
from fencepost.rules.durations import parse_duration
from fencepost.rules.faults import FaultyRules
from fencepost.snapshot import Snapshot, Table
from fencepost.watching.clock import Clock, rules_beyond_clock

_REMEDY = 'Set timeout in [operator], for example timeout = "10 minutes".'


def timeout_of(file: PipelineFile) -> timedelta | int | None:
    """How long an object may be silent, as the operator says."""
    written = file.section("operator").get("timeout")
    return parse_duration(written) if isinstance(written, str) else written


class PipelineClock(NamedTuple):
    """A clock, and the type of its times."""

    clock: Clock
    type: AttributeType

    def find_faults(self, rules: Snapshot) -> dict[int, str]:
        """The rules that it cannot do with, by id with the reason."""
        return rules_beyond_clock(rules, self.clock, self.type).faults()

    def check_rules(self, rules: Snapshot) -> None:
        """Refuse the rules that it cannot do with, all at once."""
        faulty = FaultyRules()
        faulty.leave_out(rules, self.find_faults)
        faulty.refuse(len(rules), "Correct the rules; a pipeline runs without them.")


def clock_of(file: PipelineFile, columns: Mapping[str, Columns | None]) -> PipelineClock | None:
    """The clock of a pipeline; None where its operator has none, or only Spark can tell the type of times.

    A timeout that times cannot do with is refused.
    """
    time = file.section("operator").get("time")
    first = next((known for known in columns.values() if known is not None), None)
    if file.section("operator").get("kind") == "match" or time is None or first is None:
        return None
    try:
        own = Table(dict.fromkeys(first.types, ())).find(time)
        type_ = AttributeType.parse(None if own is None else first.types[own])
    except FencepostError:
        return None  # it is refused where columns are checked
    clock = Clock(time, timeout_of(file), remedy=_REMEDY)
    clock.check(type_, np.zeros(0, np.int64))
    return PipelineClock(clock, type_)
