"""What was used last and may be wanted again."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class RecentlyUsed(Generic[K, V]):
    """Values by their keys: beyond `most`, those that were used longest ago go, but never the last one.

    Each value counts as one, or as what `weigh` says of it when it is put. Threads take turns, also while one of them
    makes a value: nothing is made twice.
    """

    def __init__(self, most: int, weigh: Callable[[V], int] = lambda _: 1) -> None:
        self._most, self._weigh = most, weigh
        self._held: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.RLock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if it is missing."""
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            else:
                self.put(key, make())
            return self._held[key][0]

    def put(self, key: K, value: V) -> None:
        """Keep a value, in place of any other of its key."""
        with self._lock:
            self.take(key)
            weight = self._weigh(value)
            self._held[key] = value, weight
            self._weight += weight
            while self._weight > self._most and len(self._held) > 1:
                self._weight -= self._held.popitem(last=False)[1][1]

    def take(self, key: K) -> V | None:
        """The value of a key, which is then no longer here; None if it is missing."""
        with self._lock:
            value, weight = self._held.pop(key, (None, 0))
            self._weight -= weight
            return value

    def keys(self) -> list[K]:
        """The keys, used longest ago first."""
        with self._lock:
            return list(self._held)

    def clear(self) -> None:
        """Let all go."""
        with self._lock:
            self._held.clear()
            self._weight = 0
