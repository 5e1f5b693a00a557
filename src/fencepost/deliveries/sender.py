"""The sender: posts the events of a spool, many at once, beside whatever fills the spool."""

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from fencepost.deliveries.hook import Answer, Hook, Receiver, pause_before
from fencepost.deliveries.spool import Delivery, Letter, Spool

_AT_HAND = 4096
"""Events that are read ahead."""
_LOOK = 0.5
"""Seconds between two looks for batches that another process has made."""


class Delivered(NamedTuple):
    """What became of events."""

    posted: int = 0
    retries: int = 0
    undelivered: int = 0


class Sender:
    """Sends the events of a spool until it is stopped.

    Events of one object are posted one after the other, in the order of the spool. An object whose event must wait for
    a retry waits with all its events; other objects go on. After an event was given up because the receiver is down,
    each further event has one attempt until the receiver takes one.

    State, under one lock: `_queues` has the events of each object that are not done with; an object is in `_ready` or
    in `_delayed` or under way, if it has any.
    """

    def __init__(self, spool: Spool, hook: Hook) -> None:
        self._spool, self._hook, self._receiver = spool, hook, Receiver(hook)
        self._changed = threading.Condition()
        self._queues: dict[str, deque[Delivery]] = {}
        self._ready: deque[str] = deque()
        self._delayed: list[tuple[float, int, str]] = []
        self._ticket = itertools.count()
        self._open: dict[str, int] = {}
        """Events of each batch at hand that are not done with; a batch that is not read to its end counts one more."""
        self._listed: deque[str] = deque()
        """Batches that were found and not begun: to look for them takes long where many wait."""
        self._reading: tuple[str, Iterator[Delivery]] | None = None
        self._seen: set[str] = set()
        self._at_hand = self._under_way = 0
        self._down = self._stopped = self._is_woken = False
        self._failure: Exception | None = None
        self._counts = Delivered()
        self.reason: str | None = None
        """Why the last event that was given up was not taken."""
        self._thread = threading.Thread(target=self._run, name="fencepost-sender", daemon=True)

    @property
    def counts(self) -> Delivered:
        """So far."""
        return self._counts

    def start(self) -> "Sender":
        """Begin to send, with what an earlier run has left."""
        self._spool.open()
        self._thread.start()
        return self

    def wake(self) -> None:
        """Look for new batches now. This never waits: whoever holds the lock looks before it pauses."""
        self._is_woken = True
        if self._changed.acquire(blocking=False):
            try:
                self._changed.notify_all()
            finally:
                self._changed.release()

    def drain(self, seconds: float | None = None) -> bool:
        """Wait until every event was taken or given up; whether that was so in time."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while self._has_more():
                self.raise_failure()
                if until is not None and time.monotonic() >= until:
                    return False
                self._changed.wait(0.1)
            self.raise_failure()
            return True

    def _has_more(self) -> bool:
        return bool(self._at_hand or self._reading or set(self._spool.names()) - self._seen)

    def stop(self) -> None:
        """End the posts that are under way, and send no more; the spool keeps the rest."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        self._receiver.close()
        self._spool.close()

    def raise_failure(self) -> None:
        """Refuse to go on where the sender itself has failed, as by a damaged file."""
        if self._failure is not None:
            raise self._failure

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with ThreadPoolExecutor(self._hook.concurrency, "fencepost-post") as pool, self._changed:
                while not self._stopped:
                    self._is_woken = False
                    self._fill()
                    self._wake_delayed()
                    while self._ready and self._under_way < self._hook.concurrency:
                        self._under_way += 1
                        pool.submit(self._post, self._take())
                    self._changed.wait(self._pause())
        except Exception as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _pause(self) -> float:
        if self._is_woken:
            return 0.0
        until = self._delayed[0][0] - time.monotonic() if self._delayed else _LOOK
        return max(0.0, min(_LOOK, until))

    def _fill(self) -> None:
        """Read on, batch by batch, until enough is at hand."""
        while self._at_hand < _AT_HAND:
            if self._reading is None:
                if not self._listed:
                    self._listed.extend(name for name in self._spool.names() if name not in self._seen)
                if not self._listed:
                    return
                name = self._listed.popleft()
                self._seen.add(name)
                self._open[name] = 1
                self._reading = name, self._spool.read(name)
            name, events = self._reading
            delivery = next(events, None)
            if delivery is None:
                self._reading = None
                self._close_one(name)
                continue
            self._open[name] += 1
            self._at_hand += 1
            object = delivery.event.object or f"{name} {delivery.part} {delivery.line}"
            queue = self._queues.get(object)
            if queue is None:
                self._queues[object] = deque([delivery])
                self._ready.append(object)
            else:
                queue.append(delivery)

    def _wake_delayed(self) -> None:
        now = time.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            self._ready.append(heapq.heappop(self._delayed)[2])

    def _take(self) -> dict[str, list[Delivery]]:
        """The next events to post at once, by object."""
        taken: dict[str, list[Delivery]] = {}
        room = self._hook.batch
        while room and self._ready:
            queue = self._queues[object := self._ready.popleft()]
            taken[object] = [queue.popleft() for _ in range(min(room, len(queue)))]
            room -= len(taken[object])
        return taken

    def _post(self, taken: dict[str, list[Delivery]]) -> None:
        deliveries = [each for own in taken.values() for each in own]
        try:
            answer = self._receiver.post([each.event for each in deliveries])
            with self._changed:
                self._settle(taken, deliveries, answer)
        except Exception as error:
            with self._changed:
                self._failure, self._stopped = error, True
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _settle(self, taken: dict[str, list[Delivery]], deliveries: Sequence[Delivery], answer: Answer) -> None:
        tries = max(each.tries for each in deliveries) + 1
        posted, retries, undelivered = self._counts
        retries += tries > 1
        if not answer.taken and answer.may_pass and tries <= (0 if self._down else self._hook.retries):
            due = time.monotonic() + pause_before(tries, self._hook, answer.pause)
            for object, own in taken.items():
                self._queues[object].extendleft(each._replace(tries=tries) for each in reversed(own))
                heapq.heappush(self._delayed, (due, next(self._ticket), object))
            self._counts = Delivered(posted, retries, undelivered)
            return
        if answer.taken:
            posted += len(deliveries)
        else:
            letters: dict[str, list[Letter]] = {}
            for each in deliveries:
                letters.setdefault(each.batch, []).append(Letter(each.event, tries, answer.said))
            self._spool.give_up(letters)
            undelivered += len(deliveries)
            self.reason = answer.said
        self._down = not answer.taken and answer.may_pass
        self._spool.finish(deliveries)
        self._counts = Delivered(posted, retries, undelivered)
        self._at_hand -= len(deliveries)
        for object in taken:
            if self._queues[object]:
                self._ready.append(object)
            else:
                del self._queues[object]
        for each in deliveries:
            self._close_one(each.batch)

    def _close_one(self, name: str) -> None:
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
            self._spool.remove(name)
            self._seen.discard(name)
