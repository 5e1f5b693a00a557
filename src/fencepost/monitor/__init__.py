"""Monitor: standing rules over objects that move, in one process.

monitor   the façade
host      both engines, the emitter and the lock: a call that fails changes nothing
one_row   update_one, without tables
files     save and restore
reasons   why an event happened; pair_reasons for bands
settings  checks that Spark shares
"""

from fencepost.monitor.monitor import Monitor
from fencepost.monitor.pair_reasons import BandReason
from fencepost.monitor.reasons import Reason

__all__ = ["BandReason", "Monitor", "Reason"]
