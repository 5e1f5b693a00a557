"""The pages in a real Chromium: each opens, is accessible in light and dark, fits a phone, and does what it says."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from fencepost.console import ConsoleServer
from fencepost.console.source import EventFilter
from tests.console.browser import find_chromium, open_browser
from tests.console.market import Market, open_market

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium: tools/system-packages installs it"),
]
RULE = 1
PAGES = {
    "overview": "/",
    "rules": "/rules",
    "no rule found": "/rules?q=nowhere",
    "refused search": "/rules?label=desk",
    "rule": f"/rules/{RULE}",
    "new rule": "/rules/new",
    "import": "/rules/import",
    "objects": "/objects",
    "object": "/object?name=IBM&rule=ibm+floor",
    "events": "/events",
    "versions": "/versions",
    "preview": "/versions/preview",
    "version": "/versions/1",
    "changes": "/versions/diff?from=1&to=2",
    "missing": "/nowhere",
}


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    with open_market(tmp_path_factory.mktemp("market")) as market:
        market.book.publish(market.published, infer=True)
        market.book.add("cisco high", "symbol = 'CSCO' AND price > 51", detect="enter,exit")
        market.book.publish(market.published)
        market.source.refresh()
        market.play(120)
        yield market


@pytest.fixture(scope="module")
def server(market: Market) -> Iterator[ConsoleServer]:
    with ConsoleServer(market.source) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: Any, server: ConsoleServer) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1100, "height": 800})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if "Content Security" in said.text else None)
    page.goto(server.address)
    yield page
    context.close()
    assert not faults


def problems(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_accessible_in_light_and_dark_and_fits_a_phone(
    page: Any, server: ConsoleServer, name: str
) -> None:
    assert page.url == f"{server.base}/", "the token is not in the address any more"
    page.goto(server.base + PAGES[name])
    assert page.locator("h1").count() == 1
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert problems(page) == []
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_rule_is_added_with_the_keyboard_alone_seen_to_fire_and_edited(
    page: Any, server: ConsoleServer, market: Market
) -> None:
    page.goto(f"{server.base}/rules")
    _tab_to(page, "Add a rule")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rules/new")
    _tab_to(page, "condition")
    page.keyboard.type("symbol = 'NEWCO' AND price > ", delay=1)
    page.wait_for_selector(".fault")
    page.keyboard.type("0")
    page.wait_for_selector("#trial table")
    _tab_to(page, "name")
    page.keyboard.type("any price")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=The rule was added.")
    rule = market.book.id_of("any price")

    market.source.take({"symbol": ["NEWCO"], "ts": [datetime.now(UTC)], "price": [7.0], "volume": [1]})
    page.goto(f"{server.base}/rules/{rule}")
    row = page.locator("table.events tbody tr").first.inner_text()
    assert "enter" in row
    assert "NEWCO" in row
    assert "NEWCO" in page.locator("section", has_text="Inside now").first.inner_text()

    page.fill("#condition", "symbol = 'NEWCO' AND price < 0")
    page.click("text=Save as version 2")
    page.wait_for_selector("text=The rule was edited.")
    assert market.book[rule].version == 2
    assert "exit" in page.locator("table.events tbody tr").first.inner_text()
    page.click("button:has-text('Restore')")
    page.wait_for_selector("text=as a new version")
    assert str(market.book[rule].condition) == "symbol = 'NEWCO' AND price > 0"
    page.click("summary:has-text('Remove')")
    page.click("text=Remove this rule")
    page.wait_for_selector("text=This rule was removed")
    assert rule not in market.book


def _tab_to(page: Any, what: str) -> None:
    """Go on with the tabulator until the focus is on something of that text or name."""
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate("[document.activeElement.textContent.trim(), document.activeElement.name || '']")
        if what in found:
            return
    raise AssertionError(f"{what} is not reached")


def test_a_fault_is_marked_while_one_types_and_nothing_is_lost(page: Any, server: ConsoleServer) -> None:
    page.goto(f"{server.base}/rules/{RULE}")
    page.fill("#condition", "symbol = 'IBM' AND price > 'high'")
    page.wait_for_selector(".mirror mark")
    assert page.locator(".mirror mark").inner_text() == "price > 'high'"
    page.click("text=Save as version")
    page.wait_for_selector("text=Not done.")
    assert page.locator("#condition").input_value() == "symbol = 'IBM' AND price > 'high'"
    assert problems(page) == []


def test_two_who_edit_one_rule_do_not_overwrite_each_other(page: Any, server: ConsoleServer, market: Market) -> None:
    id = market.book.id_of("tesla gap")
    page.goto(f"{server.base}/rules/{id}")
    market.book.replace(id, "price > 3", author="bob")
    page.fill("#condition", "price > 4")
    page.click("text=Save as version")
    page.wait_for_selector("text=is at version 2")
    assert str(market.book[id].condition) == "price > 3"


def test_events_appear_as_they_happen_and_a_flood_is_sampled(page: Any, server: ConsoleServer, market: Market) -> None:
    page.goto(f"{server.base}/events")
    page.wait_for_selector(".live.on")
    before = page.locator("#tail tr").first.get_attribute("data-position")
    flood = market.source.events.last(1, EventFilter())[0].fields
    table = pa.Table.from_pylist([flood] * 10_000)
    ended = threading.Event()

    def pour() -> None:
        while not ended.wait(0.2):
            market.source.events.record(table.slice(0, 2_000))

    pouring = threading.Thread(target=pour)
    pouring.start()
    try:
        page.wait_for_selector("text=of them are shown")
        assert page.locator("#tail tr").count() <= 120
        page.click("#hold")
        page.wait_for_selector("text=newer events are not shown")
    finally:
        ended.set()
        pouring.join()
    assert page.locator("#tail tr").first.get_attribute("data-position") != before
    assert problems(page) == []


def test_faults_of_a_file_are_reported_with_their_lines(page: Any, server: ConsoleServer, tmp_path: Any) -> None:
    file = tmp_path / "rules.jsonl"
    file.write_text('{"id": 901, "condition": "price > 3"}\n{"id": 902, "condition": "price >"}\n')
    page.goto(f"{server.base}/rules/import")
    page.set_input_files("input[type=file]", file)
    page.click("main button:has-text('Import')")
    page.wait_for_selector("text=Nothing was imported.")
    assert "line 2" in page.locator(".faults").inner_text()
    file.write_text('{"id": 901, "condition": "price > 3"}\n')
    page.set_input_files("input[type=file]", file)
    page.click("main button:has-text('Import')")
    page.wait_for_selector("text=1 rule added")


def test_the_theme_is_chosen_and_kept(page: Any, server: ConsoleServer) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != light
    page.goto(f"{server.base}/rules")
    assert page.evaluate(ground) == dark


def test_versions_are_published_and_rolled_back(page: Any, server: ConsoleServer, market: Market) -> None:
    page.goto(f"{server.base}/versions")
    page.click("main button:has-text('Publish')")
    page.wait_for_selector("text=The version was published.")
    assert "cisco high" in {rule.name for rule in market.book}
    page.goto(f"{server.base}/versions/1")
    page.click("summary:has-text('Roll back')")
    page.click("text=Roll back to version 1")
    page.wait_for_selector("text=as a new version")
    assert "cisco high" not in {rule.name for rule in market.book}
    assert str(market.book["tesla gap"].condition) == "symbol = 'TSLA' AND price BETWEEN 208 AND 212"
