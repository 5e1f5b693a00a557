"""`fencepost catalogue`: every index structure, where it is from, and when to choose it."""

from typing import NamedTuple

from fencepost.cli.options import Json
from fencepost.cli.output import print_json_array, print_table

_CEI = "Wu, Chen, Yu 2006"
_VCR = "Wu, Chen, Yu, IBM report"
_BMQ = "Lee et al., KAIST"
_BANDS = "Agarwal, Xie, Yang, Yu"


class Structure(NamedTuple):
    """One structure."""

    name: str
    answers: str
    paper: str
    choose: str


CATALOGUE = (
    Structure("SliceList", "intervals", "ours", "production: any domain, keys, live changes; the answer is one run"),
    Structure("CEI", "intervals", _CEI, "a domain of some thousand units, ranges of any width"),
    Structure("ACEI", "intervals", "Yao, Wang, Liu, Guo 2009", "as CEI, where the domain is huge"),
    Structure("UI", "intervals", _CEI, "ranges of a few units: a search visits one list"),
    Structure("SCI", "intervals", _CEI, "short ranges of known lengths, few pieces each"),
    Structure("LCI", "intervals", _CEI, "as SCI with fewer lists, of lengths that are powers of two"),
    Structure("ISList", "intervals", "Hanson, Johnson", "the papers' baseline; needs no domain"),
    Structure("Linear", "intervals", "", "the reference: compares everything; a handful of ranges"),
    Structure("BoxIndex", "boxes", "ours", "production: up to 16 attributes, any side unbounded, keys"),
    Structure("VCR", "boxes", _VCR, "small rectangles in a small domain of two attributes"),
    Structure("RTree", "boxes", "Guttman", "the papers' baseline; a comparison"),
    Structure("LinearBoxes", "boxes", "", "the reference: compares everything"),
    Structure("Borders", "moves", "ours", "production: what an object enters, leaves and jumps over"),
    Structure("BMQ", "moves", _BMQ, "values that move in small steps"),
    Structure("DiffRMQ", "moves", _BMQ, "the papers' baseline: two searches and their difference"),
    Structure("SSI", "bands", f"ours, after {_BANDS}", "production: both sides and the bands change"),
    Structure("QuadraticBands", "bands", f"{_BANDS}, Lemma 1", "few bands that never change, the quickest answer"),
    Structure("StabbingBands", "bands", f"{_BANDS}, Lemma 5", "fixed bands that overlap much"),
    Structure("BlockBands", "bands", f"{_BANDS}, Theorem 1", "fixed bands, a choice between time and space"),
)


def catalogue(as_json: Json = False) -> None:
    """List the index structures and their papers.

    Each comes with advice when to choose it.
    """
    if as_json:
        print_json_array(structure._asdict() for structure in CATALOGUE)
    else:
        print_table(("structure", "answers", "from", "choose it for"), CATALOGUE, title="fencepost.indexes")
