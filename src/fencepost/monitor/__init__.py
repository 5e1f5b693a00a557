"""Monitor: standing rules over objects that move, in one process."""

from fencepost.monitor.monitor import Monitor
from fencepost.monitor.pair_reasons import BandReason
from fencepost.monitor.reasons import Reason

__all__ = ["BandReason", "Monitor", "Reason"]
