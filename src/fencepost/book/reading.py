"""What a book says over an open connection: its rules, one of them, and what happened to them."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, select, union_all

from fencepost.book.changes import Change, rule_of, time_of
from fencepost.book.storing import ROWS_AT_ONCE, Progress, State, ids_named, stored_rows
from fencepost.book.tables import BOOK, PAST, RULES, UNREMOVED
from fencepost.errors import FencepostError
from fencepost.rules.rule import Rule, RuleKey, checked_id

if TYPE_CHECKING:
    from fencepost.rules import Rules

# What parses or compiles is imported where it is used: looking at a book needs none of it.

_STREAMED = {"yield_per": ROWS_AT_ONCE}


def read_revision(connection: Connection) -> int:
    """The number of the last change."""
    number: int = connection.execute(select(BOOK.c.revision)).scalar_one()
    return number


def count_rules(connection: Connection) -> int:
    """How many rules there are."""
    number: int = connection.execute(select(func.count()).select_from(RULES).where(UNREMOVED)).scalar_one()
    return number


def read_rules(connection: Connection, asked: ColumnElement[bool] = UNREMOVED) -> Iterator[Rule]:
    """The rules of some rows, in the order of their ids, as they are needed."""
    there = select(RULES).where(asked).order_by(RULES.c.id)
    with connection.execute(there, execution_options=_STREAMED) as answer:
        for row in answer.mappings():
            rule = rule_of(row)
            assert rule is not None
            yield rule


def parse_rules(connection: Connection, zone: str, progress: Progress) -> "Rules":
    """All rules, parsed, with their versions."""
    from fencepost.book.publishing import rules_from

    total = count_rules(connection)

    def counted() -> Iterator[Rule]:
        for number, rule in enumerate(read_rules(connection), start=1):
            yield rule
            if number % ROWS_AT_ONCE == 0:
                progress("parsing", number, total)

    return rules_from(counted(), zone)


def find_rules_where(
    connection: Connection,
    labels: Mapping[str, str] | None,
    state: State | None,
    text: str | None,
    holds: Mapping[str, Any] | None,
    progress: Progress,
) -> Iterator[Rule]:
    """The rules that everything given is true of; the arguments are those of `RuleBook.list`."""
    from fencepost.book.finding import conditions_for, holding, is_asked_for

    asked = conditions_for(labels, state, text)

    def found() -> Iterator[Rule]:
        for number, rule in enumerate(read_rules(connection, asked), start=1):
            if holds is not None and number % ROWS_AT_ONCE == 0:
                progress("parsing", number, None)
            if is_asked_for(rule, labels, text):
                yield rule

    chosen = None if holds is None else holding(found(), holds)
    yield from (rule for rule in found() if chosen is None or rule.id in chosen)


def find_number(connection: Connection, key: RuleKey, *, also_removed: bool = False) -> int:
    """The id of a rule that is called by its id or its name."""
    if not isinstance(key, str):
        return checked_id(key)
    if not (found := ids_named(connection, [key], also_removed=also_removed)):
        from fencepost.rules.checked import no_such_name

        raise no_such_name(key)
    return found[key][-1]


def find_rule(connection: Connection, key: RuleKey, expect: int | None = None) -> tuple[Rule, RowMapping]:
    """A rule that is there, in the version that the caller expects, with its row."""
    id = find_number(connection, key)
    last = stored_rows(connection, [id]).get(id)
    rule = None if last is None else rule_of(last)
    if last is None or rule is None:
        fate = "does not exist" if last is None else f"was {last['action']} by {last['author']}"
        raise FencepostError(f"rule {id} {fate}", "the id of a rule in the book", "Use add() for a new rule.")
    if expect is not None and rule.version != expect:
        raise FencepostError(
            f"rule {id} is at version {rule.version}, {last['action']} by {last['author']}",
            f"version {expect}",
            "Look at what changed, and make the change again if it is still meant.",
        )
    return rule, last


def find_version(connection: Connection, id: int, version: int) -> Rule:
    """A rule as a version of it was."""
    known = []
    for table in (PAST, RULES):
        for row in connection.execute(select(table).where(table.c.id == id)).mappings():
            rule = rule_of(row)
            if rule is not None:
                known.append(rule)
    found = next((rule for rule in known if rule.version == version), None)
    if found is None:
        versions = ", ".join(str(each) for each in sorted({rule.version for rule in known}))
        raise FencepostError(
            f"rule {id} has no version {version!r}", f"one of {versions}", "Look at its history for what they were."
        )
    return found


def read_history(connection: Connection, key: RuleKey | None, last: int | None) -> Iterator[Change]:
    """What happened to the rules, or to one of them, in order; with `last`, only so many of the last changes."""
    changes = union_all(select(RULES), select(PAST)).subquery()
    before = PAST.alias()
    asked = select(changes, *(column.label(f"before_{column.name}") for column in before.c)).select_from(
        changes.outerjoin(before, and_(before.c.id == changes.c.id, before.c.revision == changes.c.previous))
    )
    if key is not None:
        asked = asked.where(changes.c.id == find_number(connection, key, also_removed=True))
    if last is None:
        asked = asked.order_by(changes.c.revision, changes.c.id)
    else:
        asked = asked.order_by(changes.c.revision.desc(), changes.c.id.desc()).limit(last)
    with connection.execute(asked, execution_options=_STREAMED) as answer:
        rows = answer.mappings()
        yield from map(_change_of, rows if last is None else reversed(list(rows)))


def _change_of(row: RowMapping) -> Change:
    before = None
    if row["before_id"] is not None:
        before = rule_of({name.removeprefix("before_"): row[name] for name in row if name.startswith("before_")})
    return Change(row["revision"], row["id"], row["action"], row["author"], time_of(row), before, rule_of(row))
