"""A trial: one promise, and a function that tries it once with a seed."""

from collections.abc import Callable
from dataclasses import dataclass


class DifferenceError(AssertionError):
    """The product gave another answer than it should."""


@dataclass(frozen=True)
class Trial:
    """One way of trying a promise.

    The function takes a seed and returns how many things it looked at. It raises `DifferenceError` where an answer is
    wrong; any other exception is a raw error of the product, and a process that dies is a crash.
    """

    name: str
    promise: str
    tried_by: str
    attempt: Callable[[int], int]
    long: bool = False
    """Takes minutes: left out of the short form."""
    known: str = ""
    """Why it fails today: left out of the short form until the fault is cured."""
    patience: float = 120.0
    """Seconds after which one try counts as hung."""


def require(holds: bool, what: str) -> None:
    """Raise a difference unless something holds."""
    if not holds:
        raise DifferenceError(what)
