"""What texts the rules of a book have, in little: which thousands of rules a search can pass over.

Rules are in blocks of some hundred, by their ids. Of each block it is known which runs of three and four letters its
conditions, names and labels have, as bits by a hash. A text whose runs a block does not have is in none of its rules;
a block that has all of them is looked at. So a page that searches for something rare, or for nothing at all, looks at
few rules, and what it finds is what it would find without: bits only ever say "perhaps".

It is read in a thread of its own once a search has had to end early, piece by piece. Whatever changes afterwards is
added before the next search, by the revision of the book.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, and_, select

from fencepost.book.database import Database
from fencepost.book.storing import State
from fencepost.book.tables import BOOK, RULES, UNREMOVED
from fencepost.errors import FencepostError

_BLOCK = 256
"""Rules of a block."""
_READ = 20 * _BLOCK
"""Rules that are read at once."""
_BITS = 14
_FACTOR = 2_654_435_761
_MOST_CHANGED = 20_000
"""Rules that are added before a search; where more have changed, all are read again."""
_PAUSED = "\x01paused\x01"
"""Stands in a block that has a rule which is paused."""
_PAUSE = 0.02
"""Seconds between two pieces, for whoever else computes."""


class Span(NamedTuple):
    """Rules that follow each other and may have what is looked for."""

    after: int | None
    """Behind this id; None is the begin."""
    last: int | None
    """Up to this one; None is the end."""
    rules: int | None
    """How many they are, about; None where that is not known."""


class Texts:
    """The blocks of a book.

    Args:
        database: of the book.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._forget()

    def _forget(self) -> None:
        self._revision: int | None = None
        """Of the book, up to which all changes are in the blocks; None before any is there."""
        self._is_whole = False
        self._lasts: list[int] = []
        """The last id of each block; what is behind the last of all has not been read, unless they are whole."""
        self._counts: list[int] = []
        self._bits: NDArray[np.uint8] = np.zeros((0, 1 << _BITS - 3), np.uint8)

    # -- reading -------------------------------------------------------------------------------------------

    def read_beside(self) -> None:
        """Read what is not known yet in a thread of its own."""
        with self._lock:
            if self._is_whole or (self._thread is not None and self._thread.is_alive()):
                return
            self._ending.clear()
            self._thread = threading.Thread(target=self._read_quietly, name="fencepost-texts", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._ending.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _read_quietly(self) -> None:
        try:
            while not self._ending.is_set() and self.read_some():
                self._ending.wait(_PAUSE)
        except FencepostError:
            return  # the next search that ends early begins again

    def read_some(self) -> bool:
        """Read the next rules; whether there are more."""
        with self._lock:
            after = self._lasts[-1] if self._lasts else None
        with self._database.reading() as connection:
            revision = _revision_of(connection)
            rows = list(connection.execute(_rows(after, None).order_by(RULES.c.id).limit(_READ)))
        parts = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
        bits = _bits_of(parts)
        with self._lock:
            if self._is_whole or after != (self._lasts[-1] if self._lasts else None):
                return not self._is_whole  # all was forgotten meanwhile, or somebody else has read it
            self._append(parts, bits)
            if self._revision is None:
                self._revision = revision
            # Searches may have gone on to a later revision, and passed over changes in what was read here before it.
            self._revision = min(self._revision, revision)
            self._is_whole = len(rows) < _READ
            return not self._is_whole

    def _append(self, parts: list[list[Any]], bits: NDArray[np.uint8]) -> None:
        if parts:
            self._bits = np.concatenate([self._bits, bits])
            self._lasts += [part[-1].id for part in parts]
            self._counts += [len(part) for part in parts]

    def _catch_up(self, connection: Connection) -> None:
        """Add what has changed since."""
        now = _revision_of(connection)
        if self._revision == now:
            return
        assert self._revision is not None, "there are blocks"
        changed = _rows(None, self._revision).order_by(RULES.c.id).limit(_MOST_CHANGED + 1)
        rows = list(connection.execute(changed)) if now > self._revision else None
        if rows is None or len(rows) > _MOST_CHANGED:  # another book is there now, or much of it is another
            self._forget()
            return
        behind: list[Any] = []
        within: dict[int, list[Any]] = {}
        for row in rows:
            place = bisect_left(self._lasts, row.id)
            if place < len(self._lasts):
                within.setdefault(place, []).append(row)
            else:
                behind.append(row)
        if within:
            self._bits[list(within)] |= _bits_of(list(within.values()))
        if self._is_whole and behind:
            room = max(0, _BLOCK - self._counts[-1]) if self._counts else 0
            if some := behind[:room]:
                self._bits[-1:] |= _bits_of([some])
                self._lasts[-1] = some[-1].id
                self._counts[-1] += len(some)
            rest = behind[room:]
            parts = [rest[start : start + _BLOCK] for start in range(0, len(rest), _BLOCK)]
            self._append(parts, _bits_of(parts))
        self._revision = now

    # -- searching -----------------------------------------------------------------------------------------

    def spans(self, connection: Connection, after: int | None, wanted: Iterable[str]) -> list[Span]:
        """The rules behind an id that may have all of these texts, in the order of their ids."""
        places = _places_of_all(wanted)
        with self._lock:
            if self._revision is not None:
                self._catch_up(connection)
            if not len(places) or not self._lasts:
                return [Span(after, None, None)]
            start = 0 if after is None else bisect_left(self._lasts, after + 1)
            bits = self._bits[start:, places >> 3] >> (places & 7).astype(np.uint8) & 1
            fit = np.flatnonzero(bits.all(axis=1)) + start
            found = list(self._joined(fit.tolist(), after))
            if not self._is_whole:
                known = self._lasts[-1]
                found.append(Span(known if after is None else max(known, after), None, None))
            return found

    def _joined(self, blocks: list[int], after: int | None) -> Iterator[Span]:
        """Blocks that follow each other as one."""
        begin = 0
        while begin < len(blocks):
            end = begin
            while end + 1 < len(blocks) and blocks[end + 1] == blocks[end] + 1:
                end += 1
            first, last = blocks[begin], blocks[end]
            before = self._lasts[first - 1] if first else None
            low = before if after is None else after if before is None else max(before, after)
            yield Span(low, self._lasts[last], sum(self._counts[first : last + 1]))
            begin = end + 1


def texts_wanted(labels: Iterable[str], state: State | None, text: str | None, search: str | None) -> list[str]:
    """The texts that a rule must have to be found; `labels` as the database has them."""
    return [*labels, *([_PAUSED] if state == "paused" else []), *(each for each in (text, search) if each)]


def _revision_of(connection: Connection) -> int:
    revision: int = connection.execute(select(BOOK.c.revision)).scalar_one()
    return revision


def _rows(after: int | None, since: int | None) -> Any:
    asked = select(RULES.c.id, RULES.c.condition, RULES.c.name, RULES.c.labels, RULES.c.enabled)
    behind = UNREMOVED if after is None else and_(UNREMOVED, RULES.c.id > after)
    return asked.where(behind if since is None else and_(behind, RULES.c.revision > since))


def _bits_of(parts: list[list[Any]]) -> NDArray[np.uint8]:
    """The bits of each of some blocks."""
    texts = [_text_of(part) for part in parts]
    data = np.frombuffer(b"".join(texts), np.uint8)
    block = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    has = np.zeros((len(parts), 1 << _BITS), np.bool_)
    for places, length in ((_places(data, 3), 3), (_places(data, 4), 4)):
        has[block[: len(data) - length + 1], places] = True  # a run over the end of a block only says "perhaps"
    return np.packbits(has, axis=1, bitorder="little")


def _text_of(rows: list[Any]) -> bytes:
    """All texts of some rules, as searches see them: databases know small and large letters of ASCII, Python of all."""
    whole = "\n".join(
        f"{row.condition}\n{row.name or ''}\n{row.labels or ''}{'' if row.enabled else _PAUSED}" for row in rows
    )
    own = whole.lower().encode(errors="surrogatepass")
    return own if whole.isascii() else own + b"\n" + whole.encode(errors="surrogatepass").lower()


def _places(data: NDArray[np.uint8], length: int) -> NDArray[np.int64]:
    """The bit of each run of so many letters."""
    count = max(0, len(data) - length + 1)
    code = np.zeros(count, np.uint32)
    for offset in range(length):
        code |= data[offset : offset + count].astype(np.uint32) << np.uint32(8 * offset)
    return ((code * np.uint32(_FACTOR)) >> np.uint32(32 - _BITS)).astype(np.int64)


def _places_of_all(wanted: Iterable[str]) -> NDArray[np.int64]:
    """The bits that rules with all of these texts have. What is no ASCII may be written in more ways than one."""
    found = [np.zeros(0, np.int64)]
    for text in wanted:
        data = np.frombuffer(text.lower().encode(errors="surrogatepass"), np.uint8)
        is_ascii = data < 128
        for length in (3, 4):
            whole = np.ones(max(0, len(data) - length + 1), np.bool_)
            for offset in range(length):
                whole &= is_ascii[offset : offset + len(whole)]
            found.append(_places(data, length)[whole])
    return np.unique(np.concatenate(found))


__all__ = ["Span", "Texts", "texts_wanted"]
