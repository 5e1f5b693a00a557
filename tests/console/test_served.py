"""The pages of `fencepost serve`: a real process, real tokens, rows over HTTP, a real Chromium."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.console.browser import find_chromium, open_browser

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium: tools/system-packages installs it"),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """An address, a token, and the directory of a service."""
    data = tmp_path_factory.mktemp("served") / "data"
    command = [sys.executable, "-m", "fencepost", "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
    process = subprocess.Popen([*command, "--object", "symbol", "--time", "ts"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    said = process.stdout.readline() + process.stdout.readline()
    address, token = re.search(r"http://\S+", said), re.search(r"token: (\S+)", said)
    assert address, said
    assert token, said
    try:
        yield address[0].rstrip("/"), token[1], data
    finally:
        process.terminate()
        process.communicate(timeout=30)


def send(address: str, token: str, price: float) -> None:
    headers = {"authorization": f"Bearer {token}"}
    row = {"symbol": "IBM", "price": price}
    answer = httpx.post(f"{address}/v1/observations?wait=true", json=[row], headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text


def test_a_rule_is_added_in_the_page_and_fires_on_rows_that_are_sent(served: tuple[str, str, Path]) -> None:
    address, token, _ = served
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        page.goto(f"{address}/rules")
        assert page.url.endswith("/enter"), "closed by default"
        page.fill("input[name=token]", "fp_wrong")
        page.click("button.main")
        page.wait_for_selector("text=This token opens nothing.")
        page.fill("input[name=token]", token)
        page.click("button.main")
        page.wait_for_selector("h1:has-text('Overview')")
        page.goto(f"{address}/rules/new")
        page.fill("#condition", "symbol = 'IBM' AND price > 40")
        page.fill("input[name=name]", "ibm floor")
        page.click("text=Add the rule")
        page.wait_for_selector("text=The rule was added.")
        for price in (39.0, 41.5, 38.0, 44.0):
            send(address, token, price)
        page.goto(f"{address}/events")
        page.wait_for_selector(".live.on")
        assert page.locator("#tail tr").count() == 3
        send(address, token, 30.0)
        page.wait_for_selector("#tail tr.new:has-text('exit')")
        page.click("#tail tr:last-child .why")
        page.wait_for_selector("text=39 → 41.5")
        page.goto(f"{address}/object?name=IBM&rule=ibm+floor")
        assert "price is 30" in page.locator(".answer").inner_text()
        assert page.locator("figure.chart .line").count() == 1
        page.goto(f"{address}/rules?holds=price+%3D+47%2C+symbol+%3D+IBM")
        assert page.locator("table.rules tbody tr").count() == 1
        page.click("table.rules tbody a")
        page.fill("#condition", "symbol = 'IBM' AND price > 43")
        page.wait_for_selector("#trial table")
        tried = page.locator("#trial tbody tr").all_inner_texts()
        assert [line.split()[-3] for line in tried] == ["4", "2"]
        for path in ("/", "/objects", "/versions", "/versions/1", "/versions/preview"):
            assert page.goto(address + path).status == 200


def test_who_may_only_read_changes_nothing(served: tuple[str, str, Path]) -> None:
    address, _, data = served
    command = [sys.executable, "-m", "fencepost", "token", "create", "guest", "--scope", "read"]
    book = f"sqlite:///{data / 'book.db'}"
    said = subprocess.run([*command, "--book", book], capture_output=True, text=True, check=True).stdout  # noqa: S603
    found = re.search(r"fp_\S+", said)
    assert found, said
    with httpx.Client(base_url=address, follow_redirects=True) as client:
        origin = {"origin": address}
        entered = client.post("/enter", data={"token": found[0]}, headers=origin)
        assert "Overview" in entered.text
        fields: dict[str, Any] = {"condition": "price > 1", "detect": "enter", "action": "save"}
        assert client.get("/rules/1").status_code == 200
        assert client.post("/rules/add", data=fields, headers=origin).status_code == 403
        assert client.post("/versions/publish", headers=origin).status_code == 403
        assert client.post("/rules/read", data=fields, headers=origin).status_code == 200
        assert client.post("/rules/add", data=fields, headers={"origin": "http://evil.example"}).status_code == 403
        assert client.get("/v1/nothing").status_code == 404


def test_pages_that_are_open_say_that_their_session_has_ended_and_go_on_after_another(
    served: tuple[str, str, Path],
) -> None:
    address, token, _ = served

    def enter(page: Any) -> None:
        page.goto(f"{address}/enter")
        page.fill("input[name=token]", token)
        page.click("button.main")
        page.wait_for_selector("h1:has-text('Overview')")

    with open_browser() as browser:
        context = browser.new_context(viewport={"width": 1100, "height": 800})
        first, events, rule = context.new_page(), context.new_page(), context.new_page()
        faults: list[str] = []
        for page in (events, rule):
            page.on("pageerror", lambda error: faults.append(str(error)))
        enter(first)
        events.goto(f"{address}/events")
        events.wait_for_selector(".live.on")
        rule.goto(f"{address}/rules/new")
        first.evaluate("fetch('/leave', { method: 'POST' })")
        first.wait_for_timeout(500)
        rule.bring_to_front()
        rule.fill("#condition", "price > 4")
        rule.wait_for_selector("#shut:has-text('Enter again')")
        assert rule.locator("input[type=password]").count() == 0
        assert rule.locator("h1").count() == 1
        rule.click("text=Add the rule")
        rule.wait_for_timeout(500)
        assert rule.input_value("#condition") == "price > 4", "a form is not sent to the door"
        events.bring_to_front()
        events.wait_for_selector("#shut:has-text('Enter again')")
        enter(first)
        rule.bring_to_front()
        rule.fill("#condition", "price > 41")
        rule.wait_for_selector("#shut", state="detached")
        assert rule.locator("#meaning").inner_text()
        rule.click("text=Add the rule")
        rule.wait_for_selector("text=The rule was added.")
        rule.fill("#condition", "price > 42")
        first.evaluate("fetch('/leave', { method: 'POST' })")
        rule.evaluate("scrollTo(0, document.body.scrollHeight)")
        rule.wait_for_timeout(500)
        rule.keyboard.press("End")
        rule.keyboard.type(".5")
        rule.wait_for_selector("#shut")
        box = rule.locator("#shut").bounding_box()
        assert 0 <= box["y"] < 800, "it is seen wherever one types"
        enter(first)
        rule.keyboard.type("1")
        rule.wait_for_selector("#shut", state="detached")
        events.bring_to_front()
        events.wait_for_selector(".live.on")
        events.wait_for_selector("#shut", state="detached")
        assert not faults
