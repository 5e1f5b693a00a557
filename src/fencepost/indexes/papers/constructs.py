"""The mechanism that UI, SCI, LCI, CEI and ACEI share: id lists on virtual constructs.

A structure defines its constructs, writes an interval as a union of them (`decompose`) and names those that
contain a value (`cover`). Everything else is here: the lists and their memory, the boundary policy for
intervals and values that do not fit the integer domain, and the copying of answers.

"""

from collections.abc import Callable

import numpy as np

from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Float64s
from fencepost.indexes.contracts.intervals import TableIndex
from fencepost.indexes.matches import Matches, Storage, answer_buffers, widened
from fencepost.indexes.papers.construct_lists import SPARSE, emit, locate
from fencepost.indexes.papers.listed import ListedConstructs, whole_pair

Piece = int | tuple[str | int, int]
"""A construct's id, or a pair for what is not numbered: ``("point", b)``, ``("unit", j)``, (segment, id)."""

_MAX_LISTS = 2**31
_VALUES_PER_ROUND = 4096
_RUNS_PER_ROUND = 1 << 17


class ConstructIndex(ListedConstructs, TableIndex):
    """An interval index over virtual constructs.

    Args:
        domain: the integer range ``(start, end)`` the constructs are laid over; intervals and values outside
            it are still answered exactly, more slowly.
        closed: intervals are ``[lo, hi]`` instead of ``[lo, hi)``.

    """

    def __init__(self, domain: tuple[int, int], closed: bool) -> None:
        super().__init__(closed)
        self.domain = whole_pair(domain)

    def _lay_out(self, dense: int, segments: int = 0, unit_bits: int = 0) -> None:
        """Create the lists: `dense` that always exist, and room for one unit array per segment."""
        if dense > _MAX_LISTS:
            raise FencepostError(
                f"a domain that needs {dense} lists",
                f"at most {_MAX_LISTS}",
                "Take a smaller domain, or ACEI with a larger length.",
            )
        start, end = self.domain
        self._create_lists(dense, segments, unit_bits, start, end - start)

    # -- what a structure supplies ----------------------------------------------------------------------

    @property
    def constructs(self) -> int:
        """How many constructs the structure has now (the paper's N)."""
        return self._constructs

    _constructs: int

    lists_per_search: int
    """The largest number of lists that a search visits (the paper's C)."""

    _cover: Callable[..., None]
    """Kernel ``(shape, heads, units, values, cells, run_offsets, runs)``: writes (start, length) of every
    non-empty list whose construct contains each value."""

    def _piece(self, code: int) -> Piece:
        """The public name of a construct."""
        return code

    def _unit_piece(self, cell: int) -> Piece:
        """The public name of the construct that is one unit cell."""
        raise NotImplementedError

    def _pointers(self) -> int:
        """Pointers that the paper's storage model counts beside the constructs."""
        return 0

    # -- decomposition ----------------------------------------------------------------------------------

    def pieces(self, id: int) -> list[Piece]:
        """The constructs that make up one interval, the single points and part-filled unit cells included."""
        slots = np.array([self._slot(id)])
        next(self._batches(slots))
        named: list[Piece] = []
        for code in self._codes[: self._code_offsets[1]].tolist():
            if code >= 0:
                named.append(self._piece(code))
            elif code <= SPARSE:
                cell, is_point = divmod(SPARSE - code, 2)
                named.append(("point", cell + self.domain[0]) if is_point else self._unit_piece(cell))
        return named

    # -- asking -----------------------------------------------------------------------------------------

    def _stab(self, values: Float64s, out: Matches | None) -> Matches:
        total = len(values)
        per_round = max(16, min(_VALUES_PER_ROUND, _RUNS_PER_ROUND // self.lists_per_search))
        run_offsets = np.empty(min(per_round, total) + 1, np.int64)
        runs = np.empty((per_round * 2 * self.lists_per_search + 1, 2), np.uint32)
        cells = np.empty(min(per_round, total), np.int64)
        offsets, ids = answer_buffers(total, 0, np.int64, out)
        offsets[0] = 0
        for first in range(0, total, per_round):
            part = values[first : first + per_round]
            locate(self._lists.layout, part, cells)
            self._cover(self._shape, self._lists.heads, self._lists.units, part, cells, run_offsets, runs)
            part_offsets = offsets[first : first + len(part) + 1]
            done = 0
            while True:
                done, needed = emit(
                    self._lists,
                    self._queries,
                    self.closed,
                    part,
                    cells,
                    run_offsets,
                    runs,
                    part_offsets,
                    ids,
                    done,
                )
                if done == len(part):
                    break
                filled = int(part_offsets[done])
                in_round = int(runs[: run_offsets[len(part)], 1].sum(dtype=np.int64))
                ids = widened(ids, filled, filled + needed + in_round, out)
        return Matches(offsets, ids[: offsets[total]])

    # -- reporting --------------------------------------------------------------------------------------

    def storage(self) -> Storage:
        """Constructs and entries as in the paper, its 4 bytes per construct and 8 per entry, real bytes."""
        entries = self._entries()
        model = 4 * (self.constructs + self._pointers()) + 8 * entries
        return Storage(self.constructs, entries, model, self._list_bytes())


def whole_length(length: int) -> int:
    """A length that must be a positive whole number."""
    if not isinstance(length, int | np.integer) or length < 1:
        raise FencepostError(f"length {length!r}", "a whole number from 1 on", "Pass for example length=8.")
    return int(length)
