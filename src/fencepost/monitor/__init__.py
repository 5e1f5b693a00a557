"""Monitor: standing rules over objects that move, in one process."""

from fencepost.monitor.core import Monitor
from fencepost.monitor.reasons import Reason

__all__ = ["Monitor", "Reason"]
