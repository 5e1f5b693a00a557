"""Tokens: who may call a service, and what for. The book keeps a digest of each; the token itself is shown once.

A token is `fp_ID_SECRET`. Its secret has 256 random bits, so that a plain hash of it is as good as a slow one.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import insert, select, update

from fencepost.book.changes import check_texts
from fencepost.book.database import Database
from fencepost.book.tables import TOKENS
from fencepost.errors import FencepostError
from fencepost.rules.rule import instant_of, microseconds_of

SCOPES = ("read", "write", "publish", "admin")
"""What a token may allow: to ask; to change rules and send rows; to publish; all of it."""
_TOKEN = re.compile(r"fp_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Token:
    """A token as the book knows it.

    Args:
        id: the part of it that is no secret.
        name: whose it is; the author of changes that are made with it.
        scopes: what it allows.
        made: when.
        expires: when it ends by itself; None for never.
        revoked: when somebody ended it; None where nobody has.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    made: datetime
    expires: datetime | None
    revoked: datetime | None

    def is_valid(self, at: datetime | None = None) -> bool:
        """Whether it opens anything."""
        now = datetime.now(UTC) if at is None else at
        return self.revoked is None and (self.expires is None or self.expires > now)

    def allows(self, scope: str) -> bool:
        """Whether it allows something; admin allows all."""
        return "admin" in self.scopes or scope in self.scopes


class Tokens:
    """The tokens of a book.

    Args:
        url: of the book.
        create: whether to make it where there is none.
        wait: how many seconds to wait for others who write to it.

    >>> import tempfile
    >>> tokens = Tokens(f"sqlite:///{tempfile.mkdtemp()}/rules.db")
    >>> text, token = tokens.create("ann", ["read"])
    >>> found = tokens.find(text)
    >>> found.name, found.allows("read"), found.allows("write")
    ('ann', True, False)
    >>> tokens.revoke(token.id).is_valid(), tokens.find("fp_nothing")
    (False, None)
    """

    def __init__(self, url: str, create: bool = True, wait: float = 30.0) -> None:
        self._database = Database(url, create, wait)

    def create(self, name: str, scopes: Iterable[str], expires: datetime | None = None) -> tuple[str, Token]:
        """Make a token: the text, which is shown this once, and what is known of it."""
        given = set(scopes)
        chosen, unknown = tuple(scope for scope in SCOPES if scope in given), sorted(given.difference(SCOPES))
        if unknown or not chosen:
            raise FencepostError(
                f"the scope {unknown[0]!r}" if unknown else "no scope",
                f"some of {', '.join(SCOPES)}",
                "Write for example --scope read.",
            )
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise FencepostError(
                f"name={name[:_LONGEST_NAME]!r}", f"a name of 1 to {_LONGEST_NAME} characters", "Say whose token it is."
            )
        check_texts("a token", [name])
        id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        made = datetime.now(UTC)
        row = {
            "id": id,
            "name": name,
            "digest": _digest(secret),
            "scopes": ",".join(chosen),
            "made": microseconds_of(made),
            "expires": None if expires is None else microseconds_of(expires),
        }
        with self._database.recording() as connection:
            self._database.ensure_table(connection, TOKENS)
            connection.execute(insert(TOKENS).values(**row))
        return f"fp_{id}_{secret}", Token(id, name, chosen, made, expires, None)

    def find(self, text: str) -> Token | None:
        """The token of a text; None where it is none, or no longer valid."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        row = self._row(match[1])
        digest = _digest(match[2])
        if row is None or not hmac.compare_digest(row["digest"], digest):
            return None
        token = _token_of(row)
        return token if token.is_valid() else None

    def list(self) -> list[Token]:
        """All tokens that ever were, the oldest first."""
        with self._database.reading() as connection:
            if not self._database.has_table(connection, TOKENS):
                return []
            rows = connection.execute(select(TOKENS).order_by(TOKENS.c.made, TOKENS.c.id)).mappings()
            return [_token_of(row) for row in rows]

    def revoke(self, which: str) -> Token:
        """End a token, by its id or its text; one that has ended stays as it is."""
        match = _TOKEN.fullmatch(which)
        id = which if match is None else match[1]
        if (row := self._row(id)) is None:
            raise FencepostError(
                f"no token has the id {id[:20]!r}", "the id of one", "List them: fencepost token list."
            )
        if row["revoked"] is None:
            with self._database.recording() as connection:
                now = microseconds_of(datetime.now(UTC))
                connection.execute(update(TOKENS).where(TOKENS.c.id == id).values(revoked=now))
        found = self._row(id)
        assert found is not None
        return _token_of(found)

    def _row(self, id: str) -> Any:
        with self._database.reading() as connection:
            if not self._database.has_table(connection, TOKENS):
                return None
            return connection.execute(select(TOKENS).where(TOKENS.c.id == id)).mappings().first()

    def close(self) -> None:
        """Give the connections back."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _token_of(row: Any) -> Token:
    made = instant_of(row["made"])
    assert made is not None
    ends = (None if row[name] is None else instant_of(row[name]) for name in ("expires", "revoked"))
    return Token(row["id"], row["name"], tuple(row["scopes"].split(",")), made, *ends)
