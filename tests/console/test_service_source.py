"""The pages over a service in this process, without a browser: odd forms, rows of every kind, searches with an end."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.book.tokens import Tokens
from fencepost.console import make_console
from fencepost.console.guarded import mount_console
from fencepost.console.pages.objects import _about
from fencepost.console.served import ServiceSource
from fencepost.console.source import EventFilter
from fencepost.service import event_log
from fencepost.service.service import Service
from fencepost.service.settings import Limits
from fencepost.service.web.app import make_app
from fencepost.service.web.doors import Doors
from tests.effort import examples
from tests.service.services import serving


class Pages:
    """A console over a service, and how to ask it."""

    def __init__(self, service: Service) -> None:
        self.service, self.source = service, ServiceSource(service)
        self._app: Any = make_console(self.source)

    def __call__(self, path: str, method: str = "GET", **given: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            headers = {"origin": "http://127.0.0.1", **given.pop("headers", {})}
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
                return await client.request(method, path, **given)

        return asyncio.run(call())


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Pages]:
    with serving(tmp_path) as service:
        service.rules.add({"name": "high", "condition": "price > 40", "detect": "enter,exit"}, "ann")
        service.settle()
        for price in (39, 41, 39, 41):
            service.observe([{"object": "IBM", "price": price}])
        pages = Pages(service)
        yield pages
        pages.source.close()


class Doorway(Pages):
    """The same behind the doors of a service, to somebody with a token."""

    def __init__(self, service: Service, tokens: Tokens) -> None:
        super().__init__(service)
        self.text, self.token = tokens.create("ann", ["read"])
        self.doors = Doors(tokens)
        self._app = make_app(service, doors=self.doors, pages=[mount_console(self.source)])
        self.state = self._app.state


@pytest.fixture
def doorway(tmp_path: Path) -> Iterator[tuple[Doorway, Tokens]]:
    limits = Limits(readers=2)
    with serving(tmp_path / "data", limits=limits) as service, Tokens(f"sqlite:///{tmp_path / 'tokens.db'}") as tokens:
        doorway = Doorway(service, tokens)
        yield doorway, tokens
        doorway.source.close()


def test_a_script_without_a_session_is_told_so_and_not_led_to_the_door(doorway: tuple[Doorway, Tokens]) -> None:
    ask = doorway[0]
    assert (ask("/").status_code, ask("/").headers["location"]) == (303, "/enter")
    for path, method in (("/", "GET"), ("/events/histogram", "GET"), ("/rules/try", "POST")):
        answer = ask(path, method, headers={"x-asks-for": "fragment"})
        assert (answer.status_code, "<" in answer.text) == (401, False)
    assert ask("/events/stream").status_code == 401


def test_a_stream_of_pages_ends_with_its_token_and_counts_as_a_reader(
    doorway: tuple[Doorway, Tokens], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, tokens = doorway
    monkeypatch.setattr("fencepost.service.web.doors._REMEMBERED", 0.0)
    monkeypatch.setattr("fencepost.console.pages.events._TICK", 0.02)
    headers = {"authorization": f"Bearer {ask.text}"}
    seen: list[int] = []
    real = ask.doors.find

    async def find(request: Any) -> Any:
        seen.append(len(ask.state.readers))
        if len(seen) == 5:
            tokens.revoke(ask.token.id)
        return await real(request)

    monkeypatch.setattr(ask.doors, "find", find)
    answer = ask("/events/stream", headers=headers)
    assert (answer.status_code, answer.text.count("data: ")) == (200, 3)
    assert (seen, len(ask.state.readers)) == ([0, 1, 1, 1, 1], 0)
    monkeypatch.setattr(ask.doors, "find", real)
    ask.state.readers.update({1, 2})
    text, _ = tokens.create("bob", ["read"])
    answer = ask("/events/stream", headers={"authorization": f"Bearer {text}"})
    assert (answer.status_code, "readers" in answer.json()["got"]) == (503, True)


@pytest.mark.parametrize("value", ["9" * 24, "9" * 5000, "²", "-1", "--5"])
def test_numbers_of_any_length_are_answered_in_words(pages: Pages, value: str) -> None:
    for path in ("objects?after", "objects?q", "events?before", "events?rule", "rules?after", "rules?q", "object?name"):
        assert pages(f"/{path}={value}").status_code in (200, 400, 404), path
    rule = {"condition": "price > 3", "detect": "enter"}
    for field in ("limit", "cooldown", "for_", "every", "id", "margin", "expires"):
        answer = pages("/rules/add", "POST", data={**rule, field: value})
        assert (answer.status_code, "alert" in answer.text) in ((400, True), (303, False)), field
    for path in ("/rules/1", "/rules/1/pause", "/rules/1/restore"):
        sent = {**rule, "expect": value, "version": value}
        assert pages(path, "POST", data=sent).status_code == 400, path
    assert pages.service.rules.get(1).version == 1


@pytest.mark.parametrize("name", [f"{'x' * 400}.jsonl", f"a.{'x' * 400}", "a/../../x.jsonl", "rules", "a.JSONL"])
def test_a_file_may_have_any_name(pages: Pages, name: str) -> None:
    content = b'{"id": 5, "condition": "price > 3"}'
    answer = pages("/rules/import", "POST", files={"file": (name, content)})
    is_known = name.lower().endswith(".jsonl")
    assert (answer.status_code, "one of .jsonl" in answer.text) == ((200, False) if is_known else (400, True))


_TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["9" * 5000, "9" * 24, "-1", "\x00", "1e999", "nan", "9999-12-31T23:59:59", "0001-01-01", "²"]),
)
_FORMS = ("/rules/add", "/rules/try", "/rules/read", "/rules/1", "/rules/1/pause", "/rules/1/restore")
_FIELDS = (
    "id", "name", "condition", "labels", "expires", "stay", "margin", "limit", "expect", "for_", "keep_firing_for",
    "cooldown", "every", "version", "until", "at", "detect",
)  # fmt: skip


@pytest.mark.slow
def test_forms_with_anything_in_them_are_answered_in_words(pages: Pages) -> None:
    @examples(60, deadline=None)
    @given(st.sampled_from(_FORMS), st.dictionaries(st.sampled_from(_FIELDS), _TEXTS, max_size=5), st.booleans())
    def send(path: str, fields: dict[str, str], is_whole: bool) -> None:
        if is_whole:
            fields = {"condition": "price > 3", "detect": "enter", **fields}
        answer = pages(path, "POST", data=fields)
        assert answer.status_code < 500, (path, fields)

    send()


def test_an_object_whose_columns_changed_their_types_has_a_page(pages: Pages) -> None:
    service = pages.service
    for row in ({"lot": 5}, {"lot": "five", "flag": True}, {"lot": 6.5}, {"flag": 1}):
        service.observe([{"object": "IBM", "price": 43, **row}])
    trail = pages.source.objects.trail("IBM", 300)
    assert trail is not None
    assert trail.values["lot"][-4:] == ["5", "five", "6.5", None]
    assert trail.values["price"] == [39, 41, 39, 41, 43, 43, 43, 43]
    assert len(trail.times) == 8
    answer = pages("/object?name=IBM")
    assert (answer.status_code, "five" in answer.text) == (200, False)
    last = pages.source.objects.trail("IBM", 3)
    assert last is not None
    assert (last.values["lot"], len(last.times)) == (["five", "6.5", None], 3)


def test_rows_that_were_refused_are_not_in_a_trail(pages: Pages) -> None:
    with pytest.raises(Exception, match="price"):
        pages.service.observe([{"object": "IBM", "price": "much"}, {"object": "A", "price": "more"}])
    trail = pages.source.objects.trail("IBM", 300)
    assert trail is not None
    assert trail.values["price"] == [39, 41, 39, 41]
    assert pages("/rules/try", "POST", data={"condition": "price > 40", "detect": "enter"}).status_code == 200


def test_a_search_that_ends_says_where_and_how_to_go_on(pages: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "_BLOCKS_AT_ONCE", 2)
    assert pages.service.last_event == 3
    found, rest = pages.source.events.search(10, EventFilter(object="nobody"))
    assert (found, rest) == ([], 2)
    text = pages("/events?object=nobody").text
    assert "No event fits from position 2 on." in text
    assert "before=2" in text
    assert "No event fits. " in pages("/events?object=nobody&before=2").text
    assert pages.source.events.search(2, EventFilter())[1] is None


def test_a_chart_has_the_ranges_that_are_about_its_object(pages: Pages) -> None:
    rules = pages.service.rules
    two = "(symbol = 'IBM' AND price BETWEEN 40 AND 50) OR (symbol = 'SAP' AND price BETWEEN 145 AND 160)"
    many = " OR ".join(f"price BETWEEN {40 + 2 * each} AND {41 + 2 * each}" for each in range(10))
    for name, condition in (("two", two), ("many", many), ("far", "object = 'IBM' AND price > 5000")):
        rules.add({"name": name, "condition": condition, "detect": "enter,exit"}, "ann")
    pages.service.settle()
    pages.service.observe([{"object": "IBM", "symbol": "IBM", "price": 41}])
    seen = pages.source.objects.get("IBM")
    assert seen is not None
    for asked in ("", "far"):
        about = _about(pages.source, seen, asked)
        [drawing] = [each for each in about["drawings"] if each["column"] == "price"]
        names = [name for name, *_ in drawing["ranges"]]
        assert (names.count("two"), names.count("many"), drawing["more"]) == (1, 8, 2)
        assert ("far" in names) == bool(asked)
        [(_, low, high)] = [each for each in drawing["ranges"] if each[0] == "two"]
        assert (low, high) == (40, 50)
    assert "And 2 more ranges of these rules." in pages("/object?name=IBM").text


def test_a_rule_is_called_by_its_whole_name(pages: Pages) -> None:
    """However many other names begin with it, and whatever their ids are."""
    for number in range(25):
        pages.service.rules.add({"name": f"floor {number}", "condition": "price > 45", "detect": "enter"}, "ann")
    own = pages.service.rules.add({"name": "floor", "condition": "price < 40.5", "detect": "enter"}, "ann")
    pages.service.settle()
    pages.service.observe([{"object": "IBM", "price": 40}])
    assert (
        f"of rule {own.id}" in pages("/object?name=IBM&rule=floor").text
        or "40.5" in pages("/object?name=IBM&rule=floor").text
    )
    assert pages("/events?rule=floor").text.count('data-position="') == 1
    assert pages("/events?rule=high").text.count('data-position="') == 4
    assert pages("/events?rule=nobody").status_code == 400
    assert "No rule has the id or the name" in pages("/object?name=IBM&rule=floo").text


def test_a_rule_says_whose_events_it_holds_back(pages: Pages) -> None:
    fields = {"name": "slow", "condition": "price > 40", "detect": "enter,exit", "for": "1 hour"}
    pages.service.rules.add(fields, "ann")
    pages.service.settle()
    pages.service.observe([{"object": name, "price": 39} for name in ("IBM", "SAP")])
    pages.service.observe([{"object": name, "price": 41} for name in ("IBM", "SAP")])
    [slow] = pages.service.book.find("slow")
    text = pages(f"/rules/{slow.id}").text
    assert "Held back: the enter of" in text
    assert text.index(">IBM</a> since ") < text.index(">SAP</a> since ")
    assert "Held back" not in pages("/rules/1").text


def test_why_an_event_happened_is_told_in_words(pages: Pages) -> None:
    [last, *_] = pages.source.events.last(1, EventFilter())
    text = pages(f"/events/{last.fields['event_id']}").text
    for word in ("price &gt; 40", "did not hold", "holds", "<code>40.0 &lt; price</code>"):
        assert word in text


def test_forms_begin_without_a_fault_and_refuse_in_one_place(pages: Pages) -> None:
    assert 'class="fault"' not in pages("/rules/new").text
    answer = pages("/rules/add", "POST", data={"condition": "price >", "detect": "enter"})
    said = answer.text[answer.text.index("Not done.") :].split("</p>")[0]
    assert (answer.status_code, "^" in said, "cannot be understood here" in said) == (400, False, True)
    taken = pages("/rules/add", "POST", data={"condition": "price > 1", "detect": "enter", "name": "high"}).text
    assert "The name &#39;high&#39; is that of rule 1" in taken
    assert "Choose another name, or edit that rule." in taken
    taken = pages("/rules/add", "POST", data={"condition": "price > 1", "detect": "enter", "id": "1"}).text
    assert "Edit that rule, or leave the id empty." in taken
    files = {"file": ("mine.jsonl", b'{"id": 5}')}
    text = pages("/rules/import", "POST", files=files, data={"existing": "refuse"}).text
    assert "Correct mine.jsonl and import it again" in text


def test_a_chart_marks_the_events_of_its_own_rules(pages: Pages) -> None:
    pages.service.rules.add({"name": "much", "condition": "volume > 5", "detect": "inside"}, "ann")
    pages.service.settle()
    for volume in (6, 7, 8):
        pages.service.observe([{"object": "IBM", "price": 41, "volume": volume}])
    seen = pages.source.objects.get("IBM")
    assert seen is not None
    kinds = {each["column"]: {kind for _, kind in each["marks"]} for each in _about(pages.source, seen, "")["drawings"]}
    assert kinds == {"price": {"enter", "exit"}, "volume": {"inside"}}


def test_north_is_up(pages: Pages) -> None:
    pages.service.rules.add({"name": "box", "condition": "lat BETWEEN 52 AND 53 AND lon BETWEEN 13 AND 14"}, "ann")
    pages.service.settle()
    [box] = pages.service.book.find("box")
    caption = pages(f"/rules/{box.id}").text.split("<figcaption>")[1]
    assert caption.startswith("<b>lon</b>")
    assert "upward" in caption.split("<b>lat</b>")[1]


def test_a_method_that_a_route_does_not_have_is_refused_beside_pages(doorway: tuple[Doorway, Tokens]) -> None:
    ask = doorway[0]
    for path in ("/v1/rules", "/v1/events", "/healthz", "/metrics"):
        answer = ask(path, "PATCH")
        assert answer.status_code == 405, path
        assert set(answer.json()) == {"got", "expected", "remedy", "message"}
        assert answer.headers["allow"]
    assert ask("/v1/nowhere", headers={"authorization": f"Bearer {ask.text}"}).status_code == 404


def test_who_was_told_of_another_change_may_save_on_top_of_it(pages: Pages) -> None:
    pages.service.rules.put(1, {"name": "high", "condition": "price > 50", "detect": "enter,exit"}, None, "bob")
    mine = {"condition": "price > 60", "detect": "enter", "name": "high", "action": "save"}
    refused = pages("/rules/1", "POST", data={**mine, "expect": "1"})
    assert (refused.status_code, "by bob" in refused.text, "price &gt; 60</textarea>" in refused.text) == (
        400,
        True,
        True,
    )
    assert refused.text.count('name="expect" value="2"') == refused.text.count('name="expect"')
    assert pages("/rules/1", "POST", data={**mine, "expect": "2"}).status_code == 303
    assert pages.service.rules.get(1).condition == "price > 60"


def test_an_axis_names_the_bounds_that_somebody_wrote(pages: Pages) -> None:
    for name, condition, words in (
        ("over", "price > 0", "above 0"),
        ("from", "price >= 40", "from 40 on"),
        ("half", "price > 40.5 AND price <= 50", "above 40.5 and up to 50"),
        ("both", "price BETWEEN 40 AND 50", "40 to 50"),
        ("less", "price < 39.9", "below 39.9"),
    ):
        rule = pages.service.rules.add({"name": name, "condition": condition, "detect": "enter"}, "ann")
        assert f"<b>price</b> {words}</figcaption>" in pages(f"/rules/{rule.id}").text, name


def test_a_page_that_cannot_be_shown_says_so_and_leads_back(pages: Pages) -> None:
    for path in ("/versions/99", "/versions/diff?from=1&to=99"):
        missing = pages(path)
        assert (missing.status_code, "There is no version 99, or it is no longer kept." in missing.text) == (404, True)
    refused = pages("/events?rule=nope")
    assert (refused.status_code, "Not done" in refused.text) == (400, False)
    for part in ("<h1>This cannot be shown</h1>", "Rule &#39;nope&#39;", 'Go back to the <a href="/">'):
        assert part in refused.text
