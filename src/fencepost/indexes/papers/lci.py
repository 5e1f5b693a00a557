"""LCI: constructs of lengths 1, 2, 4, ..., L at every integer (Wu, Chen, Yu)."""

from fencepost.indexes.papers.listed import power_of_two
from fencepost.indexes.papers.stepped import SteppedIndex


class LCI(SteppedIndex):
    """Logarithmic construct intervals (Wu, Chen, Yu 2006; closed ends as in their IBM report).

    The construct of length 2**l at start a has the id ``a * (k + 1) + l`` with k = log2 L.

    Costs: search 2L-1 lists, 2L+k when closed; insert and remove O(width / L + k); space r(k+1) lists.

    >>> index = LCI(domain=(0, 100), length=16)
    >>> index.insert(7, 10, 17)
    >>> index.pieces(7)  # lengths 4, 2, 1
    [52, 71, 80]
    >>> index.stab([16.5, 17]).sets()
    [{7}, set()]
    """

    def __init__(self, domain: tuple[int, int], length: int, closed: bool = False) -> None:
        bits = power_of_two(length)
        self.length = int(length)
        super().__init__(domain, [1 << level for level in range(bits + 1)], closed)
