"""A book that does not answer: callers are told to come again, known tokens still open, upkeep goes on."""

import logging
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencepost.book import RuleBook
from fencepost.book.database import _refusal
from fencepost.book.tokens import Tokens
from fencepost.errors import FencepostError, UnreachableError
from fencepost.service.refusals import status_of
from fencepost.service.settings import Limits
from fencepost.service.web import doors
from fencepost.service.web.doors import Doors
from tests.service.services import Client, serving

AWAY = UnreachableError("postgresql://book does not answer (refused)", "a server that answers", "Start it.")


def be_away(*_: object) -> None:
    raise AWAY


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    with Tokens(f"sqlite:///{tmp_path / 'rules.db'}") as tokens:
        yield tokens


def test_known_tokens_open_while_the_book_does_not_answer(
    tmp_path: Path, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "_REMEMBERED", 0.0)
    headers = {"Authorization": f"Bearer {tokens.create('ann', ['read', 'write'])[0]}"}
    stranger = {"Authorization": f"Bearer {tokens.create('bob', ['admin'])[0]}"}
    row = {"object": "IBM", "price": 1}
    with serving(tmp_path / "data") as service:
        guard = Doors(tokens)
        call = Client(service, doors=guard)
        assert call("GET", "/v1/events", headers=headers).status_code == 200
        monkeypatch.setattr(Tokens, "find", be_away)
        assert call("GET", "/v1/events", headers=headers).status_code == 200
        assert call("POST", "/v1/observations", json=row, headers=headers).status_code == 202
        for method, path in (("GET", "/v1/events"), ("POST", "/v1/observations"), ("POST", "/v1/rules")):
            answer = call(method, path, headers=stranger, json=row if method == "POST" else None)
            assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        [(text, known)] = guard._known.items()
        ended = replace(known.token, expires=datetime.now(UTC) - timedelta(seconds=1))
        guard._known[text] = known._replace(token=ended)
        assert call("GET", "/v1/events", headers=headers).status_code == 401
        guard._known[text] = known
        monkeypatch.setattr(doors, "_GRACE", -1.0)
        assert call("GET", "/v1/events", headers=headers).status_code == 503


def test_a_database_that_may_answer_later_is_told_from_one_that_will_not() -> None:
    def fault(code: str, kind: str = "Error") -> Exception:
        error: Exception = type(kind, (Exception,), {})("it says so")
        error.sqlite_errorname = code if code.startswith("SQLITE") else None  # type: ignore[attr-defined]
        error.sqlstate = None if code.startswith("SQLITE") else code  # type: ignore[attr-defined]
        return error

    for code in ("SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "57P01", "57P03", "08006", "53300"):
        assert status_of(_refusal(fault(code), "book")) == 503, code
    assert status_of(_refusal(fault("", "OperationalError"), "book")) == 503
    for code in ("SQLITE_READONLY", "SQLITE_CORRUPT", "42501", "28P01"):
        assert status_of(_refusal(fault(code), "book")) == 422, code


def test_upkeep_goes_on_without_the_book(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from fencepost.console.served import ServiceSource

    with caplog.at_level(logging.WARNING), serving(tmp_path, tick=0.02, limits=Limits(save_rows=1)) as service:
        service.rules.add({"condition": "price > 40", "detect": "enter", "for": "1 hour"}, "ann")
        service.settle()
        revision = RuleBook.revision
        monkeypatch.setattr(RuleBook, "revision", property(be_away))
        monkeypatch.setattr(service.publishing, "renew", be_away)
        service._upkeep._collected_at = 0.0
        service.observe([{"object": "IBM", "price": 41}])
        collected: list[object] = []
        monkeypatch.setattr(service._events.segments, "collect", lambda *given: collected.append(given))
        wait_until(lambda: service.fault is not None and bool(service._saves.positions()) and bool(collected))
        before = service.engine.rows.next
        wait_until(lambda: service.engine.rows.next > before)  # the clock goes on
        assert "fencepost_upkeep_fault 1.0" in Client(service)("GET", "/metrics").text
        source = ServiceSource(service)
        assert "does not answer" in source.overview().problem
        source.close()
        assert [text for text in caplog.messages if "does not answer" in text]
        monkeypatch.setattr(RuleBook, "revision", revision)
        monkeypatch.setattr(service.publishing, "renew", lambda: None)
        service._upkeep._collected_at = 0.0
        wait_until(lambda: service.fault is None)
        assert "fencepost_upkeep_fault 0.0" in Client(service)("GET", "/metrics").text


def wait_until(is_so: object, seconds: float = 20.0) -> None:
    assert callable(is_so)
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_book_of_sqlite_that_is_locked_is_told_so(tmp_path: Path) -> None:
    with RuleBook(f"sqlite:///{tmp_path / 'rules.db'}?timeout=0.1", author="ann") as book:
        book.add(1, "price > 40")
        other = sqlite3.connect(tmp_path / "rules.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(FencepostError, match="locked") as refused:
            book.add(2, "price > 40")
        other.close()
        assert status_of(refused.value) == 503
