"""Changes of single rules: what each of them reads and writes, within a change of the book that somebody began."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, select

from fencepost.book.changes import change_row, rule_of, stamp_now
from fencepost.book.database import Writing
from fencepost.book.pauses import Pauses
from fencepost.book.reading import find_number, find_rule, find_version
from fencepost.book.storing import chunks, ids_named, number_names, put, stored_rows
from fencepost.book.tables import RULES, UNREMOVED
from fencepost.errors import FencepostError, shorten
from fencepost.rules.rule import Rule, RuleKey


def add_rule(writing: Writing, key: RuleKey, rule: Rule, author: str) -> Rule:
    """Add a rule that was checked; one that is called by a name gets its id here."""
    if isinstance(key, str):
        rule = replace(rule, id=number_names(writing.connection, [key])[0])
    last = stored_rows(writing.connection, [rule.id]).get(rule.id)
    if last is not None:
        if rule_of(last) is not None:
            raise _taken(key, rule.id)
        rule = replace(rule, version=last["version"] + 1)
    _put(writing, [(rule, last)], "added", author)
    _refuse_taken(writing.connection, rule)
    return rule


def _taken(key: RuleKey, id: int) -> FencepostError:
    """The refusal of a new rule by the id or the name of another."""
    from fencepost.rules.checked import NameTakenError

    if isinstance(key, str):
        got, remedy = f"the name {shorten(key)!r} is that of rule {id}", "Choose another name, or edit that rule."
        return NameTakenError(got, "a name that no other rule has", remedy)
    return FencepostError(f"rule {id} already exists", "ids must be unique", "Use replace() to edit it.")


def edit_rule(
    writing: Writing, key: RuleKey, action: str, edited: Callable[[Rule], Rule], expect: int | None, author: str
) -> Rule:
    """Give a rule what a function makes of it; one that is only to be paused or resumed, and is, stays as it is."""
    rule, last = find_rule(writing.connection, key, expect)
    after = replace(edited(rule), version=rule.version + 1)
    if action != "replaced" and after.enabled == rule.enabled:
        return rule
    _put(writing, [(after, last)], action, author)
    _refuse_taken(writing.connection, after)
    return after


def remove_rule(writing: Writing, key: RuleKey, expect: int | None, author: str) -> None:
    """Take a rule out."""
    _put(writing, [find_rule(writing.connection, key, expect)], "removed", author)


def pause_rule(
    writing: Writing, pauses: Pauses, key: RuleKey, end: datetime | None, expect: int | None, author: str
) -> Rule:
    """Pause a rule, for a while where there is an end; one that is paused until then stays as it is."""
    rule, last = find_rule(writing.connection, key, expect)
    after = replace(rule, enabled=False, version=rule.version + 1)
    if not rule.enabled and end == pauses.find(writing.connection, rule.id, last["revision"]):
        return rule
    _put(writing, [(after, last)], "paused", author)
    if end is not None:
        pauses.note(writing, rule.id, end)
    return after


def restore_rule(writing: Writing, key: RuleKey, version: int, expect: int | None, author: str) -> Rule:
    """Give a rule, removed or not, the content of an earlier version; one that has it stays as it is."""
    connection = writing.connection
    number = find_number(connection, key, also_removed=True)
    last = stored_rows(connection, [number]).get(number)
    if last is None or expect is not None:
        find_rule(connection, number, expect)  # refuses
    assert last is not None
    old = find_version(connection, number, version)
    now = rule_of(last)
    if now is not None and replace(old, version=now.version) == now:
        return now
    after = replace(old, version=last["version"] + 1)
    _put(writing, [(after, last)], "restored", author)
    _refuse_taken(connection, after)
    return after


def restore_rules(writing: Writing, versions: Mapping[int, int], gone: Sequence[int], author: str) -> int:
    """Give many rules the content of earlier versions and take others out; how many changed."""
    connection = writing.connection
    last = {id: row for ids in chunks([*versions, *gone]) for id, row in stored_rows(connection, ids).items()}
    restored, removed = [], []
    for id, version in versions.items():
        old, row = find_version(connection, id, version), last[id]
        now = rule_of(row)
        if now is None or replace(old, version=now.version) != now:
            restored.append((replace(old, version=row["version"] + 1), row))
    for id in gone:
        now = rule_of(last[id]) if id in last else None
        if now is not None:
            removed.append((now, last[id]))
    _put(writing, restored, "restored", author)
    _put(writing, removed, "removed", author)
    for rule, _ in restored:
        _refuse_taken(connection, rule)
    return len(restored) + len(removed)


def expire_rules(writing: Writing, instant: int | None, author: str) -> list[int]:
    """Take out the rules whose `expires` has passed by an instant, in microseconds; their ids."""
    passed = select(RULES).where(UNREMOVED, RULES.c.expires <= instant).order_by(RULES.c.id)
    rows = writing.connection.execute(passed).mappings().all()
    ended = [(rule, row) for row in rows if (rule := rule_of(row)) is not None]
    _put(writing, ended, "expired", author)
    return [rule.id for rule, _ in ended]


def _put(writing: Writing, changed: Iterable[tuple[Rule, RowMapping | None]], action: str, author: str) -> None:
    stamp = stamp_now(writing.revision, action, author)
    rows = (change_row(rule, stamp, None if last is None else last["revision"]) for rule, last in changed)
    for some in chunks(rows):
        put(writing.connection, some)


def _refuse_taken(connection: Connection, rule: Rule) -> None:
    """Refuses a rule that was just written, if another one has its name."""
    if rule.name is not None:
        others = [id for id in ids_named(connection, [rule.name])[rule.name] if id != rule.id]
        if others:
            from fencepost.rules.checked import name_taken

            raise name_taken(rule.id, rule.name, others[0])
