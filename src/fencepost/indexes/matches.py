"""The answer of every index: which ids each value, point or row concerns."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import numpy.typing as npt

from fencepost import _pool
from fencepost._memory import SETTING, AnswerTooLargeError, answer_limit, show_size
from fencepost._text import count
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Int64s
from fencepost.indexes.kernels.vectors import PADDING, aligned_empty

Ids = Int64s
T = TypeVar("T")

_SMALL = 1 << 20
"""Bytes that an answer may always take: to ask how much is free would cost more than to find it."""
_FAR_MORE = 2.5
"""Times an answer's size, beyond which its buffer is too large to be held by it."""
_SHOWN = 5
"""Rows of an answer, and ids of a row, that `repr` shows."""
_share: ContextVar[int] = ContextVar("share", default=1)
"""The part of the memory for an answer that an index may take: one share of so many."""


class Matches:
    """Ids per row, as two flat arrays: row i holds ``ids[offsets[i]:offsets[i + 1]]``, in no set order.

    >>> m = Matches(np.array([0, 2, 2]), np.array([7, 9]))
    >>> m[0].tolist(), m[1].tolist(), len(m)
    ([7, 9], [], 2)
    """

    __slots__ = ("ids", "offsets")

    def __init__(self, offsets: npt.NDArray[Any], ids: npt.NDArray[Any]) -> None:
        self.offsets = offsets
        self.ids = ids

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, row: slice) -> list[npt.NDArray[Any]]: ...
    def __getitem__(self, row: int | slice) -> npt.NDArray[Any] | list[npt.NDArray[Any]]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        size = len(self)
        if not -size <= row < size:
            raise IndexError(f"row {row} of an answer with {size} rows")
        row %= size
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return (self[row] for row in range(len(self)))

    @property
    def counts(self) -> Ids:
        """How many ids each row has."""
        return np.diff(self.offsets)

    def sets(self) -> list[set[int]]:
        """The rows as Python sets, for small answers and comparisons."""
        return [set(row.tolist()) for row in self]

    def to_arrow(self) -> Any:
        """The answer as an Arrow large list, sharing the arrays."""
        import pyarrow as pa

        return pa.LargeListArray.from_arrays(self.offsets, self.ids)

    def __repr__(self) -> str:
        sizes = f"{count(len(self), 'row')}, {count(int(self.offsets[-1] - self.offsets[0]), 'id')}"
        first = [_shown(row) for row in itertools.islice(self, _SHOWN)]
        more = ["..."] if len(self) > _SHOWN else []
        return f"Matches({sizes}{': ' if first else ''}{', '.join([*first, *more])})"


def _shown(row: npt.NDArray[Any]) -> str:
    ids = ", ".join(map(str, row[:_SHOWN].tolist()))
    return f"[{ids}, ...]" if len(row) > _SHOWN else f"[{ids}]"


def joined(parts: Sequence[Matches], dtype: npt.DTypeLike) -> Matches:
    """The answers for consecutive rows as one, whose ids are of this type even where there are no rows."""
    ends = np.cumsum([0, *(len(part.ids) for part in parts)])
    offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
    ids = int(ends[-1])
    return Matches(
        np.concatenate([np.zeros(1, np.int64), *offsets], out=_new_offsets(sum(map(len, offsets)))),
        np.concatenate([np.zeros(0, dtype), *(part.ids for part in parts)], out=answer_array(ids, dtype)[:ids]),
    )


def split_rows(rows: int, threads: int) -> list[slice]:
    """As many equal shares of the rows as there are threads."""
    bounds = np.linspace(0, rows, threads + 1).astype(np.int64).tolist()
    return [slice(first, last) for first, last in itertools.pairwise(bounds)]


class Storage(NamedTuple):
    """What an index holds, in the paper's units and in real bytes."""

    constructs: int
    """Lists or nodes that exist (the papers' N)."""
    entries: int
    """List entries over all constructs (the papers' n * gamma)."""
    model_bytes: int
    """Bytes by the paper's storage model."""
    nbytes: int
    """Bytes of the arrays that are really allocated."""


class share_room:  # noqa: N801
    """Leave an index one of so many shares of the memory, in the block; the rest is for what its answer becomes.

    A class, since a generator would cost one row's answer a tenth of its time.
    """

    __slots__ = ("_before", "_shares")

    def __init__(self, shares: int) -> None:
        self._shares = shares

    def __enter__(self) -> None:
        self._before = _share.set(_share.get() * self._shares)

    def __exit__(self, *_: object) -> None:
        _share.reset(self._before)


def has_room(size: int) -> bool:
    """Whether an answer may take so many bytes."""
    return size <= _SMALL or size * _share.get() <= answer_limit()


