"""Why an event happened, asked of rules alone: no object is known, and no clock runs."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from fencepost.monitor.monitor import Monitor
from fencepost.monitor.pair_reasons import BandReason
from fencepost.monitor.reasons import Reason


def explain_event(rules: Any, event: Mapping[str, Any], schema: Any = None) -> Reason | BandReason:
    """The rule behind an event, among rules that have it in the version that it names.

    Args:
        rules: as for `Monitor`.
        event: as `Monitor.why` takes it.
        schema: as for `Monitor`.

    """
    # Rules with lengths of time are refused without a clock, and those that detect silence without a timeout.
    return Monitor(rules, object="object", time="time", timeout=timedelta(days=1), schema=schema).why(event)
