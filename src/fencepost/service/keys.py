"""Idempotency keys: what was answered to whom, so that a call that is made again is answered again, not done again."""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple


class Remembered(NamedTuple):
    """The answer to the call with a key."""

    position: int
    rows: int
    digest: str
    """Of the rows."""
    first_event: int
    events: int
    at: float


class Keys:
    """The keys of late, the oldest first.

    Args:
        age: for how many seconds they are known.
        most: how many are known at most.
    """

    def __init__(self, age: float = 86_400.0, most: int = 1_000_000) -> None:
        self._age, self._most = age, most
        self._known: OrderedDict[str, Remembered] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, key: str) -> Remembered | None:
        """What was answered; None for a key that is new, or forgotten."""
        with self._lock:
            return self._known.get(key)

    def remember(self, key: str, answer: Remembered) -> None:
        """Keep an answer, and forget those that are too old or too many."""
        with self._lock:
            self._known[key] = answer
            oldest = time.time() - self._age
            while self._known:
                first = next(iter(self._known))
                if len(self._known) <= self._most and self._known[first].at >= oldest:
                    return
                del self._known[first]

    def saved(self) -> list[list[Any]]:
        """All of them as JSON has them."""
        with self._lock:
            return [[key, *answer] for key, answer in self._known.items()]

    def restore(self, saved: Iterable[Iterable[Any]]) -> None:
        """Take over what was saved."""
        with self._lock:
            self._known = OrderedDict((key, Remembered(*answer)) for key, *answer in saved)
