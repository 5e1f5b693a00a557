"""The routes, called in one process."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.service.rows import ARROW, write_rows
from fencepost.service.settings import Limits
from tests.service.services import Client, serving


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path / "data", object="symbol") as service:
        yield Client(service)


FLOOR = {"name": "ibm floor", "condition": "symbol = 'IBM' AND price < 40", "detect": "enter,exit"}


def test_a_rule_and_a_row_make_an_event(call: Client) -> None:
    made = call("POST", "/v1/rules", json=FLOOR)
    assert (made.status_code, made.headers["etag"], made.json()["in_force"]) == (201, '"1"', 1)
    answer = call("POST", "/v1/observations?wait=true", json={"symbol": "IBM", "price": 39.5})
    [event] = answer.json()["events"]
    assert (event["detect"], event["name"], event["price"], event["position"]) == ("enter", "ibm floor", 39.5, 1)
    assert call("GET", "/v1/events").json()["events"] == [event]
    assert call("GET", "/v1/inside/ibm floor").json()["objects"] == ["IBM"]
    known = call("GET", "/v1/objects/IBM").json()
    assert (known["values"], known["inside"]) == ({"price": 39.5, "symbol": "IBM"}, [1])
    assert "price" in call("GET", f"/v1/why/{event['event_id']}").json()["text"]
    assert "outside" not in call("GET", "/v1/why-not?rule=1&object=IBM").json()["text"]


def test_rows_come_as_lines_lists_and_arrow(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    rows = b'{"symbol": "IBM", "price": 39}\n{"symbol": "IBM", "price": 41}\n'
    assert call("POST", "/v1/observations", content=rows).json() == {"position": 2, "rows": 2}
    arrow = write_rows(pa.table({"symbol": ["IBM"], "price": [39.0]}))
    answer = call("POST", "/v1/observations?wait=true", content=arrow, headers={"Content-Type": ARROW[0]})
    assert [event["detect"] for event in answer.json()["events"]] == ["enter"]
    assert call("POST", "/v1/match", json=[{"symbol": "IBM", "price": 1}, {"price": 1}]).json()["rule_ids"] == [[1], []]


def test_a_key_lets_nothing_be_done_twice(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    row, key = {"symbol": "IBM", "price": 39}, {"Idempotency-Key": "a"}
    first = call("POST", "/v1/observations?wait=true", json=row, headers=key).json()
    again = call("POST", "/v1/observations?wait=true", json=row, headers=key).json()
    assert again == {**first, "repeated": True}
    other = call("POST", "/v1/observations", json={**row, "price": 38}, headers=key)
    assert (other.status_code, set(other.json())) == (422, {"got", "expected", "remedy", "message"})


def test_rules_are_changed_only_as_expected(call: Client) -> None:
    call("POST", "/v1/rules", json={"id": 7, **FLOOR})
    assert call("POST", "/v1/rules", json={"id": 7, **FLOOR}).status_code == 409
    edited = {**FLOOR, "condition": "symbol = 'IBM' AND price < 41"}
    assert call("PUT", "/v1/rules/7", json=edited, headers={"If-Match": '"2"'}).status_code == 412
    assert call("PUT", "/v1/rules/7", json=edited, headers={"If-Match": '"1"'}).headers["etag"] == '"2"'
    assert call("POST", "/v1/rules/7:restore", json={"version": 1}).json()["condition"] == FLOOR["condition"]
    actions = [each["action"] for each in call("GET", "/v1/rules/7/history").json()["changes"]]
    assert actions == ["added", "replaced", "restored"]
    assert call("DELETE", "/v1/rules/7").status_code == 200
    assert call("GET", "/v1/rules/7").status_code == 404


def test_pages_of_rules_go_on_where_they_ended(call: Client) -> None:
    lines = "\n".join(
        f'{{"id": {id}, "condition": "price > {id}", "labels": {{"odd": "{id % 2}"}}}}' for id in range(30)
    )
    assert call("POST", "/v1/rules:import", content=lines.encode()).json()["added"] == 30
    seen, cursor = [], None
    while True:
        page = call(
            "GET", "/v1/rules", params={"limit": 7, "label": "odd:1"} | ({} if cursor is None else {"cursor": cursor})
        )
        seen += [rule["id"] for rule in page.json()["rules"]]
        if (cursor := page.json()["next"]) is None:
            break
    assert seen == list(range(1, 30, 2))
    assert [rule["id"] for rule in call("GET", "/v1/rules?q=price > 2").json()["rules"]][:2] == [2, 20]


def test_what_was_taken_is_there_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, object="symbol") as service:
        call = Client(service)
        call("POST", "/v1/rules", json=FLOOR)
        call("POST", "/v1/observations", json={"symbol": "IBM", "price": 39})
        before = call("GET", "/v1/events").json()
    for _ in range(2):
        with serving(tmp_path, object="symbol") as service:
            assert Client(service)("GET", "/v1/events").json() == before
            assert Client(service)("GET", "/v1/inside/1").json()["objects"] == ["IBM"]


def test_times_without_a_zone_are_those_of_utc(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    told = []
    for number, type_ in enumerate((pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("s"), pa.string())):
        text = f"2026-01-05T09:3{number}:00"
        times = pa.array([text]) if type_ == pa.string() else pa.array([text]).cast(pa.timestamp("s")).cast(type_)
        table = pa.table({"symbol": ["IBM"], "time": times, "price": [39.0 + 2 * (number % 2)]})
        answer = call(
            "POST", "/v1/observations?wait=true", content=write_rows(table), headers={"Content-Type": ARROW[0]}
        )
        told += [(event["detect"], event["time"]) for event in answer.json()["events"]]
    kinds = ["enter", "exit"] * 2
    assert told == [(kind, f"2026-01-05T09:3{number}:00Z") for number, kind in enumerate(kinds)]


def test_calls_that_go_straight_are_refused_like_others(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        call = Client(service)
        row = {"object": "IBM", "price": 41}
        assert call("POST", "/v1/observations?wait=1", json=row).status_code == 200
        assert call("POST", "/v1/observations?wait=No", json=row).status_code == 202
        for answer in (
            call("POST", "/v1/observations?wait=perhaps", json=row),
            call("POST", "/v1/observations", content=b"{"),
            call("POST", "/v1/observations", json=row, headers={"Idempotency-Key": "k" * 201}),
        ):
            assert (answer.status_code, set(answer.json())) == (422, {"got", "expected", "remedy", "message"})
        assert call("GET", "/v1/observations").status_code == 405
        assert {"/v1/observations", "/v1/match"} <= set(call("GET", "/openapi.json").json()["paths"])


def test_rules_that_hold_at_values(tmp_path: Path) -> None:
    with serving(tmp_path) as service:
        call = Client(service)
        for number in range(5):
            call("POST", "/v1/rules", json={"id": number, "condition": f"price > {10 * number} AND symbol = 'IBM'"})
        asked = {"holds": "price=25, symbol=IBM", "limit": 2}
        page = call("GET", "/v1/rules", params=asked).json()
        assert ([rule["id"] for rule in page["rules"]], page["next"]) == ([0, 1], 1)
        page = call("GET", "/v1/rules", params={**asked, "cursor": 1}).json()
        assert ([rule["id"] for rule in page["rules"]], page["next"]) == ([2], None)
        assert call("GET", "/v1/rules?holds=price=25").json()["rules"] == []  # what is left out is null
        for wrong in ("price", "price=dear", "volume=1", "self=1", "price=1,PRICE=2", "price=1e999"):
            answer = call("GET", "/v1/rules", params={"holds": wrong})
            assert answer.status_code in (200, 422), (wrong, answer.text)
        for wrong in ("price", "volume=1", "self=1"):
            assert call("GET", "/v1/rules", params={"holds": wrong}).status_code == 422, wrong
        assert call("GET", "/v1/rules?holds=price=1&q=a").status_code == 422


def test_columns_may_be_called_like_arguments(tmp_path: Path) -> None:
    with serving(tmp_path, object="symbol") as service:
        row = {"symbol": "IBM", "self": 1, "object": "a", "price": 41}
        for _ in range(2):
            assert Client(service)("POST", "/v1/observations?wait=true", json=row).status_code == 200


def test_a_match_with_a_large_answer_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(matches=50)) as service:
        call = Client(service)
        for number in range(5):
            service.rules.add({"condition": f"price > {number}"}, "ann")
        service.settle()
        assert call("POST", "/v1/match", json=[{"price": 9}] * 10).json()["rule_ids"] == [[1, 2, 3, 4, 5]] * 10
        answer = call("POST", "/v1/match", json=[{"price": 9}] * 11)
        assert (answer.status_code, "fewer rows" in answer.json()["remedy"]) == (413, True)


def test_a_search_of_many_rules_looks_at_so_many_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.book.paging._LOOKED_AT", 4)
    with serving(tmp_path) as service:
        call = Client(service)
        for number in range(10):
            service.rules.add({"id": number, "condition": f"price > {number}", "name": f"größer {number}"}, "ann")
        page = call("GET", "/v1/rules", params={"q": "nowhere"}).json()
        assert (page["rules"], page["next"]) == ([], 3)
        assert call("GET", "/v1/rules", params={"q": "nowhere", "cursor": 7}).json()["next"] is None
        for text in ("> 9", "er 9", "9"):
            seen, cursor = [], None
            while True:
                asked = {"q": text, "limit": 1} | ({} if cursor is None else {"cursor": cursor})
                page = call("GET", "/v1/rules", params=asked).json()
                seen += [rule["id"] for rule in page["rules"]]
                if (cursor := page["next"]) is None:
                    break
            assert set(seen) == {9}


def test_a_rule_is_put_only_where_it_is_or_is_not(call: Client) -> None:
    rule = {"condition": "price > 40"}
    answer = call("PUT", "/v1/rules/70", json=rule, headers={"If-Match": "*"})
    assert (answer.status_code, call("GET", "/v1/rules/70").status_code) == (412, 404)
    assert call("PUT", "/v1/rules/70", json=rule, headers={"If-None-Match": "*"}).status_code == 201
    assert call("PUT", "/v1/rules/70", json=rule, headers={"If-None-Match": "*"}).status_code == 412
    assert call("PUT", "/v1/rules/70", json={"condition": "price > 41"}, headers={"If-Match": "*"}).status_code == 200
    for headers in ({"If-None-Match": '"1"'}, {"If-None-Match": "*", "If-Match": "*"}):
        assert call("PUT", "/v1/rules/70", json=rule, headers=headers).status_code == 422
    assert call("GET", "/v1/rules/70").json()["condition"] == "price > 41"


def test_remedies_name_routes(call: Client) -> None:
    rule = {"id": 71, "condition": "price > 40"}
    assert call("POST", "/v1/rules", json=rule).status_code == 201
    answer = call("POST", "/v1/rules", json=rule)
    assert (answer.status_code, "()" in answer.text, "PUT /v1/rules" in answer.json()["remedy"]) == (409, False, True)
    assert answer.json()["remedy"] in answer.json()["message"]


def test_flags_may_be_only_named(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    answer = call("POST", "/v1/observations?wait", json={"symbol": "IBM", "price": 39})
    assert (answer.status_code, len(answer.json()["events"])) == (200, 1)
    assert call("POST", "/v1/publish?dry_run").json()["dry_run"] is True
    assert "dry_run" not in call("POST", "/v1/publish").json()
    assert call("POST", "/v1/publish?dry_run=perhaps").status_code == 422


@pytest.mark.parametrize(
    ("path", "sent", "words"),
    [
        ("/v1/rules", {"name": "x"}, ("nothing for condition", "condition, which is needed")),
        ("/v1/rules", {"condition": "price > 1", "colour": 1}, ("colour: 1", "fields that the route has")),
        ("/v1/rules", {"condition": 7}, ("condition: 7", "a valid string")),
        ("/v1/rules", {"condition": "price <"}, ("`<` cannot be understood here", "columns, constants")),
        ("/v1/rules", b"nonsense", ("a body that is no JSON", "JSON")),
        ("/v1/rules", b"[" * 200_000, ("a body that cannot be read", "JSON")),
        ("/v1/rules", b"", ("nothing for a body", "a body, which is needed")),
        ("/v1/rules:import", b'{"id": 1}\n', ("1 fault in 1 line", "none")),
        ("/v1/observations", {"symbol": "IBM", "time": 5, "price": 1}, ("time=5", "an instant, as in the first row")),
    ],
)
def test_refusals_are_whole_sentences(call: Client, path: str, sent: Any, words: tuple[str, str]) -> None:
    call("POST", "/v1/observations", json={"symbol": "IBM", "price": 1})
    given = {"content": sent} if isinstance(sent, bytes) else {"json": sent}
    answer = call("POST", path, headers={"Content-Type": "application/json"}, **given)
    said = answer.json()
    assert answer.status_code in (400, 422)
    assert said["got"].startswith(words[0])
    assert said["expected"].startswith(words[1])
    for awkward in ("Input should", "Field required", "fencepost-import", "rule 0"):
        assert awkward not in said["message"]


def test_a_limit_of_a_number_is_told_in_words(call: Client) -> None:
    said = call("GET", "/v1/rules?limit=0").json()
    assert said["message"].startswith("limit: '0'; expected greater than or equal to 1. Correct it")


def test_a_name_that_is_taken_is_refused_by_that_name(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    answer = call("POST", "/v1/rules", json=FLOOR)
    assert (answer.status_code, answer.json()["got"]) == (409, "the name 'ibm floor' is that of rule 1")
    assert answer.json()["remedy"] == "Choose another name, or edit that rule."


def test_a_rule_that_does_not_exist_is_told_from_one_that_rests(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    call("POST", "/v1/rules/1:pause")
    for path in ("/v1/inside/{}", "/v1/why-not?rule={}&object=IBM"):
        unknown, paused = (call("GET", path.format(rule)) for rule in ("nope", "1"))
        assert (unknown.status_code, unknown.json()["got"]) == (404, "no rule has the name 'nope'")
        assert (paused.status_code, paused.json()["got"]) == (404, "rule 1 is not in force")


def test_versions_say_when_in_words_like_everything_else(call: Client) -> None:
    call("POST", "/v1/rules", json=FLOOR)
    [version] = call("GET", "/v1/versions").json()["versions"]
    assert datetime.fromisoformat(version["at"]).utcoffset() == timedelta(0)


def test_events_behind_the_last_one_say_where_that_is(call: Client) -> None:
    page = call("GET", "/v1/events?after=999").json()
    assert (page["events"], page["next"], page["last"]) == ([], 999, 0)
