"""The stream over real HTTP: it goes on where a reader stopped, filters, and drops who is too slow."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fencepost.book.tokens import Tokens
from fencepost.service.service import Service
from fencepost.service.settings import Limits
from fencepost.service.web.doors import Doors
from tests.service.servers import listening
from tests.service.services import serving

SOON = 20.0


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path, limits=Limits(behind=1000, readers=2)) as service:
        service.rules.add({"condition": "price > 40", "detect": "enter,exit", "labels": {"desk": "4"}}, "ann")
        service.settle()
        yield service


def flap(service: Service, times: int) -> None:
    for number in range(times):
        service.observe([{"object": f"o{number % 3}", "price": 41 if number // 3 % 2 == 0 else 39}])


def read(url: str, count: int, last: int | None = 0, **asked: Any) -> list[dict[str, Any]]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    found: list[dict[str, Any]] = []
    with httpx.stream("GET", f"{url}/v1/events/stream", headers=headers, params=asked, timeout=SOON) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == count:
                break
    return found


def test_a_reader_goes_on_where_it_stopped(service: Service) -> None:
    with listening(service) as url:
        flap(service, 12)
        whole = read(url, 12)
        assert [event["position"] for event in whole] == list(range(1, 13))
        assert read(url, 5, 7) == whole[7:]
        assert {event["object"] for event in read(url, 4, object="o1")} == {"o1"}
        assert {event["detect"] for event in read(url, 6, detect="exit", label="desk:4")} == {"exit"}
        for bad in ("13", "x", "1" * 30):
            answer = httpx.get(f"{url}/v1/events/stream", headers={"Last-Event-ID": bad}, timeout=SOON)
            assert (answer.status_code, set(answer.json())) == (422, {"got", "expected", "remedy", "message"})


def test_a_reader_is_told_what_happens_meanwhile(service: Service) -> None:
    with listening(service) as url:
        found: list[dict[str, Any]] = []
        reader = threading.Thread(target=lambda: found.extend(read(url, 3, 0)))
        reader.start()
        flap(service, 3)
        reader.join(SOON)
    assert [event["object"] for event in found] == ["o0", "o1", "o2"]


def test_a_reader_that_is_too_slow_is_dropped_with_a_message(service: Service) -> None:
    flap(service, 3)
    with listening(service) as url, httpx.stream("GET", f"{url}/v1/events/stream?after=0", timeout=SOON) as stream:
        lines = stream.iter_lines()
        while "position" not in next(lines):
            pass
        service.settings.limits.__dict__["behind"] = -1  # whoever has caught up is too far behind
        flap(service, 6)
        assert "event: dropped" in list(lines)


def test_a_stream_ends_with_its_token(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.service.web.doors._REMEMBERED", 0.0)
    with Tokens(f"sqlite:///{tmp_path / 'tokens.db'}") as tokens, listening(service, doors=Doors(tokens)) as url:
        text, token = tokens.create("ann", ["read"])
        headers = {"Authorization": f"Bearer {text}"}
        with httpx.stream("GET", f"{url}/v1/events/stream", headers=headers, timeout=SOON) as stream:
            lines = stream.iter_lines()
            flap(service, 1)
            assert next(line for line in lines if line.startswith("id:")) == "id: 1"
            tokens.revoke(token.id)
            flap(service, 4)
            rest = list(lines)
    assert any("valid no more" in line for line in rest)
    assert not [line for line in rest if line.startswith("id:")]
