"""Buckets: the parts that the objects of an operator with state are hashed to, a fixed number of them."""

from fencepost.errors import FencepostError

MOST_BUCKETS = 65_536


def checked_buckets(buckets: object) -> None:
    """Refuse a number of buckets that cannot be."""
    if isinstance(buckets, bool) or not isinstance(buckets, int) or not 1 <= buckets <= MOST_BUCKETS:
        raise FencepostError(f"buckets={buckets!r}", f"1 to {MOST_BUCKETS}", "Eight for every core do well.")
