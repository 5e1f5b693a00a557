"""Any sequence of changes to a book leaves what the same sequence leaves in a dictionary."""

import csv
import json
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import fencepost as fp
from fencepost.published import VersionDirectory
from fencepost.rules.damping import Damping
from tests.book.model import CONDITIONS, EXPIRIES, LABELS, ROWS, SCHEMA, Model

IDS = st.sampled_from([1, 2, 3, -(2**63), 2**63 - 1])
RULES = st.fixed_dictionaries(
    {
        "condition": st.sampled_from(list(CONDITIONS)),
        "detect": st.sampled_from(["inside", "enter,exit"]),
        "initial": st.booleans(),
        "labels": st.sampled_from(LABELS),
        "expires": st.sampled_from(EXPIRIES),
        "enabled": st.booleans(),
        "name": st.sampled_from([None, None, "a", "b", "'; DROP TABLE fencepost_rules; --"]),
    }
)


class BookMachine(RuleBasedStateMachine):
    """Subclasses say where the book is."""

    def url(self, home: Path) -> str:
        raise NotImplementedError

    @initialize()
    def begin(self) -> None:
        self.home = Path(mkdtemp(prefix="fencepost-book-"))
        self.address = self.url(self.home)
        self.book = fp.RuleBook(self.address, author="ann")
        self.model = Model()

    def teardown(self) -> None:
        if hasattr(self, "home"):
            self.book.close()
            shutil.rmtree(self.home)

    @rule(id=IDS, given=RULES)
    def add(self, id: int, given: dict[str, Any]) -> None:
        if id in self.model.rules:
            with pytest.raises(fp.FencepostError, match="already exists; ids must be unique"):
                self.book.add(id, **given)
        elif self.model.has_name(given["name"], id):
            with pytest.raises(fp.FencepostError, match="expected a name that no other rule has"):
                self.book.add(id, **given)
        else:
            self.model.put(id, given, "added")
            assert self.book.add(id, **given).version == self.model.versions[id]

    @rule(id=IDS, given=RULES, stale=st.booleans())
    def replace(self, id: int, given: dict[str, Any], stale: bool) -> None:
        version = self.model.rules.get(id, {}).get("version")
        if version is None:
            with pytest.raises(fp.FencepostError, match="expected the id of a rule in the book"):
                self.book.replace(id, **given)
        elif stale:
            with pytest.raises(fp.FencepostError, match=f"expected version {version + 1}"):
                self.book.replace(id, **given, expect=version + 1)
        elif self.model.has_name(given["name"], id):
            with pytest.raises(fp.FencepostError, match="expected a name that no other rule has"):
                self.book.replace(id, **given, expect=version)
        else:
            self.model.put(id, given, "replaced")
            self.book.replace(id, **given, expect=version)

    @rule(id=IDS)
    def remove(self, id: int) -> None:
        if id in self.model.rules:
            self.model.remove(id, "removed")
            self.book.remove(id)
        else:
            with pytest.raises(fp.FencepostError, match="expected the id of a rule in the book"):
                self.book.remove(id)

    @precondition(lambda self: self.model.rules)
    @rule(data=st.data(), enabled=st.booleans())
    def pause_or_resume(self, data: st.DataObject, enabled: bool) -> None:
        id = data.draw(st.sampled_from(sorted(self.model.rules)))
        old = self.model.rules[id]
        if not enabled:
            self.model.pause(id, None)
        elif not old["enabled"]:
            self.model.put(id, {**old, "enabled": True}, "resumed")
        changed = self.book.resume(id) if enabled else self.book.pause(id)
        assert changed.version == self.model.versions[id]

    @precondition(lambda self: self.model.rules)
    @rule(data=st.data(), until=st.sampled_from([each for each in EXPIRIES if each is not None]))
    def pause_for_a_while(self, data: st.DataObject, until: datetime) -> None:
        id = data.draw(st.sampled_from(sorted(self.model.rules)))
        self.model.pause(id, until)
        assert self.book.pause(id, until=until).version == self.model.versions[id]
        self.model.wake(datetime.now(UTC))
        assert self.book.pauses() == self.model.pauses

    @precondition(lambda self: self.model.versions)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.model.versions)))
        known = [after["version"] for of, _, _, after in self.model.changes if of == id and after]
        with pytest.raises(fp.FencepostError, match="has no version 99; expected one of"):
            self.book.restore(id, 99)
        version = data.draw(st.sampled_from(known))
        if self.model.has_name(self.model.version(id, version)["name"], id):
            with pytest.raises(fp.FencepostError, match="a name that no other rule has"):
                self.book.restore(id, version)
            return
        self.model.restore(id, version)
        assert self.book.restore(id, version).version == self.model.rules[id]["version"]

    @rule(
        origin=st.sampled_from(["alerts", "it's; DROP TABLE fencepost_origins; --"]),
        rows=st.dictionaries(IDS, RULES),
        adopt=st.booleans(),
        careful=st.booleans(),
    )
    def sync(self, origin: str, rows: dict[int, dict[str, Any]], adopt: bool, careful: bool) -> None:
        table = table_of({id: {**each, "enabled": True} for id, each in rows.items()})
        options: dict[str, Any] = {"labels_column": "labels", "expires_column": "expires"}
        options |= {"detect_column": "detect", "initial_column": "initial", "name_column": "name", "adopt": adopt}
        gone = (self.model.mirrored.get(origin, set()) & self.model.rules.keys()) - rows.keys()
        revision = self.book.revision

        def sync(**given: Any) -> Any:
            return self.book.sync(table, origin=origin, id="id", condition="condition", **options, **given)

        own_names = [each["name"] for each in rows.values() if each["name"]]
        if len(set(own_names)) < len(own_names):
            with pytest.raises(fp.RuleFaultsError, match="is in an earlier row, too; names must be unique"):
                sync()
            return
        if careful and gone:
            with pytest.raises(
                fp.FencepostError, match=f"{len(gone)} of .* would go; expected at most 0 to be removed"
            ):
                sync(remove_at_most=0)
            return
        if self.model.foreign(origin, rows) and not adopt:
            with pytest.raises(fp.RuleFaultsError, match="and was not made from this table"):
                sync(remove_at_most="100%")
            return
        after = {id: each for id, each in self.model.rules.items() if id not in gone} | rows
        names = [each["name"] for each in after.values() if each["name"]]
        if len(set(names)) < len(names):
            with pytest.raises(fp.RuleFaultsError, match=r"names must be unique|would belong to the rules"):
                sync(remove_at_most="100%")
            return
        planned = sync(remove_at_most="100%", dry_run=True)
        assert (self.book.revision, planned.revision) == (revision, None)
        before = len(self.model.changes)
        self.model.sync(origin, {id: {**each, "enabled": True} for id, each in rows.items()})
        actions = [action for _, action, _, _ in self.model.changes[before:]]
        synced = sync(remove_at_most="100%")
        counts = [synced.added, synced.replaced, synced.removed]
        assert counts == [actions.count(action) for action in ("added", "replaced", "removed")]
        assert counts == [planned.added, planned.replaced, planned.removed]
        assert synced.unchanged == len(rows) - synced.added - synced.replaced
        # One change, or none where all is so already.
        assert synced.revision == (revision + 1 if actions else None)
        assert self.book.revision == revision + bool(actions)

    @rule(values=st.sampled_from(ROWS), label=st.sampled_from(LABELS), state=st.sampled_from(["enabled", "paused"]))
    def find(self, values: dict[str, Any], label: dict[str, str] | None, state: Any) -> None:
        rules = self.model.rules
        columns = {name.strip() for each in rules.values() for name in SCHEMA if name in each["condition"]}
        given = {name: value for name, value in values.items() if value is not None and name in columns}
        found = {each.id for each in self.book.list(holds=given)}
        row = {name: given.get(name) for name in SCHEMA}
        assert found == {id for id, each in rules.items() if CONDITIONS[each["condition"]](row)}
        asked = [each.id for each in self.book.list(labels=label, state=state, text="PRICE")]
        assert asked == [
            id
            for id, each in sorted(rules.items())
            if (label or {}).items() <= (each["labels"] or {}).items()
            and each["enabled"] == (state == "enabled")
            and "price" in each["condition"]
        ]

    @rule()
    def expire(self) -> None:
        now = datetime.now(UTC)
        passed = sorted(id for id, each in self.model.rules.items() if each["expires"] and each["expires"] <= now)
        for id in passed:
            self.model.remove(id, "expired")
        assert self.book.expire() == passed

    @rule(
        given=st.dictionaries(IDS, st.tuples(RULES, st.integers(1, 9))),
        existing=st.sampled_from(["refuse", "replace", "skip"]),
        extension=st.sampled_from(["jsonl", "csv"]),
    )
    def import_file(self, given: dict[int, tuple[dict[str, Any], int]], existing: Any, extension: str) -> None:
        path = self.home / f"rules.{extension}"
        write(path, [{"id": id, **each, "version": version} for id, (each, version) in given.items()])
        if existing == "refuse" and self.model.rules.keys() & given:
            with pytest.raises(fp.RuleFaultsError, match=r"is already in the book|names must be unique"):
                self.book.import_file(path)
            return
        if self.model.would_share_a_name({id: each for id, (each, _) in given.items()}, existing):
            with pytest.raises(fp.RuleFaultsError, match=r"the name .* (is also in line|would belong to the rules)"):
                self.book.import_file(path, existing=existing)
            return
        for id in sorted(given):  # a change of many is told in the order of ids
            each, version = given[id]
            old = self.model.rules.get(id)
            if old is None:
                self.model.put(id, each, "added", version)
            elif existing == "replace" and {**old, "version": 0} != {**each, "version": 0}:
                self.model.put(id, each, "replaced", version)
        self.book.import_file(path, existing=existing)

    @rule()
    def reopen(self) -> None:
        self.book.close()
        self.book = fp.RuleBook(self.address, author="ann", create=False)

    @rule(given_schema=st.booleans())
    def publish(self, given_schema: bool) -> None:
        directory = self.home / "published"
        first = not directory.exists()
        number = self.book.publish(directory, SCHEMA if first or given_schema else None)
        snapshot = VersionDirectory(directory).load(number)
        table = {name: [row[name] for row in ROWS] for name in SCHEMA}
        assert snapshot.match(table).sets() == [self.model.matches(row) for row in ROWS]
        rules = snapshot.rules
        found = {int(rules.ids[row]): int(rules.versions[row]) for row in snapshot.in_force}
        assert found == {id: each["version"] for id, each in self.model.rules.items() if each["enabled"]}
        named = {each["name"]: id for id, each in self.model.rules.items() if each["enabled"] and each["name"]}
        assert {name: snapshot.id_of(name) for name in named} == named
        assert snapshot.paused == {id: each["version"] for id, each in self.model.rules.items() if not each["enabled"]}

    @invariant()
    def is_the_model(self) -> None:
        if not hasattr(self, "book"):
            return
        stored = {each.id: without_id(each) for each in self.book}
        assert stored == self.model.rules
        assert len(self.book) == len(stored)
        named = {each["name"]: id for id, each in self.model.rules.items() if each["name"]}
        assert {name: self.book.id_of(name) for name in named} == named
        with pytest.raises(fp.FencepostError, match="No rule has the name 'nobody'"):
            self.book.id_of("nobody")
        history = [(each.id, each.action, maybe(each.before), maybe(each.after)) for each in self.book.history()]
        assert history == self.model.changes
        assert {each.author for each in self.book.history(last=3)} <= {"ann"}


