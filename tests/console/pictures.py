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
_COLOURS = 160
_SHOWN = 75.0
"""Seconds that charts get to have something to show."""
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
                time.sleep(_SHOWN)
                _take(browser, server, market)
        finally:
            ended.set()
            going.join()


def _keep_going(market: Market, ended: threading.Event) -> None:
    while not ended.wait(0.25):
        market.play(1, 0.0)


def _take(browser: Any, server: ConsoleServer, market: Market) -> None:
    """The pictures of the page, each in the colours that it has there."""
    page = browser.new_page(viewport=_WIDE, color_scheme="light")
    page.goto(server.address)
    rule = market.book.id_of("ibm floor")
    market.book.add("oracle dip", "symbol = 'ORCL' AND price < 58", detect="enter,exit", labels={"desk": "2"})
    for name, path in {
        "overview-light": "/",
        "rules-light": "/rules",
        "rule-light": f"/rules/{rule}",
        "object-light": "/object?name=IBM&rule=ibm+floor",
        "versions-light": "/versions/preview",
    }.items():
        page.goto(server.base + path)
        page.wait_for_timeout(300)
        page.screenshot(path=PLACE / f"{name}.png")
    page.goto(f"{server.base}/rules/{rule}")
    page.fill("#condition", "symbol = 'IBM' AND price BETWEEN 41 AND 47.5")
    page.wait_for_selector("#trial table")
    page.locator("form.card").first.screenshot(path=PLACE / "try-light.png")
    page.fill("#condition", "symbol = 'IBM' AND price > 'high'")
    page.wait_for_selector("mark")
    page.locator("form.card").first.screenshot(path=PLACE / "fault-light.png")
    _crop(PLACE / "fault-light.png", 196)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{server.base}/events")
    page.wait_for_timeout(4_000)
    page.screenshot(path=PLACE / "events-dark.png")
    page.set_viewport_size(_PHONE)
    page.goto(f"{server.base}/")
    page.screenshot(path=PLACE / "phone-dark.png")
    page.close()
    for picture in PLACE.glob("*.png"):
        _shrink(picture)


def _crop(path: Path, height: int) -> None:
    """Keep the upper part."""
    from PIL import Image

    with Image.open(path) as image:
        upper = image.crop((0, 0, image.width, height))
    upper.save(path)


def _shrink(path: Path) -> None:
    """Keep as many colours as pages have."""
    from PIL import Image  # comes with matplotlib

    with Image.open(path) as image:
        small = image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
