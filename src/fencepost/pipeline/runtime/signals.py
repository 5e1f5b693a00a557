"""SIGINT and SIGTERM end a pipeline in order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Signals:
    """Those that were heard."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self.heard: str | None = None
        """The name of the last one."""

    def listen(self) -> None:
        """Begin to listen, again where somebody else has put a handler in the place of ours."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._end)

    def _end(self, number: int, _: object) -> None:
        # Nothing is written here: the signal may have come in the middle of a line.
        self.heard = signal.Signals(number).name
        self._stop.set()


@contextmanager
def heard_signals(stop: threading.Event) -> Iterator[Signals]:
    """SIGINT and SIGTERM set the event meanwhile. Only the main thread can listen."""
    signals = Signals(stop)
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signals.listen()
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