def check_room(size: int) -> None:
    """Refuse an answer that needs more bytes than it may take."""
    if size <= _SMALL:
        return
    shares = _share.get()
    limit = answer_limit()
    if size * shares > limit:
        raise AnswerTooLargeError(
            f"an answer that needs {show_size(size * shares)} of memory or more",
            f"at most {show_size(limit)}",
            f"Ask about fewer rows at once, or set {SETTING}, such as 8 GiB.",
        )


def in_pieces(rows: int, find: Callable[[int, int], T]) -> Iterator[T]:
    """Answers about consecutive stretches of rows, each as long as its answer has room.

    A stretch that has too large an answer is asked about again in quarters; one that had room is followed by one of
    twice its length. A single row that has no room is refused, with its number.
    """
    begin, length = 0, rows
    while begin < rows:
        try:
            found = find(begin, begin + length)
        except AnswerTooLargeError as error:
            if length == 1:
                raise AnswerTooLargeError(f"row {begin}, with {error.got}", error.expected, error.remedy) from None
            length = -(-length // 4)
            continue
        yield found
        begin += length
        length = min(2 * length, rows - begin)


def answer_array(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised array of so many items or more for an answer, and `PADDING` zeros behind them.

    A large one is memory that an earlier answer has given back, where there is some.
    """
    lent = _pool.lend((size + PADDING) * np.dtype(dtype).itemsize, dtype)
    if lent is None:
        made: npt.NDArray[Any] = aligned_empty(size, dtype)
        return made
    lent[-PADDING:] = 0
    return lent


def _new_offsets(rows: int) -> Ids:
    lent = _pool.lend(8 * (rows + 1), np.int64)
    return np.empty(rows + 1, np.int64) if lent is None else lent[: rows + 1]


def _waiting_array(size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any] | None:
    """The same of memory that waits and has room to be an answer; None where there is none."""
    lent = _pool.lend_waiting((size + PADDING) * np.dtype(dtype).itemsize, dtype)
    if lent is None or not has_room(lent.nbytes):
        return None
    lent[-PADDING:] = 0
    return lent


def fitted(ids: npt.NDArray[Any], filled: int) -> npt.NDArray[Any]:
    """The first ids of a buffer; copied where it was taken for far more, so that none holds much more than it has."""
    if ids.nbytes < _pool.LEAST or len(ids) <= _FAR_MORE * (filled + PADDING):
        return ids[:filled]
    own = answer_array(filled, ids.dtype)[:filled]
    own[:] = ids[:filled]
    return own


def answer_buffers(
    rows: int, expected: int, dtype: npt.DTypeLike, out: Matches | None, likely: float = 0
) -> tuple[Ids, npt.NDArray[Any]]:
    """The offsets and ids to write an answer into: the caller's own, or new ones for `expected` ids.

    `likely` is how many more there may be, by what was found before. It takes only memory that waits: new memory is
    never asked for by what others found. `fitted` gives it back where far fewer came.
    """
    if out is None:
        item = np.dtype(dtype).itemsize
        check_room(expected * item)
        guessed = likely > expected and likely * item >= _pool.LEAST
        ids = _waiting_array(int(likely), dtype) if guessed else None
        return _new_offsets(rows), answer_array(expected, dtype) if ids is None else ids
    if out.offsets.dtype != np.int64 or len(out.offsets) < rows + 1:
        raise FencepostError(
            f"an `out` with {len(out.offsets)} offsets of {out.offsets.dtype} for {rows} values",
            f"at least {rows + 1} of int64",
            "Pass Matches(np.empty(rows + 1, np.int64), np.empty(room, np.int64)).",
        )
    if out.ids.dtype != dtype or not out.ids.flags.c_contiguous or not out.ids.flags.writeable:
        raise FencepostError(
            f"an `out` whose ids are {out.ids.dtype}",
            f"a writable, contiguous array of {np.dtype(dtype)}",
            "Allocate it with that dtype.",
        )
    return out.offsets[: rows + 1], out.ids


def widened(ids: npt.NDArray[Any], filled: int, needed: int, out: Matches | None) -> npt.NDArray[Any]:
    """A buffer with room for `needed` ids that keeps the first `filled`; the caller's own is never replaced.

    It is at least twice as large as before. So copies cost no more than the answer, and room is never asked for by
    what some rows found: a burst at the start of a batch says nothing about the rest of it.
    """
    if out is not None:
        raise FencepostError(
            f"an `out` with room for {len(out.ids)} ids",
            f"room for at least {needed + PADDING} (the answer and {PADDING} items of slack)",
            "Pass a larger buffer, or ask in smaller batches.",
        )
    check_room(needed * ids.itemsize)
    larger = answer_array(max(needed, 2 * len(ids) - PADDING), ids.dtype)
    larger[:filled] = ids[:filled]
    return larger
