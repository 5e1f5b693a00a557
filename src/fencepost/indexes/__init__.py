"""The catalogue: every index structure, one class each.

Intervals answer "which intervals contain this value?" (`stab`). All of them share one contract, in
`fencepost.indexes.intervals.contract`, and one conformance suite, which tests every class listed here.
Boxes answer "which boxes contain this point?", likewise, with `fencepost.indexes.boxes.contract`.
"""

from fencepost.indexes.boxes.box_index import BoxIndex
from fencepost.indexes.boxes.linear import LinearBoxes
from fencepost.indexes.boxes.rtree import RTree
from fencepost.indexes.boxes.vcr import VCR
from fencepost.indexes.intervals.acei import ACEI
from fencepost.indexes.intervals.cei import CEI
from fencepost.indexes.intervals.islist import ISList
from fencepost.indexes.intervals.lci import LCI
from fencepost.indexes.intervals.linear import Linear
from fencepost.indexes.intervals.sci import SCI
from fencepost.indexes.intervals.slices import SliceList
from fencepost.indexes.intervals.ui import UI
from fencepost.indexes.matches import Matches, Storage

__all__ = [
    "ACEI",
    "CEI",
    "LCI",
    "SCI",
    "UI",
    "VCR",
    "BoxIndex",
    "ISList",
    "Linear",
    "LinearBoxes",
    "Matches",
    "RTree",
    "SliceList",
    "Storage",
]
