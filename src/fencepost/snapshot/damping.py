"""The damping of rules in layers: chosen, joined and counted."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.indexes.arrays import Bools, Int64s
from fencepost.snapshot.columns import ROWS, DampingColumns


def take_damping(damping: DampingColumns, numbers: Int64s) -> DampingColumns | None:
    """The damping of chosen rules; None if none of them is damped.

    Args:
        damping: of all rules.
        numbers: by row the new row of each rule, in the same order, or -1 for one that is not chosen.
    """
    chosen = np.flatnonzero(numbers[damping.rules] >= 0)
    if not len(chosen):
        return None
    texts = pa.array(chosen)
    taken = DampingColumns(*(each.take(texts) if isinstance(each, pa.Array) else each[chosen] for each in damping))
    return taken._replace(rules=numbers[taken.rules])


def join_damping(parts: Sequence[tuple[int, DampingColumns | None]]) -> DampingColumns | None:
    """The damping of several sets of rules, each with the row that its own rows are counted from."""
    there = [damping._replace(rules=damping.rules + start) for start, damping in parts if damping is not None]
    if len(there) < 2:
        return there[0] if there else None
    return DampingColumns(
        *(
            pa.concat_arrays(columns) if isinstance(columns[0], pa.Array) else np.concatenate(columns)
            for columns in zip(*there, strict=True)
        )
    )


def has_durations(damping: DampingColumns | None, in_force: Int64s) -> bool:
    """Whether any rule in these rows waits for time to pass, and not only for rows."""
    if damping is None:
        return False
    waits = (damping.cooldowns > 0) | ((damping.holds > 0) & (damping.hold_units != ROWS))
    waits |= (damping.keeps > 0) & (damping.keep_units != ROWS)
    return bool(np.isin(damping.rules[waits], in_force).any())


def rows_that_wait(damping: DampingColumns, with_stay: Int64s) -> Int64s:
    """The rows of rules whose events may wait: all but those that only say how often `inside` is reported.

    `with_stay` has the rows of rules with a wider condition.
    """
    waits = (damping.cooldowns > 0) | (damping.limits > 0) | np.isin(damping.rules, with_stay)
    for lengths, units in ((damping.holds, damping.hold_units), (damping.keeps, damping.keep_units)):
        waits |= lengths > (units == ROWS)  # one row is the row itself
    return damping.rules[waits]


def count_damped(damping: DampingColumns, hidden: Bools | None) -> tuple[int, dict[str, int]]:
    """How many rules are damped, and how many by each option; hidden ones do not count."""
    shown = np.arange(len(damping.rules)) if hidden is None else np.flatnonzero(~hidden[damping.rules])
    by: dict[str, int] = {}
    for each in pc.value_counts(damping.texts.take(pa.array(shown))).to_pylist():
        for name in json.loads(each["values"]):
            by[name] = by.get(name, 0) + each["counts"]
    return len(shown), dict(sorted(by.items(), key=lambda item: -item[1]))
