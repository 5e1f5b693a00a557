"""How large a cluster must be: a model of what Spark needs, from constants that `make bench-spark` measures.

model       what a workload needs
constants   what was measured, and on which machine
bends       where the model does not follow a workload
"""

from fencepost.sizing.bends import find_bends
from fencepost.sizing.constants import Constants, Measured, read_measured
from fencepost.sizing.model import Hosts, Size, Workload, size_of

__all__ = ["Constants", "Hosts", "Measured", "Size", "Workload", "find_bends", "read_measured", "size_of"]
