"""SCI: constructs of every length 1, 2, ..., L at every integer (Wu, Chen, Yu)."""

from fencepost.indexes.papers.constructs import whole_length
from fencepost.indexes.papers.stepped import SteppedIndex


class SCI(SteppedIndex):
    """Simple construct intervals (Wu, Chen, Yu 2006; closed ends as in their IBM report).

    The fewest pieces per interval, ceil(width / L), for the most constructs and lists per search. The
    construct of length z at start a has the id ``a * L + z - 1``.

    Costs: search L(L+1)/2 lists, L(L+3)/2 when closed; insert and remove O(width / L); space r * L lists.

    >>> index = SCI(domain=(0, 100), length=4)
    >>> index.insert(7, 10, 17)
    >>> index.pieces(7)
    [43, 58]
    >>> index.stab([16.5, 17]).sets()
    [{7}, set()]
    """

    def __init__(self, domain: tuple[int, int], length: int, closed: bool = False) -> None:
        self.length = whole_length(length)
        super().__init__(domain, range(1, self.length + 1), closed)
