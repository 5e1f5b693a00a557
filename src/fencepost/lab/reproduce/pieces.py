"""How many pieces given queries are cut into, query by query: what the entries of an index must add up to."""

import math

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


def lci_pieces(widths: Int64s, length: int) -> Int64s:
    """Pieces of LCI: whole lengths, and the ones in the binary form of the rest.

    >>> lci_pieces(np.array([7, 16, 39]), 16).tolist()
    [3, 1, 5]
    """
    return widths // length + _ones(widths % length)


def cei_pieces(los: Int64s, his: Int64s, length: int) -> Int64s:
    """Pieces of CEI: whole segments between two remnants, each aligned at one end.

    What lies inside one segment is cut where its two halves would meet, at the last place that the highest power of
    two divides; its parts are aligned there.

    >>> cei_pieces(np.array([8, 11, 3]), np.array([14, 15, 21]), 8).tolist()
    [2, 3, 5]
    """
    left, right = -(-los // length) * length, his // length * length
    starts, ends = los % length, his % length
    shift = np.frexp((starts ^ ends).astype(np.float64))[1].astype(np.int64) - 1
    middle = ends >> np.maximum(shift, 0) << np.maximum(shift, 0)
    inside = _ones(middle - starts) + _ones(ends - middle)
    across = _ones(left - los) + (right - left) // length + _ones(ends)
    return np.where(left > right, inside, across)


def sampling_error(queries: int) -> float:
    """How far the mean of so many uniform widths may be off: four standard errors, and what the domain's end cuts."""
    return 4 / math.sqrt(3 * queries) + 0.01


def _ones(numbers: Int64s) -> Int64s:
    return np.asarray(np.bitwise_count(numbers), np.int64)
