"""Monitor: standing rules over objects that move, in one process.

monitor   the façade
host      both engines, the emitter and the lock: a call that fails changes nothing
one_row   update_one, without tables: single rows the short way of few (watching/few_rows)
aside     aupdate and aupdate_one, beside an event loop
files     save, restore and load
rules_view  the rules in force, to look at
reasons   why an event happened; pair_reasons for bands, with what pair_sides computes of either row
explaining  the same of rules alone; expressions of one row
pieces    a batch whose events have no room at once
tally     how often each rule fired
standing  why an object is not reported, pair_standing a pair; known is what is known of an object
settings  checks that Spark shares
"""

from fencepost.monitor.monitor import Monitor
from fencepost.monitor.pair_reasons import BandReason
from fencepost.monitor.reasons import Reason
from fencepost.monitor.standing import Standing

__all__ = ["BandReason", "Monitor", "Reason", "Standing"]
