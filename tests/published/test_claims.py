"""Publishers and collectors in any order of their file operations: no number is given twice, and none too late."""

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.published import VersionDirectory, claims, directory
from fencepost.published.claims import Claims

PUBLISHERS = 3
COLLECTORS = 2
OPERATIONS = ("create", "delete", "exists", "make_directory", "modified", "names", "put")


class Turns:
    """Lets one of several threads do one file operation at a time, in a given order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[threading.Thread, bool] = {}
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def pause(self) -> None:
        """Wait for a turn, in a thread that has turns."""
        thread = threading.current_thread()
        with self._changed:
            if thread in self._threads:
                self._waiting[thread] = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: not self._waiting[thread])

    def run(self, actors: list[Callable[[], None]], order: Iterator[int]) -> None:
        """Run all of them; `order` says which of those that are left goes on."""
        self._threads = [threading.Thread(target=self._act, args=(actor,), daemon=True) for actor in actors]
        for thread in self._threads:
            thread.start()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: all(self._waiting.get(each, False) for each in self._alive()))
                waiting = self._alive()
                if not waiting:
                    break
                self._waiting[waiting[next(order, 0) % len(waiting)]] = False
                self._changed.notify_all()

    def _alive(self) -> list[threading.Thread]:
        return [thread for thread in self._threads if thread in self._waiting or thread.is_alive()]

    def _act(self, actor: Callable[[], None]) -> None:
        try:
            self.pause()
            actor()
        except BaseException as error:
            self.errors.append(error)
        finally:
            with self._changed:
                self._threads.remove(threading.current_thread())
                self._changed.notify_all()


@given(st.data())
def test_no_number_is_claimed_twice(data: st.DataObject) -> None:
    claimed: list[int] = []
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        versions, numbers, turns = VersionDirectory(folder), Claims(Path(folder)), Turns()
        for module in (claims, directory):
            for name in vars(module).keys() & set(OPERATIONS):
                patch.setattr(module, name, _paused(turns, getattr(module, name)))

        def publish() -> None:
            for _ in range(3):
                announced = max(versions._announced(), default=0)
                number = numbers.take()
                assert number > announced
                claimed.append(number)
                (Path(folder) / f"{number:08}.published").touch()

        def collect() -> None:
            for _ in range(3):
                numbers.collect(versions._announced(), oldest=oldest)

        oldest = data.draw(st.sampled_from([0.0, float("inf")]))
        # A thread goes on for a while, so that another one sleeps through whole publishes and collections.
        stretches = data.draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 25)), max_size=25))
        order = (actor for actor, length in stretches for _ in range(length))
        turns.run([publish] * PUBLISHERS + [collect] * COLLECTORS, order)
        assert not turns.errors, turns.errors
    assert len(set(claimed)) == len(claimed) == 3 * PUBLISHERS


def _paused(turns: Turns, operation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operation)
    def call(*given: Any) -> Any:
        turns.pause()
        return operation(*given)

    return call
