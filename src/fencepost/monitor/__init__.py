"""Monitor: standing rules over objects that move, in one process."""

from fencepost.monitor.band_reasons import BandReason
from fencepost.monitor.core import Monitor
from fencepost.monitor.reasons import Reason

__all__ = ["BandReason", "Monitor", "Reason"]
