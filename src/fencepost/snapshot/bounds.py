"""The ordered strings of several sets of rules: one set of bounds for each expression."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from fencepost.computed import Bounds, Computed, Term, computed_id
from fencepost.computed.bounds import move_ends, used_bounds
from fencepost.indexes.arrays import Int64s
from fencepost.snapshot.columns import BoxSet, CompiledColumns


def join_bounds(parts: Sequence[CompiledColumns]) -> list[CompiledColumns]:
    """The same rules, with the bounds that all parts together have of each expression, and no others."""
    used: dict[Term, list[Bounds]] = {}
    for part in parts:
        for name, each in part.computed.items():
            if each.bounds is not None:
                used.setdefault(each.term, []).append(_bounds_in_use(part, name, each.bounds))
    joined = {
        term: Computed(term, Bounds.of(pa.concat_arrays([each.strings for each in found])))
        for term, found in used.items()
    }
    return [_with_bounds(part, joined) for part in parts]


def _bounds_in_use(part: CompiledColumns, name: str, bounds: Bounds) -> Bounds:
    """Those of the bounds that boxes have."""
    is_used = np.zeros(len(bounds) + 1, np.bool_)
    for each in part.boxes:
        if name in each.attributes:
            place = each.attributes.index(name)
            is_used[used_bounds(each.firsts[:, place].copy(), is_lower=True)] = True
            is_used[used_bounds(each.lasts[:, place].copy(), is_lower=False)] = True
    return Bounds(bounds.strings.filter(pa.array(is_used[:-1])))  # the last one is of what is unbounded


def _with_bounds(part: CompiledColumns, joined: dict[Term, Computed]) -> CompiledColumns:
    computed, moved = {}, {}
    for name, each in part.computed.items():
        new = each if each.bounds is None else joined[each.term]
        own = name if each.bounds is None else computed_id(new)
        computed[own] = new
        if own != name:
            assert each.bounds is not None
            assert new.bounds is not None
            moved[name] = own, new.bounds.rank(each.bounds.strings)
    return part._replace(computed=computed, boxes=[_renamed(each, moved) for each in part.boxes]) if moved else part


def _renamed(boxes: BoxSet, moved: dict[str, tuple[str, Int64s]]) -> BoxSet:
    """Boxes over the same attributes with other bounds."""
    if moved.keys().isdisjoint(boxes.attributes):
        return boxes
    names, firsts, lasts = list(boxes.attributes), boxes.firsts.copy(), boxes.lasts.copy()
    for place, name in enumerate(boxes.attributes):
        if name in moved:
            names[place], numbers = moved[name]
            firsts[:, place] = move_ends(firsts[:, place], numbers, is_lower=True)
            lasts[:, place] = move_ends(lasts[:, place], numbers, is_lower=False)
    order = np.argsort(names)
    return boxes._replace(
        attributes=tuple(names[place] for place in order),
        firsts=np.ascontiguousarray(firsts[:, order]),
        lasts=np.ascontiguousarray(lasts[:, order]),
    )
