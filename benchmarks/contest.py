"""What a peer looks like to a contest, and whether it gave our answer."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fencepost.indexes import Matches

__all__ = ["Pairs", "Peer", "agree"]

Pairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


class Peer(NamedTuple):
    """How to ask a prepared index a batch, which is timed, and how to read what it answered, which is not."""

    ask: Callable[[npt.NDArray[Any]], Any]
    pairs: Callable[[Any], Pairs]
    """For each id of an answer the row of what was asked, and the id."""


def agree(name: str, answer: Matches, pairs: Pairs) -> None:
    """Assert that pairs of (row, id) are an answer, id by id."""
    rows, ids = pairs[0], pairs[1][: len(pairs[0])]
    mine = np.lexsort((answer.ids, np.repeat(np.arange(len(answer)), answer.counts)))
    assert np.array_equal(np.bincount(rows, minlength=len(answer)), answer.counts), f"{name} disagrees"
    assert np.array_equal(answer.ids[mine], ids[np.lexsort((ids, rows))]), f"{name} disagrees"
