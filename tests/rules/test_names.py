"""Names of rules: unique, found again, and kept by everything that keeps rules."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import fencepost as fp
from tests.effort import examples
from tests.rules.compared import through_json, through_parquet

NAMES = st.sampled_from([None, "a", "b", "ü𝄞", "a longer name than eight bytes"])
IDS = st.integers(1, 6)
PRICES = {"price": ("low", None)}


class NamesMachine(RuleBasedStateMachine):
    """Rules with names, against a dictionary of id to name."""

    @initialize()
    def begin(self) -> None:
        self.named = fp.Rules()
        self.names: dict[int, str | None] = {}

    def owner(self, name: str | None) -> int | None:
        return next((id for id, other in self.names.items() if name is not None and other == name), None)

    @rule(id=IDS, name=NAMES)
    def add(self, id: int, name: str | None) -> None:
        if id in self.names:
            return
        if self.owner(name) is not None:
            with pytest.raises(fp.FencepostError, match=f"the name .* of rule {self.owner(name)}"):
                self.named.add(id, "price > 4", name=name)
            return
        self.named.add(id, "price > 4", name=name)
        self.names[id] = name

    @rule(id=IDS, name=NAMES)
    def replace(self, id: int, name: str | None) -> None:
        if id not in self.names:
            return
        if self.owner(name) not in (None, id):
            with pytest.raises(fp.FencepostError, match=f"the name .* of rule {self.owner(name)}"):
                self.named.replace(id, "price > 5", name=name)
            return
        self.named.replace(id, "price > 5", name=name)
        self.names[id] = name

    @rule(id=IDS)
    def remove(self, id: int) -> None:
        if id in self.names:
            self.named.remove(id)
            del self.names[id]

    @rule(rows=st.lists(st.tuples(IDS, NAMES), min_size=1, max_size=3, unique_by=lambda row: row[0]))
    def add_table(self, rows: list[tuple[int, str | None]]) -> None:
        if any(id in self.names for id, _ in rows):
            return
        table = {"rule_id": [id for id, _ in rows], "low": [1.0] * len(rows), "n": pa.array([n for _, n in rows])}
        given = [name for _, name in rows if name is not None]
        if len(set(given)) < len(given) or any(self.owner(name) is not None for name in given):
            with pytest.raises(fp.RuleFaultsError, match="names must be unique"):
                self.named.add_table(table, ranges=PRICES, name_column="n")
            return
        self.named.add_table(table, ranges=PRICES, options={"name": "n"})
        self.names |= dict(rows)

    @invariant()
    def is_the_model(self) -> None:
        if not hasattr(self, "named"):
            return
        assert {each.id: each.name for each in self.named} == self.names
        snapshot = self.named.compile()
        for name in ("a", "b", "ü𝄞", "a longer name than eight bytes", "nobody"):
            owner = self.owner(name)
            for asked in (self.named, snapshot):
                if owner is None:
                    with pytest.raises(fp.FencepostError, match=r"[Nn]o rule (in force )?has the name"):
                        asked.id_of(name)
                else:
                    assert asked.id_of(name) == owner


def test_any_changes_of_names() -> None:
    run_state_machine_as_test(NamesMachine, settings=examples(60, stateful_step_count=20))


def test_files_and_snapshots_keep_names(tmp_path: Path) -> None:
    rules = fp.Rules.from_table({"rule_id": [1, 2], "low": [1, 2], "n": ["a", None]}, ranges=PRICES, name_column="n")
    rules.add(3, "price < 4", name="ü")
    names = {1: "a", 2: None, 3: "ü"}
    assert {rule.id: rule.name for rule in through_json(rules)} == names
    assert {rule.id: rule.name for rule in through_parquet(rules)} == names
    rules.compile().save(tmp_path / "snapshot")
    loaded = fp.Snapshot.load(tmp_path / "snapshot")
    assert (loaded.id_of("a"), loaded.id_of("ü")) == (1, 3)
    assert fp.Rules.from_dicts([{"id": 7, "condition": "price > 4", "name": "x"}]).id_of("x") == 7
    with pytest.raises(fp.RuleFaultsError, match="row 1: rule 8 has the name 'x' of rule 7"):
        fp.Rules.from_dicts([{"id": id, "condition": "price > 4", "name": "x"} for id in (7, 8)])


def test_files_and_snapshots_from_before_names_are_read(tmp_path: Path) -> None:
    rules = fp.Rules.from_table({"rule_id": [1, 2], "low": [1, 2]}, ranges=PRICES)
    rules.add(3, "price < 4")
    rules.to_parquet(tmp_path / "rules.parquet")
    table = pq.read_table(tmp_path / "rules.parquet")
    pq.write_table(table.drop_columns("name"), tmp_path / "before.parquet")
    assert list(fp.Rules.from_parquet(tmp_path / "before.parquet")) == list(rules)
    rules.compile().save(tmp_path / "snapshot")
    assert b"rules.names" not in (tmp_path / "snapshot" / "header.json").read_bytes(), "as it was before"
    assert fp.Snapshot.load(tmp_path / "snapshot").rules.names.to_pylist() == [None] * 3


FAULTS: list[tuple[Any, str]] = [
    ({"n": ["", "x"]}, "row 0: a name of 0 characters; expected 1 to 500"),
    ({"n": ["x", "y" * 501]}, "row 1: a name of 501 characters; expected 1 to 500"),
    ({"n": ["x", "x"]}, "row 1: the name 'x' is in an earlier row, too; names must be unique"),
    ({"n": [None, "taken"]}, "row 1: the name 'taken' belongs to another rule; names must be unique"),
    ({"n": [1, 2]}, "Column n is of type int64; expected strings"),
]


@pytest.mark.parametrize(("column", "message"), FAULTS)
def test_names_of_tables_that_are_refused(column: dict[str, Any], message: str) -> None:
    rules = fp.Rules()
    rules.add(9, "price > 4", name="taken")
    with pytest.raises(fp.FencepostError) as error:
        rules.add_table({"rule_id": [1, 2], "low": [1, 2], **column}, ranges=PRICES, name_column="n")
    assert message in str(error.value)
    assert len(rules) == 1


def test_columns_that_are_labels() -> None:
    table = {
        "rule_id": [1, 2, 3],
        "low": [1, 2, 3],
        "owner": ['a"nn', None, None],
        "desk": pa.array([4, 5, None], pa.int32()),
        "kind": ["enter", None, "exit"],
    }
    rules = fp.Rules.from_table(table, ranges=PRICES, labels=["owner", "desk"], options={"detect": "kind"})
    assert [rule.labels for rule in rules] == [{"desk": "4", "owner": 'a"nn'}, {"desk": "5"}, None]
    assert [rule.detect for rule in rules] == ["enter", "inside", "exit"]
    assert rules.compile().rules.labels.to_pylist() == ['{"desk": "4", "owner": "a\\"nn"}', '{"desk": "5"}', None]
    assert [rule.labels for rule in through_json(rules)] == [rule.labels for rule in rules]
    assert fp.Rules.from_table(table, ranges=PRICES, labels=())[1].labels is None
    for wrong, message in (
        ({"labels": ["nobody"]}, "the table has no column nobody"),
        ({"labels": ["owner"], "labels_column": "kind"}, "expected one of the two"),
        ({"options": {"colour": "kind"}}, "expected any of detect, initial, labels, expires, enabled, name"),
        ({"options": {"detect": "kind"}, "detect_column": "owner"}, "two columns for detect"),
    ):
        with pytest.raises(fp.FencepostError, match=f"(?i){message}"):
            fp.Rules.from_table(table, ranges=PRICES, **wrong)


def test_a_monitor_refuses_a_name_that_another_rule_has() -> None:
    rules = fp.Rules()
    rules.add(1, "price > 4", name="a")
    monitor = fp.Monitor(rules, object="symbol")
    monitor.add(2, "price > 5", name="b")
    for name, owner in (("a", 1), ("b", 2)):
        with pytest.raises(fp.FencepostError, match=f"Rule 3 has the name '{name}' of rule {owner}"):
            monitor.add(3, "price > 6", name=name)
        with pytest.raises(fp.FencepostError, match=f"Rule 3 has the name '{name}' of rule {owner}"):
            monitor.change(fp.Rules.from_dicts([{"id": 3, "condition": "price > 6", "name": name}]))
    monitor.replace(1, "price > 4", name="a")
    monitor.remove(2)
    monitor.add(3, "price > 6", name="b")
    swapped = [{"id": 1, "condition": "price > 4", "name": "b"}, {"id": 3, "condition": "price > 6", "name": "a"}]
    monitor.change(fp.Rules.from_dicts(swapped))
    with pytest.raises(fp.FencepostError, match="Rule 4 has the name 'b' of rule 1"):
        monitor.add(4, "price > 6", name="b")
