"""Calls beside an event loop: in one thread, in the order in which they were made."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Aside:
    """A thread that makes calls for coroutines, one after the other; it is started by the first."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in that thread, and wait for its answer without holding up the event loop."""
        # Not asyncio.to_thread: its many threads would make two calls in either order.
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "fencepost")
        made = partial(copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._thread, made)
