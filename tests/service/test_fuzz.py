"""Every route under schema-driven fuzz: answers are 2xx, or refusals that say what to do, never 500."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from schemathesis import GenerationMode

from fencepost.service.service import Service
from fencepost.service.settings import Limits, Settings
from fencepost.service.web.app import make_app
from tests.effort import examples
from tests.service.servers import listening

pytestmark = pytest.mark.slow

PARTS = {"got", "expected", "remedy", "message"}
NOT_READY = {503}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    limits = Limits(rows=1000, rules=100, body=100_000)
    data: Path = tmp_path_factory.mktemp("fuzz")
    with Service(Settings(data=data / "data", limits=limits)) as service:
        service.rules.add({"id": 1, "name": "one", "condition": "price > 40", "detect": "enter,exit"}, "ann")
        service.settle()
        service.observe([{"object": "IBM", "price": 41.5}, {"object": "IBM", "price": 39.0}])
        with listening(service) as url:
            yield url, schemathesis.openapi.from_dict(make_app(service).openapi())
        assert service.engine.failure is None


def _operations() -> list[Any]:
    class Nothing:
        """The routes say what they are without a service."""

    app = make_app(Nothing())  # type: ignore[arg-type]
    found = []
    for path, methods in app.openapi()["paths"].items():
        found += [(path, method) for method in methods]
    return [each for each in found if each[0] != "/v1/events/stream"]  # it does not end; test_stream reads it


@pytest.mark.parametrize(("path", "method"), _operations())
def test_a_route_refuses_in_plain_words(served: tuple[str, Any], path: str, method: str) -> None:
    url, schema = served
    operation = schema[path][method]

    @examples(40, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.data())
    def call(data: Any) -> None:
        mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        answer = case.call(base_url=url)
        assert answer.status_code < 500 or answer.status_code in NOT_READY, (case.as_curl_command(), answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()) == PARTS, (case.as_curl_command(), answer.text)

    call()
