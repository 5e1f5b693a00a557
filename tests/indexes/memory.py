"""Memory that ends: NumPy, but one of its allocations fails."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ALLOCATING = (
    "empty", "zeros", "zeros_like", "full", "full_like", "ones", "arange", "array", "unique", "where", "flatnonzero",
    "append", "concatenate", "lexsort", "argsort", "repeat", "bincount", "cumsum", "searchsorted", "diff",
)  # fmt: skip


class ShortOfMemory:
    """NumPy, but one of its allocations fails: the first, or so many before it do not."""

    def __init__(self, last: int) -> None:
        self.left = last

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return self._count(found) if name in ALLOCATING else found

    def _count(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def allocate(*given: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                raise MemoryError
            return function(*given, **named)

        return allocate


@contextmanager
def failing_at(modules: Sequence[ModuleType], allocation: int) -> Iterator[ShortOfMemory]:
    """One allocation of these modules fails, by its number."""
    short = ShortOfMemory(allocation)
    with pytest.MonkeyPatch.context() as patched:
        for module in modules:
            patched.setattr(module, "np", short)
        yield short
