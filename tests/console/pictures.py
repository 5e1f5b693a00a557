"""Takes the screenshots of docs/console.md: `python -m tests.console.pictures`, then look at them."""

import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from fencepost.console import ConsoleServer
from tests.console.browser import open_browser
from tests.console.market import Market, open_market

PLACE = Path(__file__).parents[2] / "docs" / "_static" / "console"
_WIDE, _PHONE = {"width": 1120, "height": 780}, {"width": 360, "height": 740}


def main() -> None:
    """Take them all."""
    PLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, open_market(Path(name)) as market:
        market.book.publish(market.published, infer=True)
        market.book.add("cisco high", "symbol = 'CSCO' AND price > 51", detect="enter,exit")
        market.book.publish(market.published)
        market.source.refresh()
        market.play(240, 0.25)
        ended = threading.Event()
        going = threading.Thread(target=_keep_going, args=(market, ended))
        going.start()
        try:
            with ConsoleServer(market.source) as server, open_browser() as browser:
                time.sleep(25)  # so that the charts have something to show
                for scheme in ("light", "dark"):
                    _take(browser, server, market, scheme)
        finally:
            ended.set()
            going.join()


def _keep_going(market: Market, ended: threading.Event) -> None:
    while not ended.wait(0.25):
        market.play(1, 0.0)


def _take(browser: Any, server: ConsoleServer, market: Market, scheme: str) -> None:
    page = browser.new_page(viewport=_WIDE, color_scheme=scheme)
    page.goto(server.address)
    rule = market.book.id_of("ibm floor")

    def shoot(name: str, path: str, whole: bool = False) -> None:
        page.goto(server.base + path)
        page.wait_for_timeout(300)
        _save(page, f"{name}-{scheme}", whole)

    shoot("overview", "/", True)
    shoot("rules", "/rules")
    shoot("rule", f"/rules/{rule}", True)
    page.fill("#condition", "symbol = 'IBM' AND price BETWEEN 41 AND 47.5")
    page.wait_for_selector("#trial table")
    page.locator("form.card").first.scroll_into_view_if_needed()
    page.locator("form.card").first.screenshot(path=PLACE / f"try-{scheme}.png")
    page.fill("#condition", "symbol = 'IBM' AND price > 'high'")
    page.wait_for_selector("mark")
    page.locator("form.card .marked").first.scroll_into_view_if_needed()
    page.locator("form.card").first.screenshot(path=PLACE / f"fault-{scheme}.png")
    shoot("object", "/object?name=IBM&rule=ibm+floor", True)
    page.goto(f"{server.base}/events")
    page.wait_for_timeout(3500)
    _save(page, f"events-{scheme}")
    shoot("versions", "/versions/preview")
    page.set_viewport_size(_PHONE)
    shoot("phone", "/")
    shoot("phone-rule", f"/rules/{rule}")
    page.close()


def _save(page: Any, name: str, whole: bool = False) -> None:
    page.screenshot(path=PLACE / f"{name}.png", full_page=whole)


if __name__ == "__main__":
    main()
