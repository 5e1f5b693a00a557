"""Steps that are taken in rounds: each until room is short, all of them or none."""

from collections.abc import Callable

import numpy as np

from fencepost.indexes.contracts.bands import Moves, PairLists
from fencepost.indexes.matches import check_room, has_room

_PAIR_BYTES = 32
"""Of a pair in the answer: a row and a query, entered or left."""


def take_in_rounds(steps: int, take: Callable[..., int], undo: Callable[[int], None], *, partly: bool = False) -> Moves:
    """What steps change; `take` takes them from one on until it is short of room, and says which is the next.

    `partly` stops where there is no more memory for it; there must be enough for the first step. `undo` takes so many
    steps back, whatever it was that kept the others from being taken.
    """
    done = 0
    try:
        room = 64 + 4 * steps
        changed = np.empty((2, 2, room), np.int64)
        counts, needed = np.zeros(2, np.int64), np.zeros(1, np.int64)
        offsets = np.zeros((2, steps + 1), np.int64)
        while done < steps:
            if needed[0] > room:
                room = 2 * int(needed[0])
                if partly and not has_room(_PAIR_BYTES * room):
                    if done:
                        break
                    room //= 2
                    check_room(_PAIR_BYTES * room)
                wider = np.empty((2, 2, room), np.int64)
                wider[:, :, : counts.max()] = changed[:, :, : counts.max()]
                changed = wider
            done = take(done, changed, counts, offsets, needed)
        lists = [
            PairLists(offsets[at, : done + 1], changed[at, 0, : counts[at]], changed[at, 1, : counts[at]])
            for at in (0, 1)
        ]
    except BaseException:
        undo(done)
        raise
    return Moves(*lists)
