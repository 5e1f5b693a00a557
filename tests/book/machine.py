"""Any sequence of changes to a book leaves what the same sequence leaves in a dictionary."""

import csv
import json
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import fencepost as fp
from fencepost.published import VersionDirectory
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
        if old["enabled"] != enabled:
            self.model.put(id, {**old, "enabled": enabled}, "resumed" if enabled else "paused")
        changed = self.book.resume(id) if enabled else self.book.pause(id)
        assert changed.version == self.model.versions[id]

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
            with pytest.raises(fp.RuleFaultsError, match="is already in the book"):
                self.book.import_file(path)
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
        assert snapshot.paused == {id: each["version"] for id, each in self.model.rules.items() if not each["enabled"]}

    @invariant()
    def is_the_model(self) -> None:
        if not hasattr(self, "book"):
            return
        stored = {each.id: without_id(each) for each in self.book}
        assert stored == self.model.rules
        assert len(self.book) == len(stored)
        history = [(each.id, each.action, maybe(each.before), maybe(each.after)) for each in self.book.history()]
        assert history == self.model.changes
        assert {each.author for each in self.book.history(last=3)} <= {"ann"}


def without_id(rule: fp.Rule) -> dict[str, Any]:
    fields = asdict(rule)
    del fields["id"]
    return fields


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


RULE_FIELDS = ["condition", "detect", "initial", "labels", "expires", "enabled", "version"]
