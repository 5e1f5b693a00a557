"""Rules of a book, a page at a time: every query goes along an index and looks at so many rows at most.

Where no index of the database finds what is asked for, `Texts` says which rules a page can pass over.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, select, true

from fencepost.book.changes import rule_of
from fencepost.book.database import Database
from fencepost.book.finding import conditions_for, is_asked_for, label_texts, mentions
from fencepost.book.storing import State
from fencepost.book.tables import BOOK, PAST, REMOVED, RULES, UNREMOVED
from fencepost.book.texts import Span, Texts, texts_wanted
from fencepost.rules.rule import Rule

_LOOKED_AT = 20_000
"""Rules that one page looks at: a search that finds nothing among a million rules ends a page after so many."""
_FIRST_LOOK = 500
_NAMES = 20
_COUNTED = 500
"""Changes that are added to a number of rules that is known; after more of them, all rules are counted."""
_LAST = "\U0010ffff"


@dataclass(frozen=True)
class RulePage:
    """Some rules of a book, in the order of their ids.

    Args:
        rules: those that were found.
        after: the id to go on after; None where there are no more.
        looked_at: how many rules were compared with what was asked for, where the page ends before it is full.
    """

    rules: tuple[Rule, ...]
    after: int | None
    looked_at: int | None = None


def search_page(
    connection: Connection,
    texts: Texts,
    after: int | None,
    limit: int,
    *,
    labels: Mapping[str, str] | None = None,
    state: State | None = None,
    text: str | None = None,
    search: str | None = None,
) -> RulePage:
    """The next rules after an id that everything given is true of."""
    begin = UNREMOVED if after is None else and_(UNREMOVED, RULES.c.id > after)
    if not labels and state is None and text is None and not search:
        found = _rules(connection, begin, limit + 1)
        return RulePage(tuple(found[:limit]), found[limit - 1].id if len(found) > limit else None)
    asked = and_(UNREMOVED, conditions_for(labels, state, text), mentions(search))
    left, found = _LOOKED_AT, list[Rule]()
    for span in texts.spans(connection, after, texts_wanted(label_texts(labels), state, text, search)):
        # Where the next rules fill the page, nobody need count as far as it may look.
        for most in sorted({min(_FIRST_LOOK, left), left}):
            end = _end_of_look(connection, span, most)
            some = list(_look(connection, span, end, asked, limit + 1 - len(found), labels, text))
            if len(found) + len(some) > limit:
                found += some
                return RulePage(tuple(found[:limit]), found[limit - 1].id)
            if end is None:
                break
        found += some
        if end is not None:
            texts.read_beside()
            return RulePage(tuple(found), end, _LOOKED_AT)
        left = max(1, left - (span.rules or 0))
    return RulePage(tuple(found), None)


def _within(span: Span, end: int | None = None) -> ColumnElement[bool]:
    last = span.last if end is None else end
    low = true() if span.after is None else RULES.c.id > span.after
    return and_(low, true() if last is None else RULES.c.id <= last)


def _end_of_look(connection: Connection, span: Span, most: int) -> int | None:
    """The id after so many rules of a span; None where it ends before."""
    if span.rules is not None and span.rules <= most // 2:  # about so many: rules may have come since
        return None
    ids = select(RULES.c.id).where(UNREMOVED, _within(span)).order_by(RULES.c.id)
    end: int | None = connection.execute(ids.offset(most - 1).limit(1)).scalar()
    return end


def _look(
    connection: Connection,
    span: Span,
    end: int | None,
    asked: ColumnElement[bool],
    limit: int,
    labels: Mapping[str, str] | None,
    text: str | None,
) -> Iterator[Rule]:
    """The first rules of a span that are asked for."""
    behind = and_(asked, _within(span, end))
    while limit > 0:
        some = _rules(connection, behind, limit)
        fit = [rule for rule in some if is_asked_for(rule, labels, text)]
        yield from fit
        if len(some) < limit:
            return
        limit -= len(fit)
        behind = and_(asked, _within(Span(some[-1].id, span.last, None), end))  # the database let too much through


def find_named(connection: Connection, beginning: str) -> list[Rule]:
    """The rule whose id a text is, then those whose name begins with it, by their names; not more than a person reads.

    The rule that has the text as its whole name is the first of these.
    """
    found, digits = [], beginning.removeprefix("-")
    if digits.isdecimal() and len(digits) < 20 and -(2**63) <= int(beginning) < 2**63:
        found = find_rules(connection, [int(beginning)])
    # In the order of names, which the index has: that of ids would take all of a million that begin alike.
    named = and_(RULES.c.name >= beginning, RULES.c.name < beginning + _LAST, UNREMOVED)
    others = [rule for rule in _rules(connection, named, _NAMES, RULES.c.name) if rule not in found]
    return [*found, *others][:_NAMES]


def find_rules(connection: Connection, ids: Sequence[int]) -> list[Rule]:
    """Those of some rules that are there, in the order of their ids."""
    return _rules(connection, and_(RULES.c.id.in_(ids), UNREMOVED), len(ids))


def _rules(
    connection: Connection, asked: ColumnElement[bool], limit: int, by: ColumnElement[Any] = RULES.c.id
) -> list[Rule]:
    rows = connection.execute(select(RULES).where(asked).order_by(by).limit(limit)).mappings()
    return [rule for row in rows if (rule := rule_of(row)) is not None]


class RuleCount:
    """How many rules a book has: counted once, then kept up with what changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: tuple[int, int] | None = None
        """A revision of the book, and how many rules there were then."""

    def read(self) -> int:
        """How many there are."""
        with self._database.reading() as connection:
            revision: int = connection.execute(select(BOOK.c.revision)).scalar_one()
            if self._known is None or (change := _count_change(connection, self._known[0])) is None:
                total = connection.execute(select(func.count()).select_from(RULES).where(UNREMOVED)).scalar_one()
            else:
                total = self._known[1] + change
        self._known = revision, total
        return total


def _count_change(connection: Connection, since: int) -> int | None:
    """How many more rules there are than at a revision; None where more has changed than is worth a look."""
    changed = select(RULES.c.id, RULES.c.action).where(RULES.c.revision > since).limit(_COUNTED + 1)
    now = {row.id: row.action not in REMOVED for row in connection.execute(changed)}
    if len(now) > _COUNTED:
        return None
    past = select(PAST.c.id, PAST.c.revision, PAST.c.action).where(PAST.c.id.in_(now), PAST.c.revision <= since)
    before = {row.id: row.action not in REMOVED for row in connection.execute(past.order_by(PAST.c.revision))}
    return sum(now.values()) - sum(before.values())
