"""What a task of bands must know, and the engine it makes of that."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._files.recent import RecentlyUsed
from fencepost.indexes.arrays import Int64s
from fencepost.ordinals import AttributeType
from fencepost.pairing.engine import Pairwise
from fencepost.pairing.rules import SIDES, band_rules
from fencepost.pairing.sides import Pairing
from fencepost.snapshot import Snapshot
from fencepost.spark.work.packing import MOST_ROWS
from fencepost.spark.work.task import OBJECT, TIME, Task, rules_in_force
from fencepost.watching.clock import Clock
from fencepost.watching.rules_in_force import RulesInForce

_HELD = 2


@dataclass(frozen=True, kw_only=True)
class BandTask(Task):
    """See `Task`; there are two sides."""

    operator = "bands"

    pairing: Pairing

    def kept_settings(self) -> Mapping[str, Any]:
        """The columns that rows are spread by."""
        return {"key": list(self.pairing.key)}

    def describe_state(self) -> Mapping[str, Any]:
        """The types of columns, and which of them each side has."""
        sides = [
            {"object": side.object_type, "attributes": list(side.attributes), "keys": list(side.keys)}
            for side in self.sides
        ]
        return {**self.kept_settings(), "attributes": dict(self.attributes), "sides": sides}

    def version_check(self) -> Callable[[int], object] | None:
        """Every version that loads will do."""
        return None

    def rules_at(self, version: int) -> RulesInForce:
        """The rules of one version."""
        return rules_in_force(self.source, version, self.stream)

    def make_engine(self, version: int, bucket: int) -> Pairwise:
        """An engine with the rules of one version, and no rows.

        Rules are indexed once per process; every bucket gets a copy, which costs a fraction of that.
        """
        engine = _templates.get((self, version), lambda: self._index_rules(version)).copy()
        if self.late is not None:
            engine.sides.late = partial(_write_late, task=self, bucket=bucket)
        return engine

    def _index_rules(self, version: int) -> Pairwise:
        rules, clock = self.rules_at(version), Clock(TIME, self.timeout)
        clock.start(AttributeType.parse(self.time_type), rules.ids[rules.expiring])
        settings: dict[str, Any] = {"silent": self.first == "silent", "journal": True, "carry": self.columns.carry}
        engine = Pairwise((OBJECT, self.sequence), clock, self.pairing, **settings)
        types = {name: AttributeType.parse(kind) for name, kind in self.attributes}
        engine.sides.same = frozenset(name for side in self.sides for name in side.naming)
        engine.track(types, [(side.attributes, (*side.keys, *self.pairing.key)) for side in self.sides])
        engine.show_keys({name for side in self.sides for name in side.keys})
        engine.start(rules)
        return engine


_templates: "RecentlyUsed[tuple[BandTask, int], Pairwise]" = RecentlyUsed(_HELD)


def _write_late(side: str, rows: Any, task: BandTask, bucket: int) -> None:
    task.write_late(rows, bucket, SIDES.index(side), side)


# -- which columns -----------------------------------------------------------------------------------------


def needed_by_bands(snapshot: Snapshot) -> list[tuple[dict[str, str], set[str], set[str]]]:
    """Of each side: numbers and times that bands use, with their types; strings; and what equals the other side's."""
    rules = band_rules(snapshot, snapshot.in_force)
    return [
        (
            {name: str(snapshot.types[name]) for name in {name for rule in rules for name in rule.attributes(side)}},
            {name for rule in rules for name in rule.strings(side)},
            {name for rule in rules for name, _ in rule.same_columns(side)},
        )
        for side in (0, 1)
    ]


# -- batch frames ------------------------------------------------------------------------------------------


def cut_by_time(tables: list[Any]) -> Iterator[list[Any]]:
    """Rows of both sides in the order of time, some at a time; rows of one time come together."""
    kind: AttributeType | None = None
    ordered: list[Any] = []
    times: list[Int64s] = []
    for table in tables:
        if table is None:
            ordered.append(None)
            times.append(np.zeros(0, np.int64))
            continue
        # Rows without a time come first; the option for that is spelled otherwise in newer Arrow, which warns.
        order = pa.table({"known": pc.is_valid(table[TIME]), "time": table[TIME]})
        table = table.take(pc.sort_indices(order, [("known", "ascending"), ("time", "ascending")]))
        column = table.column(TIME).combine_chunks()
        kind = kind or AttributeType.parse(column.type)
        ordinals, known = kind.encode(column, TIME)
        ordered.append(table)
        times.append(ordinals if known is None else np.where(known, ordinals, np.iinfo(np.int64).min))
    every = np.sort(np.concatenate(times))
    cuts = np.unique(every[MOST_ROWS // 4 :: MOST_ROWS // 4])
    places = [[0, *np.searchsorted(own, cuts, "right").tolist(), len(own)] for own in times]
    for number in range(len(cuts) + 1):
        rows = [
            table.slice(at[number], at[number + 1] - at[number])
            if table is not None and at[number + 1] > at[number]
            else None
            for table, at in zip(ordered, places, strict=True)
        ]
        if any(each is not None for each in rows):
            yield rows
