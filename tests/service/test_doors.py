"""The closed door: tokens, scopes, sessions of pages, addresses."""

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencepost.book.tokens import Tokens
from fencepost.errors import FencepostError
from fencepost.service.settings import Limits
from fencepost.service.web.doors import COOKIE, Doors
from fencepost.service.web.headers import POLICY
from fencepost.service.web.serving import check_open
from tests.service.services import Client, serving


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    with Tokens(f"sqlite:///{tmp_path / 'rules.db'}") as tokens:
        yield tokens


@pytest.fixture
def call(tmp_path: Path, tokens: Tokens) -> Iterator[Client]:
    with serving(tmp_path / "data") as service:
        yield Client(service, doors=Doors(tokens))


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


ROUTES = [
    ("GET", "/v1/rules", "read"),
    ("GET", "/v1/events", "read"),
    ("GET", "/v1/events/stream", "read"),
    ("GET", "/metrics", "read"),
    ("GET", "/openapi.json", "read"),
    ("POST", "/v1/match", "read"),
    ("POST", "/v1/rules", "write"),
    ("POST", "/v1/observations", "write"),
    ("DELETE", "/v1/rules/1", "write"),
    ("POST", "/v1/publish", "publish"),
]


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_a_route_needs_a_token_with_its_scope(call: Client, tokens: Tokens, method: str, path: str, scope: str) -> None:
    assert call(method, path).status_code == 401
    others = [other for other in ("read", "write", "publish") if other != scope]
    answer = call(method, path, headers=bearer(tokens.create("ann", others)[0]))
    assert (answer.status_code, scope in answer.json()["remedy"]) == (403, True)
    if not path.endswith("stream"):
        for scopes in ([scope], ["admin"]):
            headers = bearer(tokens.create("ann", scopes)[0])
            assert call(method, path, headers=headers).status_code not in (401, 403)


def test_health_is_open_and_every_answer_is_strict(call: Client) -> None:
    for path in ("/healthz", "/readyz", "/v1/rules"):
        headers = call("GET", path).headers
        assert headers["content-security-policy"] == POLICY
        assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert call("GET", "/healthz").status_code == 200


def test_tokens_end(tokens: Tokens) -> None:
    text, token = tokens.create("ann", ["read"], datetime.now(UTC) - timedelta(seconds=1))
    assert tokens.find(text) is None
    text, token = tokens.create("bob", ["read", "write"])
    assert tokens.find(text) == token
    assert tokens.find(text[:-1] + ("A" if text[-1] != "A" else "B")) is None
    tokens.revoke(token.id)
    assert tokens.find(text) is None
    assert [each.name for each in tokens.list()] == ["ann", "bob"]
    with pytest.raises(FencepostError, match="scope"):
        tokens.create("eve", ["all"])


def test_a_session_is_for_pages_of_this_origin(call: Client, tokens: Tokens) -> None:
    text, _ = tokens.create("ann", ["read", "write"])
    answer = call("POST", "/login", json={"token": text})
    said = answer.headers["set-cookie"]
    assert "HttpOnly" in said
    assert "SameSite=strict" in said
    cookie = {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}
    assert call("GET", "/v1/rules", headers=cookie).status_code == 200
    rule = {"condition": "price > 40"}
    assert call("POST", "/v1/rules", json=rule, headers=cookie).status_code == 403
    for origin in ("http://evil.example", "null"):
        assert call("POST", "/v1/rules", json=rule, headers={**cookie, "Origin": origin}).status_code == 403
    mine = {**cookie, "Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    assert call("POST", "/v1/rules", json=rule, headers=mine).status_code == 201
    assert call("POST", "/logout", headers=mine).status_code == 200
    assert call("GET", "/v1/rules", headers=cookie).status_code == 401
    assert call("POST", "/login", json={"token": "fp_x"}).status_code == 401


def test_others_are_served_only_over_tls_or_behind_a_proxy(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        check_open(host, None, None, behind_proxy=False)
    for host in ("0.0.0.0", "192.168.1.7", "example.com"):  # noqa: S104 (it is refused)
        with pytest.raises(FencepostError, match="TLS"):
            check_open(host, None, None, behind_proxy=False)
        check_open(host, None, None, behind_proxy=True)
    with pytest.raises(FencepostError, match="no file"):
        check_open("0.0.0.0", tmp_path / "a", tmp_path / "b", behind_proxy=False)  # noqa: S104


def test_a_stranger_sends_no_large_body(call: Client, tokens: Tokens) -> None:
    large = b'{"token": "' + b"x" * 20_000 + b'"}'

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield large[:1000]

    for path in ("/login", "/v1/rules", "/v1/backtest", "/v1/rules:import", "/v1/observations"):
        for content in (large, pieces()):
            answer = call("POST", path, content=content, headers={"Content-Type": "application/json"})
            assert answer.status_code == (413 if path == "/login" else 401), path
            assert answer.json()["remedy"]
    text, _ = tokens.create("ann", ["admin"])
    answer = call("POST", "/v1/rules:import", content=b"x" * 20_000, headers=bearer(text))
    assert answer.status_code == 422


@pytest.mark.parametrize("path", ["/v1/rules", "/v1/rules:import", "/v1/observations", "/v1/backtest"])
def test_no_body_is_larger_than_the_limit(tmp_path: Path, path: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * 500

    with serving(tmp_path / "data", limits=Limits(body=1000)) as service:
        for content in (b"x" * 2000, pieces()):
            answer = Client(service)("POST", path, content=content, headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()["expected"]) == (413, "a smaller one")
