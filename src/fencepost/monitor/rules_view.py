"""The rules of a monitor, to look at."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fencepost._text import count
from fencepost.errors import FencepostError
from fencepost.rules.damping import damping_of
from fencepost.rules.html import rules_html
from fencepost.rules.rule import Rule, RuleKey, checked_id, instant_of, labels_of
from fencepost.rules.texts import condition_of
from fencepost.snapshot import Snapshot, detect_names


class RulesView:
    """The rules in force, as they were when they were asked for: `len`, `in`, iteration, a `Rule` by its id or name.

    Rules of a table have a condition that says the same.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def snapshot(self) -> Snapshot:
        """The same as a snapshot."""
        return self._snapshot

    def __len__(self) -> int:
        return len(self._snapshot)

    def __contains__(self, id: object) -> bool:
        try:
            return self._row(id) >= 0  # type: ignore[arg-type]
        except FencepostError:
            return False

    def __getitem__(self, id: RuleKey) -> Rule:
        row = self._row(id)
        if row < 0:
            raise FencepostError(f"rule {id} is not in force", "a rule that is", "Add it, or enable it with replace().")
        return self._rule(row)

    def __iter__(self) -> Iterator[Rule]:
        return map(self._rule, self._snapshot.in_force.tolist())

    def _row(self, key: RuleKey) -> int:
        if isinstance(key, str):
            return int(self._snapshot.rows_named(pa.array([key], pa.large_string()))[0])
        return int(self._snapshot.rows_of(np.array([checked_id(key)], np.int64))[0])

    def _rule(self, row: int) -> Rule:
        snapshot, rules = self._snapshot, self._snapshot.rules
        condition = rules.conditions[row].as_py()
        damping = None if snapshot.damping is None else snapshot.damping.text_of(row)
        return Rule(
            int(rules.ids[row]),
            condition_of(snapshot.boxes_of(row), snapshot.types) if condition is None else condition,
            detect_names(int(rules.detects[row])),
            bool(rules.initial[row]),
            labels_of(rules.labels[row].as_py()),
            instant_of(int(rules.expires[row])),
            True,
            int(rules.versions[row]),
            rules.names[row].as_py(),
            **({} if damping is None else damping_of(damping).as_options()),
        )

    def __repr__(self) -> str:
        return f"RulesView({count(len(self), 'rule')} in force)"

    def _repr_html_(self) -> str:
        return rules_html(f"{count(len(self), 'rule')} in force", self, len(self))
