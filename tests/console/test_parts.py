"""Parts of a source without a browser: paging of a book, the recorder, trials, the door, what is refused."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from fencepost.book import RuleBook
from fencepost.console import make_console
from fencepost.console.book_rules import BookRules
from fencepost.console.conditions import read_condition
from fencepost.console.door import Door
from fencepost.console.recorder import Recorder
from fencepost.console.source import EventFilter, RuleSearch
from fencepost.errors import FencepostError
from fencepost.service.values import read_values
from tests.console.market import Market, open_market


@pytest.fixture
def book(tmp_path: Path) -> Iterator[RuleBook]:
    with RuleBook(f"sqlite:///{tmp_path / 'rules.db'}", author="ann") as book:
        yield book


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    with open_market(tmp_path_factory.mktemp("market")) as market:
        market.play(60)
        yield market


def test_a_book_is_read_page_by_page(book: RuleBook, tmp_path: Path) -> None:
    file = tmp_path / "rules.jsonl"
    lines = [
        f'{{"id": {n}, "condition": "price > {n}", "name": "rule {n}", "labels": {{"desk": "{n % 3}"}}}}'
        for n in range(1, 121)
    ]
    file.write_text("\n".join(lines))
    book.import_file(file)
    seen: list[int] = []
    after = None
    while True:
        page = book.search(after, 50)
        seen += [rule.id for rule in page.rules]
        after = page.after
        if after is None:
            break
    assert seen == list(range(1, 121))
    desk = book.search(None, 10, labels={"desk": "1"})
    assert [rule.id for rule in desk.rules] == list(range(1, 30, 3))
    assert [rule.id for rule in book.find("rule 11")] == [11, *range(110, 120)]
    assert [rule.id for rule in book.find("7")] == [7]
    assert [rule.id for rule in book.search(None, 5, text="> 119").rules] == [119]


def test_a_search_looks_at_so_many_rules_and_says_so(book: RuleBook) -> None:
    many = 20_500
    table = {"rule_id": list(range(many)), "text": [f"price > {n}" for n in range(many)]}
    book.add_table(table, condition="text")
    page = book.search(None, 50, text="> 20499")
    assert (len(page.rules), page.looked_at, page.after) == (0, 20_000, 19_999)
    assert [rule.id for rule in book.search(page.after, 50, text="> 20499").rules] == [20_499]


def test_a_search_that_the_database_cannot_decide_finds_what_is_behind_others(book: RuleBook) -> None:
    for number in range(10):
        book.add(number, f"symbol = 'größe {number}'")
    assert [rule.id for rule in book.search(None, 1, text="GRÖSSE 9".replace("SS", "ß")).rules] == [9]


def test_names_are_found_first_and_conditions_on_the_next_page(book: RuleBook) -> None:
    book.add("price of ibm", "symbol = 'IBM'")
    book.add("other", "price > 3")
    rules = BookRules(book)
    first = rules.page(None, 10, RuleSearch(text="price"))
    assert ([rule.name for rule in first.named], list(first.rules)) == (["price of ibm"], [])
    following = rules.page(first.after, 10, RuleSearch(text="price"))
    assert ([rule.name for rule in following.rules], following.named, following.after) == (["other"], [], None)


def test_the_number_of_rules_follows_every_change(book: RuleBook) -> None:
    assert book.count() == 0
    for id in range(6):
        book.add(id, "price > 1")
    assert book.count() == len(book) == 6
    book.remove(2)
    book.replace(3, "price > 2")
    assert book.count() == len(book) == 5
    book.restore(2, 1)
    book.remove(2)
    book.add(9, "price > 3")
    assert book.count() == len(book) == 6


def test_many_rules_go_back_at_once(book: RuleBook) -> None:
    for id in range(4):
        book.add(id, f"price > {id}")
    book.replace(1, "price > 100")
    book.remove(2)
    assert book.restore_all({0: 1, 1: 1, 2: 1}, remove=[3, 77]) == 3
    assert [str(rule.condition) for rule in book] == ["price > 0", "price > 1", "price > 2"]
    last = list(book.history(last=3))
    assert {change.revision for change in last} == {book.revision}
    with pytest.raises(FencepostError, match="no version"):
        book.restore_all({0: 9}, remove=[1])
    assert 1 in book


def events(count: int, rule: int = 1, first: int = 0) -> Any:
    return pa.table(
        {
            "event_id": [f"e{first + n}" for n in range(count)],
            "rule_id": [rule] * count,
            "object": [f"o{n % 3}" for n in range(count)],
            "detect": ["enter", "exit"] * (count // 2) + ["enter"] * (count % 2),
            "time": pa.array(range(first, first + count), pa.timestamp("us", "UTC")),
            "reason": pa.nulls(count, pa.string()),
        }
    )


def test_the_recorder_keeps_the_last_events_and_counts_all() -> None:
    recorder = Recorder(events=100)
    for start in range(0, 400, 40):
        recorder.record(events(40, first=start), rows=50)
    found = recorder.last(1_000, EventFilter())
    assert [seen.position for seen in found] == list(range(399, 299, -1))
    assert found[0].fields["event_id"] == "e399"
    assert recorder.last(5, EventFilter(object="o1"), before=380)[0].position < 380
    assert sum(recorder.per_minute([1, 2])[1]) == 400
    assert sum(recorder.per_minute([1, 2])[2]) == 0
    assert recorder.kinds == {"enter": 200, "exit": 200}
    histogram = recorder.histogram(EventFilter(detect="exit"), 10)
    assert histogram is not None
    assert histogram.total == 50


def test_a_tail_has_everything_or_a_sample_of_it_and_says_how_many_there_were() -> None:
    recorder = Recorder(events=10_000)
    begin = recorder.since(None, 10, EventFilter()).position
    recorder.record(events(7))
    tail = recorder.since(begin, 10, EventFilter())
    assert ([seen.position for seen in tail.events], tail.total, tail.position) == (list(range(7)), 7, 7)
    assert recorder.since(tail.position, 10, EventFilter()).total == 0
    for start in range(0, 5_000, 500):
        recorder.record(events(500, first=start))
    flood = recorder.since(tail.position, 20, EventFilter())
    assert (len(flood.events), flood.total, flood.position) == (20, 5_000, 5_007)
    places = [seen.position for seen in flood.events]
    assert places == sorted(set(places))
    assert recorder.since(tail.position, 20, EventFilter(detect="exit")).total == 2_500


def test_values_are_read_as_their_columns_are() -> None:
    types = {"price": "double", "volume": "bigint", "symbol": "key", "open": "boolean"}
    read = read_values("price = 47, volume=3 and symbol = 'IBM', open = true", types)
    assert read == {"price": 47.0, "volume": 3, "symbol": "IBM", "open": True}
    for wrong in ("price", "price = ", "price = high", "= 3"):
        with pytest.raises(FencepostError):
            read_values(wrong, types)


def test_the_place_of_a_fault_is_known() -> None:
    read = read_condition("price > 3 AND volume >", {})
    assert read.fault
    assert [piece for piece, wrong in read.pieces if wrong] == [">"]
    assert "".join(piece for piece, _ in read.pieces) == "price > 3 AND volume >"
    good = read_condition("price > 3 OR price < 1", {"price": "double"})
    assert not good.fault
    assert [box.ranges["price"][0] is None for box in good.boxes].count(True) == 1
    assert read_condition("prize > 3", {"price": "double"}).notes


def test_a_condition_is_tried_beside_the_rule_on_the_rows_that_came(market: Market) -> None:
    rule = market.book["ibm floor"]
    options = {"detect": "enter,exit"}
    assert market.source.rows, "an engine keeps rows"
    same = market.source.rows.try_condition(rule, str(rule.condition), options)
    assert same.old is not None
    assert (same.old.events, same.old.objects) == (same.new.events, same.new.objects)
    assert same.new.total == len(market.source.events.last(10_000, EventFilter(rule=rule.id)))
    assert sum(same.new.counts) == same.new.total
    assert market.source.rows.try_condition(None, "price < 0", options).new.total == 0


def ask(app: Any, path: str, method: str = "GET", host: str = "127.0.0.1:1", **more: Any) -> httpx.Response:
    import asyncio

    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
            return await client.request(method, path, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return asyncio.run(run())


def test_the_door_opens_to_the_token_alone(market: Market) -> None:
    door = Door(make_console(market.source), {"127.0.0.1:1"}, "secret")
    assert ask(door, "/").status_code == 401
    assert ask(door, "/?token=wrong").status_code == 401
    assert ask(door, "/rules", host="evil.example").status_code == 421
    opened = ask(door, "/rules?token=secret&q=ibm")
    assert (opened.status_code, opened.headers["location"]) == (303, "/rules?q=ibm")
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert ask(door, "/", headers={"cookie": cookie.partition(";")[0]}).status_code == 200


def test_forms_of_other_sites_are_refused(market: Market) -> None:
    app = make_console(market.source)
    fields = {"condition": "price > 3", "detect": "enter"}
    before = len(market.book)
    for headers in ({}, {"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}):
        answer = ask(app, "/rules/add", "POST", data=fields, headers=headers)
        assert answer.status_code == 403
    assert len(market.book) == before
    assert ask(app, "/rules/add", "POST", data=fields, headers={"origin": "http://127.0.0.1:1"}).status_code == 303
    assert len(market.book) == before + 1


def test_pages_may_load_nothing_from_elsewhere_and_have_no_script_inside(market: Market) -> None:
    app = make_console(market.source)
    for path in ("/", "/rules", "/rules/1", "/events", "/objects", "/object?name=IBM"):
        answer = ask(app, path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
        assert "://" not in answer.text.replace(market.book.url, "").replace("http://www.w3.org", "")


def test_what_users_write_is_text_on_every_page(market: Market) -> None:
    name = "<img src=x onerror=alert(1)>\"'&"
    rule = market.book.add(name, "symbol = '<b>x</b>'", labels={"<i>": "</script>"})
    app = make_console(market.source)
    for path in (f"/rules/{rule.id}", "/rules", f"/rules?q={rule.id}", "/object?name=<b>x</b>"):
        text = ask(app, path).text
        assert "<img" not in text
        assert "<b>x" not in text
        assert "<i>" not in text
    market.book.remove(rule.id)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/rules/x", 404),
        ("/rules/4711", 404),
        ("/rules/99999999999999999999999", 404),
        ("/rules?holds=price", 200),
        ("/rules?state=odd", 200),
        ("/events?rule=x", 400),
        ("/events?detect=odd", 400),
        ("/events?before=-1", 200),
        ("/events/none", 404),
        ("/object?name=nobody", 404),
        ("/versions", 200),
        ("/versions/1", 404),
        ("/static/0/console.css", 404),
    ],
)
def test_odd_addresses_are_answered_in_words(market: Market, path: str, status: int) -> None:
    assert ask(make_console(market.source), path).status_code == status


def test_an_address_with_two_slashes_leads_nowhere_else(market: Market) -> None:
    answer = ask(make_console(market.source), "http://127.0.0.1:1//elsewhere.example/")
    assert answer.headers["location"] == "/elsewhere.example"
