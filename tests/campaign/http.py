"""No input hurts over HTTP: whatever is sent to a service is answered or refused, soon, and never with 500."""

import json
import random
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.campaign.changed_bytes import change_bytes
from tests.campaign.inputs import NASTY, PROMISE, give, mutate
from tests.campaign.matching import draw_condition
from tests.campaign.trial import Trial, require

CALLS = 40
"""Of one try."""
LIMITS = {"rows": 1_000, "rules": 100, "body": 100_000}
NOT_READY = 503, 507
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "x"]
HEADERS = [
    "Content-Type", "Accept", "Authorization", "Idempotency-Key", "If-Match", "Last-Event-ID", "Cookie", "Origin",
    "Host", "Content-Length", "Content-Encoding", "Sec-Fetch-Site", "X-Forwarded-For", "Range", "Accept-Language",
]  # fmt: skip
KINDS = ["application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "a/b", ";", ""]
NAMES = ["limit", "after", "before", "rule", "object", "detect", "label", "last", "version", "force", "page", "x[]"]
VALUES = ["0", "1", "-1", "1e99", "99999999999999999999", "NaN", "IBM", "*", "%", "null", "true", "2024-02-30T25:00Z"]


def _text(rng: random.Random) -> str:
    return rng.choice([rng.choice(VALUES), rng.choice(NASTY), "x" * rng.choice([0, 9, 3_000]), mutate(rng, "IBM")])


def _value(rng: random.Random, depth: int = 0) -> Any:
    plain: list[Any] = [
        None,
        True,
        0,
        -1,
        1e308,
        float("nan"),
        10**30,
        "price > 40",
        draw_condition(rng, 1),
        _text(rng),
    ]
    if depth > 3 or rng.random() < 0.6:
        return rng.choice(plain)
    if rng.random() < 0.5:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {_text(rng)[:40]: _value(rng, depth + 1) for _ in range(rng.randrange(4))}


def _rule(rng: random.Random) -> dict[str, Any]:
    rule: dict[str, Any] = {"condition": "price > 40", "detect": "enter,exit", "name": f"n{rng.randrange(50)}"}
    fields = ["condition", "detect", "name", "labels", "for", "limit", "expires", "id", "enabled", _text(rng)]
    return rule | {field: _value(rng) for field in rng.sample(fields, rng.randrange(3))}


def _row(rng: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {"object": "IBM", "price": rng.random() * 80}
    return row | {name: _value(rng) for name in rng.sample(["object", "price", "time", "y"], rng.randrange(3))}


def _body(rng: random.Random) -> bytes:
    """Rules, rows, anything in JSON, a tower of brackets, and each of them damaged."""
    deep = rng.choice([10, 2_000, 40_000])
    shapes: list[Any] = [_rule(rng), _row(rng), [_row(rng) for _ in range(rng.randrange(5))], _value(rng)]
    shapes += [{"rows": [_row(rng)], "rules": [_rule(rng)]}, {"condition": draw_condition(rng, 1), "last": _value(rng)}]
    texts = [json.dumps(rng.choice(shapes)) for _ in range(3)]
    texts += [
        "[" * deep + "]" * deep,
        '{"a":' * deep,
        "\n".join(texts),
        "object,price\nIBM,41\n",
        mutate(rng, texts[0]),
    ]
    content = rng.choice(texts).encode(errors="surrogatepass")
    return change_bytes(rng, content) if rng.random() < 0.4 else content


def _call(rng: random.Random, paths: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    path = rng.choice([*paths])
    method = rng.choice([*paths[path]]).upper() if rng.random() < 0.9 else rng.choice(METHODS)
    while "{" in path:
        head, _, rest = path.partition("{")
        path = head + quote(rng.choice(["1", "IBM", _text(rng)])[:200], safe="") + rest.partition("}")[2]
    if rng.random() < 0.05:
        path = "/" + quote(mutate(rng, path).lstrip("/"), safe="/%:.")
    query = "&".join(f"{rng.choice(NAMES)}={quote(_text(rng))}" for _ in range(rng.choice([0, 0, 1, 3])))
    headers = {
        rng.choice(HEADERS).encode(): _text(rng).encode(errors="replace").replace(b"\n", b"").replace(b"\r", b"")
        for _ in range(rng.choice([0, 0, 1, 3]))
    }
    headers[b"Content-Type"] = rng.choice(KINDS[:2] if rng.random() < 0.7 else KINDS).encode()
    content = _body(rng) if method not in ("GET", "HEAD") or rng.random() < 0.1 else b""
    return method, f"{path}?{query}" if query else path, {"headers": list(headers.items()), "content": content}


def try_http(seed: int) -> int:
    """Calls of all routes with odd paths, queries, headers and bodies; then the service still does its work."""
    from fencepost.service.settings import Limits
    from fencepost.service.web.app import make_app
    from tests.service.services import Client, serving

    rng = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", limits=Limits(**LIMITS)) as service:
        service.rules.add({"id": 1, "name": "one", "condition": "price > 40", "detect": "enter,exit"}, "ann")
        service.settle()
        service.observe([{"object": "IBM", "price": 41.5}])
        paths = make_app(service).openapi()["paths"]
        paths.pop("/v1/events/stream")  # it does not end
        client = Client(service)
        for path in ("/v1/match", "/v1/backtest", "/v1/rules"):  # which compiles
            give("warm", lambda path=path: client("POST", path, json={"condition": "price > 1"}), seconds=60)  # type: ignore[misc]
        for _ in range(CALLS):
            method, path, given = _call(rng, paths)
            what = f"{method} {path} {given}"
            answer = give(what, lambda: client(method, path, **given))  # noqa: B023
            status = None if answer is None else answer.status_code
            good = status is not None and (status < 500 or status in NOT_READY)
            require(good, f"{what[:1000]}: {status} {'' if answer is None else answer.text[:300]}")
        require(service.engine.failure is None, f"the engine stopped: {service.engine.failure}")
        receipt = service.observe([{"object": "afterwards", "price": 1.0}])
        require(receipt.rows == 1, "no row is taken any more")
    return CALLS


TRIALS = [Trial("inputs.http", PROMISE, "calls of a service with odd paths, queries, headers and bodies", try_http)]