def table_of(rows: dict[int, dict[str, Any]]) -> Any:
    """Rules as a table, in no order."""
    fields = [("id", pa.int64()), ("condition", pa.string()), ("detect", pa.string()), ("initial", pa.bool_())]
    fields += [("name", pa.string()), ("labels", pa.string()), ("expires", pa.timestamp("us", "UTC"))]
    columns: dict[str, list[Any]] = {name: [] for name, _ in fields}
    for id, each in rows.items():
        for name in columns:
            columns[name].append(id if name == "id" else each[name])
    columns["labels"] = [labels and json.dumps(labels) for labels in columns["labels"]]
    return pa.table({name: pa.array(columns[name], type_) for name, type_ in fields})


def without_id(rule: fp.Rule) -> dict[str, Any]:
    fields = asdict(rule)
    del fields["id"]
    # The machine draws no damping; tests/book/test_damping.py does.
    return {name: value for name, value in fields.items() if name not in Damping._fields or value is not None}


def maybe(rule: fp.Rule | None) -> dict[str, Any] | None:
    return None if rule is None else without_id(rule)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """A file as somebody else would write it."""
    for row in rows:
        row["expires"] = row["expires"] and row["expires"].isoformat()
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", *RULE_FIELDS])
        writer.writeheader()
        for row in rows:
            writer.writerow(row | {"labels": row["labels"] and json.dumps(row["labels"])})


RULE_FIELDS = ["condition", "detect", "initial", "labels", "expires", "enabled", "version", "name"]
