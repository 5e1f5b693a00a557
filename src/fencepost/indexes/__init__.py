"""The catalogue: every index structure, one class each.

Intervals answer "which intervals contain this value?" (`stab`). All of them share one contract, in
`fencepost.indexes.contracts.intervals`, and one conformance suite, which tests every class listed here.
Boxes answer "which boxes contain this point?", likewise, with `fencepost.indexes.contracts.boxes`.
Borders answer "what did this move enter, leave or jump over?" (`update`, `crossings`); their contract is in
`fencepost.indexes.contracts.borders`.
Bands keep two changing sets of numbers and answer "which pairs, which standing queries a <= left - right <= b, does a
value on one side concern?" (`pairs`, `affected`); their contract is in `fencepost.indexes.contracts.bands`.

contracts/      what every structure of a family must do; kernels/ compiled pieces that several share
slice_list/, box_index/, borders/, ssi/     production; papers/ the structures of the papers
arguments       what callers pass in, checked; arrays names what kernels take, ordinal the numbers they compare
runs            base plus changes
matches         answers; analysis says what a structure of the papers will need
"""

from typing import TYPE_CHECKING

from fencepost._lazy import lazily

if TYPE_CHECKING:
    from fencepost.indexes.borders.index import Borders
    from fencepost.indexes.box_index.index import BoxIndex
    from fencepost.indexes.contracts.borders import Crossings
    from fencepost.indexes.matches import Matches, Storage
    from fencepost.indexes.papers.acei import ACEI
    from fencepost.indexes.papers.blocks import BlockBands
    from fencepost.indexes.papers.bmq import BMQ
    from fencepost.indexes.papers.cei import CEI
    from fencepost.indexes.papers.diff import DiffRMQ
    from fencepost.indexes.papers.islist import ISList
    from fencepost.indexes.papers.lci import LCI
    from fencepost.indexes.papers.linear_boxes import LinearBoxes
    from fencepost.indexes.papers.linear_intervals import Linear
    from fencepost.indexes.papers.quadratic import QuadraticBands
    from fencepost.indexes.papers.rtree import RTree
    from fencepost.indexes.papers.sci import SCI
    from fencepost.indexes.papers.stabbing import StabbingBands
    from fencepost.indexes.papers.ui import UI
    from fencepost.indexes.papers.vcr import VCR
    from fencepost.indexes.slice_list.index import SliceList
    from fencepost.indexes.ssi.index import SSI

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

__getattr__ = lazily(
    __name__,
    {
        "ACEI": "fencepost.indexes.papers.acei",
        "BMQ": "fencepost.indexes.papers.bmq",
        "BlockBands": "fencepost.indexes.papers.blocks",
        "Borders": "fencepost.indexes.borders.index",
        "BoxIndex": "fencepost.indexes.box_index.index",
        "CEI": "fencepost.indexes.papers.cei",
        "Crossings": "fencepost.indexes.contracts.borders",
        "DiffRMQ": "fencepost.indexes.papers.diff",
        "ISList": "fencepost.indexes.papers.islist",
        "LCI": "fencepost.indexes.papers.lci",
        "Linear": "fencepost.indexes.papers.linear_intervals",
        "LinearBoxes": "fencepost.indexes.papers.linear_boxes",
        "Matches": "fencepost.indexes.matches",
        "QuadraticBands": "fencepost.indexes.papers.quadratic",
        "RTree": "fencepost.indexes.papers.rtree",
        "SCI": "fencepost.indexes.papers.sci",
        "SSI": "fencepost.indexes.ssi.index",
        "SliceList": "fencepost.indexes.slice_list.index",
        "StabbingBands": "fencepost.indexes.papers.stabbing",
        "Storage": "fencepost.indexes.matches",
        "UI": "fencepost.indexes.papers.ui",
        "VCR": "fencepost.indexes.papers.vcr",
    },
)
