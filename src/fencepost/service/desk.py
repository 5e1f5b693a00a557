"""The rules of a service: its book, asked and changed by those who call it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from fencepost.book import Change, RuleBook
from fencepost.book.importing import import_content
from fencepost.book.paging import RulePage
from fencepost.errors import FencepostError
from fencepost.language import Band, types_suggested_by
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rule, Rules
from fencepost.rules.checked import NameTakenError, rule_of_mapping
from fencepost.rules.options import FIELDS, fields_of
from fencepost.service.monitoring import without_warnings
from fencepost.service.publishing import conditions_of
from fencepost.service.refusals import MissingError, StaleError, TakenError, TooLargeError
from fencepost.snapshot import Snapshot
from fencepost.watching.clock import BeyondClock

Key = int | str
_BEFORE_ALL = -(2**63)
_NO_ID = 0
"""What a rule is checked by that has no id yet."""


class Desk:
    """The rules of the book."""

    def __init__(
        self,
        book: RuleBook,
        columns: Callable[[], Mapping[str, str]],
        beyond_clock: Callable[[Snapshot], BeyondClock],
    ) -> None:
        self.book, self._columns, self._beyond_clock = book, columns, beyond_clock

    # -- reading -------------------------------------------------------------------------------------------

    def page(
        self,
        after: int | None = None,
        limit: int = 50,
        *,
        search: str | None = None,
        labels: Mapping[str, str] | None = None,
        state: Any = None,
    ) -> RulePage:
        """Some rules in the order of their ids. A search finds a rule by its id, its name or its condition."""
        page = self.book.search(after, limit, labels=labels, state=state, search=search)
        found, following = list(page.rules), page.after
        if search is not None and after is None and _is_id(search) and not labels and state is None:
            own = [rule for rule in self._by_id(int(search)) if rule.id not in {each.id for each in found}]
            if own and len(found) == limit:  # it takes the place of the last one, which comes on the next page
                found.pop()
                following = found[-1].id if found else _BEFORE_ALL
            found = own + found
        return RulePage(tuple(found), following)

    def some(self, ids: Sequence[int], after: int | None = None, limit: int = 50) -> RulePage:
        """Those of some rules that are in the book, in the order of their ids, a page at a time."""
        rest = [id for id in sorted(ids) if after is None or id > after]
        return RulePage(tuple(self.book.some(rest[:limit])), rest[limit - 1] if len(rest) > limit else None)

    def _by_id(self, id: int) -> list[Rule]:
        return [self.book[id]] if id in self.book else []

    def get(self, key: Key) -> Rule:
        """One rule, by its id or its name."""
        try:
            return self.book[key]
        except FencepostError as error:
            raise _missing(error) from None

    def paused_until(self, id: int) -> datetime | None:
        """When a rule that is paused for a while goes on."""
        return self.book.pauses().get(id)

    def history(self, key: Key, last: int | None = None) -> list[Change]:
        """What happened to a rule."""
        try:
            changes = list(self.book.history(key, last=last))
        except FencepostError as error:
            raise _missing(error) from None
        if not changes:
            raise MissingError(f"rule {key} does not exist", "the id of a rule in the book", "Correct the id.")
        return changes

    # -- changing ------------------------------------------------------------------------------------------

    def add(self, fields: Mapping[str, Any], author: str) -> Rule:
        """Add a rule; without an id it is called by its name, or gets the next id."""
        given = {name: value for name, value in fields.items() if value is not None}
        key = given.pop("id", given.get("name"))
        checked = self.check({**given, "id": key if isinstance(key, int) else _NO_ID})
        options = _options(checked)
        with without_warnings():
            try:
                if key is None:
                    return self._add_next(checked, options, author)
                return self.book.add(key, str(checked.condition), author=author, **options)
            except NameTakenError as error:
                raise _as(TakenError, error) from None
            except FencepostError as error:
                raise _as(TakenError, error) if "already exists" in error.got else error from None

    def _add_next(self, rule: Rule, options: dict[str, Any], author: str) -> Rule:
        """Give a rule the next free id; whoever else takes it meanwhile is let go first."""
        while True:
            id = self.book.next_id()
            try:
                return self.book.add(id, str(rule.condition), author=author, **options)
            except FencepostError as error:
                if "already exists" not in error.got:
                    raise

    def put(
        self, key: Key, fields: Mapping[str, Any], expect: int | None, author: str, *, exists: bool | None = None
    ) -> tuple[Rule, bool]:
        """Put a rule in place of another, or add it where there is none; and whether it is new.

        With `exists` it is refused where the rule is there and should not be, or the other way round.
        """
        given = {name: value for name, value in fields.items() if value is not None and name not in ("id", "version")}
        checked = self.check({**given, "id": key if isinstance(key, int) else _NO_ID})
        options = _options(checked)
        if isinstance(key, str) and checked.name is None:
            options["name"] = key
        with without_warnings():
            is_there = key in self.book
            if is_there and exists is False:
                raise StaleError(
                    f"rule {key} exists", "none, as If-None-Match says", "Leave out If-None-Match to replace it."
                )
            if not is_there:
                if expect is not None or exists:
                    raise StaleError(
                        f"rule {key} does not exist",
                        "any version" if expect is None else f"version {expect}",
                        "Leave out If-Match to add it, or correct it.",
                    )
                return self.add({**given, "id": key} if isinstance(key, int) else {"name": key, **given}, author), True
            try:
                return self.book.replace(key, str(checked.condition), expect=expect, author=author, **options), False
            except FencepostError as error:
                raise _conflict(expect, error) from None

    def remove(self, key: Key, expect: int | None, author: str) -> None:
        """Take a rule out."""
        self._known(key)
        try:
            self.book.remove(key, expect=expect, author=author)
        except FencepostError as error:
            raise _conflict(expect, error) from None

    def pause(self, key: Key, until: datetime | None, expect: int | None, author: str) -> Rule:
        """Let a rule take no part until it is resumed, or until a time."""
        self._known(key)
        try:
            return self.book.pause(key, until=until, expect=expect, author=author)
        except FencepostError as error:
            raise _conflict(expect, error) from None

    def resume(self, key: Key, expect: int | None, author: str) -> Rule:
        """Let a paused rule take part again."""
        self._known(key)
        try:
            return self.book.resume(key, expect=expect, author=author)
        except FencepostError as error:
            raise _conflict(expect, error) from None

    def restore(self, key: Key, version: int, expect: int | None, author: str) -> Rule:
        """Give a rule the content of an earlier version."""
        self.history(key, last=1)
        try:
            return self.book.restore(key, version, expect=expect, author=author)
        except NameTakenError as error:
            raise _as(TakenError, error) from None
        except FencepostError as error:
            if "has no version" in error.got:
                raise _as(MissingError, error) from None
            raise _conflict(expect, error) from None

    def check(self, fields: Mapping[str, Any]) -> Rule:
        """A rule that could be published; refuses what does not parse, or does not fit the columns or the clock."""
        unknown = [name for name in fields if name not in FIELDS]
        if unknown:
            raise FencepostError(
                f"the field {unknown[0]!r:.80}", f"the fields {', '.join(FIELDS)}", "Correct its name."
            )
        try:
            made = rule_of_mapping(fields, self.book.zone)
        except FencepostError as error:
            error.got = error.got.removeprefix(f"rule {_NO_ID}: ")  # nobody has called it so
            raise
        if isinstance(made.parsed, Band):
            raise FencepostError(
                f"rule {made.rule.id} is about two streams",
                "a condition of one stream",
                "Run bands with Monitor or on Spark: see docs/bands.md.",
            )
        types = dict(read_schema(self._columns()).types)
        lower = {name.lower() for name in types}
        for name, type_ in types_suggested_by(conditions_of(made.rule, self.book.zone), types).items():
            if name.lower() not in lower:
                types[name] = type_
        alone = Rules(self.book.zone)
        alone.add(made.rule.id, str(made.rule.condition), **_options(made.rule))
        with without_warnings():
            compiled = alone.compile({name: str(type_) for name, type_ in types.items()})
        self._beyond_clock(compiled).refuse()
        return made.rule

    def _known(self, key: Key) -> None:
        if key not in self.book:
            self.get(key)

    def import_lines(self, body: bytes, existing: Any, author: str, most: int) -> dict[str, int]:
        """Take in rules, a JSON object a line, all or none; how many were new, replaced, unchanged and skipped."""
        lines = body.count(b"\n") + (not body.endswith(b"\n"))
        if lines > most:
            raise TooLargeError(f"a call with {lines:,} rules", f"at most {most:,}", "Send several calls.")
        with without_warnings():
            done = import_content(self.book, body, ".jsonl", "the lines", existing=existing, author=author)
        return asdict(done)


def rule_fields(rule: Rule) -> dict[str, Any]:
    """A rule as answers have it: what it is, without what it does not have."""
    fields = fields_of(rule)
    always = ("id", "condition", "detect", "enabled", "version")
    return {name: value for name, value in fields.items() if name in always or value not in (None, False)}


def _options(rule: Rule) -> dict[str, Any]:
    fields = fields_of(rule)
    options = {name: value for name, value in fields.items() if name not in ("id", "condition", "version")}
    options["for_"] = options.pop("for")
    return options


def _is_id(text: str) -> bool:
    return text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) < 20


def _missing(error: FencepostError) -> FencepostError:
    words = ("does not exist", "has the name", "was removed", "was expired")
    return _as(MissingError, error) if any(word in error.got for word in words) else error


def _conflict(expect: int | None, error: FencepostError) -> FencepostError:
    if isinstance(error, NameTakenError):
        return _as(TakenError, error)
    if expect is not None and "is at version" in error.got:
        return _as(StaleError, error)
    return _missing(error)


def _as(kind: type[FencepostError], error: FencepostError) -> FencepostError:
    return kind(error.got, error.expected, error.remedy)
