"""The catalogue: every index structure, one class each.

Intervals answer "which intervals contain this value?" (`stab`). All of them share one contract, in
`fencepost.indexes.intervals.contract`, and one conformance suite, which tests every class listed here.
Boxes answer "which boxes contain this point?", likewise, with `fencepost.indexes.boxes.contract`.
Borders answer "what did this move enter, leave or jump over?" (`update`, `crossings`); their contract is in
`fencepost.indexes.borders.contract`.
Bands keep two changing sets of numbers and answer "which pairs, which standing queries a <= left - right <= b, does a
value on one side concern?" (`pairs`, `affected`); their contract is in `fencepost.indexes.bands.contract`.
"""

from fencepost.indexes.bands.blocks import BlockBands
from fencepost.indexes.bands.quadratic import QuadraticBands
from fencepost.indexes.bands.ssi import SSI
from fencepost.indexes.bands.stabbing import StabbingBands
from fencepost.indexes.borders.bmq import BMQ
from fencepost.indexes.borders.borders import Borders
from fencepost.indexes.borders.contract import Crossings
from fencepost.indexes.borders.diff import DiffRMQ
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
    "BMQ",
    "CEI",
    "LCI",
    "SCI",
    "SSI",
    "UI",
    "VCR",
    "BlockBands",
    "Borders",
    "BoxIndex",
    "Crossings",
    "DiffRMQ",
    "ISList",
    "Linear",
    "LinearBoxes",
    "Matches",
    "QuadraticBands",
    "RTree",
    "SliceList",
    "StabbingBands",
    "Storage",
]
