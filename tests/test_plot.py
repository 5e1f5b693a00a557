"""Pictures of events: what is drawn, and what is refused."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import fencepost as fp
from tests.monitor.examples import refusal

plot: Any = fp.plot
START = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = [
    {"symbol": symbol, "ts": START + timedelta(minutes=minute), "price": float(30 + 3 * (minute % 9)), "n": minute}
    for minute in range(40)
    for symbol in ("IBM", "HP")
]


def watched() -> tuple[fp.Rules, Any]:
    rules = fp.Rules()
    rules.add(7, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
    rules.add(8, "price < 35 OR price > 50", detect="enter")
    return rules, fp.Monitor(rules, object="symbol", time="ts").update(ROWS)


def test_events_are_drawn_by_kind_and_by_rule() -> None:
    _, events = watched()
    figure = plot.events(events)
    over_time, by_rule = figure.axes
    heights = sum(patch.get_height() for patch in over_time.patches)
    widths = sum(patch.get_width() for patch in by_rule.patches)
    assert heights == widths == events.num_rows
    assert [text.get_text() for text in over_time.get_legend().get_texts()] == ["enter", "exit"]
    assert [label.get_text() for label in by_rule.get_yticklabels()] == ["rule 8", "rule 7"]
    assert figure._repr_png_().startswith(b"\x89PNG")
    few = plot.events(events, rules=1, title="alerts")
    assert "1 rule more" in few.axes[1].get_xlabel()
    assert few._suptitle.get_text() == "alerts"


def test_the_bars_of_rules_are_as_high_for_one_rule_as_for_many() -> None:
    def drawn(number: int) -> tuple[float, list[str]]:
        rules = fp.Rules()
        for id in range(1, number + 1):
            rules.add(id, "price < 50", detect="enter", name=f"{id}" * 60)
        monitor = fp.Monitor(rules, object="symbol", time="ts", labels=True)
        figure = plot.events(monitor.update(ROWS))
        figure.canvas.draw()
        axes = figure.axes[1]
        inches = axes.get_window_extent().height / figure.dpi / (axes.get_ylim()[0] - axes.get_ylim()[1])
        return inches, [label.get_text() for label in axes.get_yticklabels()]

    (one, [name]), (many, names) = drawn(1), drawn(12)
    assert len(name) == 28, "a long name leaves room for the bars"
    assert one == pytest.approx(many, rel=0.35)
    assert many > 0.18, "two labels of rules do not touch"
    assert len(names) == 12


def test_events_may_be_a_list_or_none_at_all() -> None:
    monitor = fp.Monitor(watched()[0], object="symbol", time="ts")
    single = [event for row in ROWS for event in monitor.update_one(row["symbol"], row["ts"], price=row["price"])]
    assert plot.events(single)._suptitle.get_text() == f"{len(single)} events"
    assert plot.events([]).axes[0].texts[0].get_text() == "no events"
    one = plot.events(single[:1])
    assert sum(patch.get_height() for patch in one.axes[0].patches) == 1


def test_a_rule_is_drawn_with_its_values_ranges_and_events() -> None:
    rules, events = watched()
    figure = plot.rule(events, ROWS, rules[7])
    [axes] = figure.axes
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["IBM", "enter", "exit", "in range"]
    assert {line.get_ydata()[0] for line in axes.lines[1:]} == {40.0, 50.0}
    marked = sum(len(points.get_offsets()) for points in axes.collections)
    assert marked == sum(1 for event in events.to_pylist() if event["rule_id"] == 7)
    assert "rule 7: symbol = 'IBM'" in figure._suptitle.get_text()
    both = plot.rule(events, ROWS, rules[8], objects=["HP"])
    assert [line.get_ydata()[0] for line in both.axes[0].lines[1:]] == pytest.approx([35.0, 50.0])


def test_a_rule_over_several_attributes_has_a_panel_for_each() -> None:
    rules = fp.Rules()
    rules.add(1, "price > 40 AND n > 5", detect="enter,exit,inside")
    events = fp.Monitor(rules, object="symbol", time="ts").update(ROWS)
    figure = plot.rule(events, ROWS, rules[1])
    assert [axes.get_ylabel() for axes in figure.axes] == ["n", "price"]


def test_a_range_of_time_is_drawn_as_time() -> None:
    rules = fp.Rules()
    noon = START + timedelta(minutes=20)
    rules.add(1, f"seen >= TIMESTAMP '{noon:%Y-%m-%d %H:%M:%S}'", detect="enter")
    rows = [{**row, "seen": row["ts"]} for row in ROWS]
    events = fp.Monitor(rules, object="symbol", time="ts").update(rows)
    [axes] = plot.rule(events, rows, rules[1], object="symbol", time="ts").axes
    low, high = axes.get_ylim()
    assert low < axes.lines[-1].get_ydata()[0] < high


def test_columns_are_found_by_what_events_have_or_named() -> None:
    rules = fp.Rules()
    rules.add(1, "x > 4", detect="enter,exit")
    rows = {"id": [1, 2, 1, 2], "t": [10, 10, 20, 20], "x": [1.0, 9.0, 8.0, 2.0]}
    events = fp.Monitor(rules, object="id", time="t").update(rows)
    assert plot.rule(events, rows, rules[1]).axes
    twice = {**rows, "t2": rows["t"]}
    assert "id and t or id and t2 may be object and time" in refusal(lambda: plot.rule(events, twice, rules[1]))
    assert plot.rule(events, twice, rules[1], object="id", time="t2").axes
    assert "no columns may be" in refusal(lambda: plot.rule(events, {"x": [1.0]}, rules[1]))


def damped() -> tuple[fp.Rules, Any, list[dict[str, Any]]]:
    """A rule that waits: pending from 10 to 15 in vain, from 20 to 25, then until 40, and ending until 44."""
    rules = fp.Rules()
    rules.add(7, "price < 40", detect="enter,exit", for_="5 minutes", keep_firing_for="4 minutes", margin={"price": 1})
    values = [(0, 45.0), (10, 39.0), (13, 42.0), (20, 39.0), (23, 40.5), (30, 38.0), (40, 43.0), (60, 43.0), (90, 45.0)]
    rows = [{"symbol": "IBM", "ts": START + timedelta(minutes=minute), "price": value} for minute, value in values]
    return rules, fp.Monitor(rules, object="symbol", time="ts").update(rows), rows


def spans_of(axes: Any) -> dict[str, list[tuple[float, float]]]:
    """Where the bands of colour at the bottom are, in minutes."""
    from matplotlib.dates import date2num

    start, found = date2num(START.replace(tzinfo=None)), {}
    for name, colour in plot._PHASES.items():
        strips = [patch for patch in axes.patches if patch.get_alpha() == 0.95 and is_colour(patch, colour)]
        found[name] = [
            (round((strip.get_x() - start) * 1440, 6), round((strip.get_x() + strip.get_width() - start) * 1440, 6))
            for strip in strips
        ]
    return found


def is_colour(patch: Any, colour: str) -> bool:
    from matplotlib.colors import to_rgb

    return bool(patch.get_facecolor()[:3] == to_rgb(colour))


def test_a_damped_rule_is_drawn_with_what_is_pending_firing_and_ending() -> None:
    rules, events, rows = damped()
    figure = plot.rule(events, rows, rules[7])
    [axes] = figure.axes
    assert spans_of(axes) == {"pending": [(10, 13), (20, 25)], "firing": [(25, 40)], "ending": [(40, 44)]}
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["IBM", "enter", "exit", "in range", "stay", "pending", "firing", "ending"]
    assert [line.get_ydata()[0] for line in axes.lines[1:]] == pytest.approx([40.0, 41.0])
    assert "for 5 minutes; keep_firing_for 4 minutes; margin price 1" in figure._suptitle.get_text()


def test_one_episode_is_drawn_with_some_time_around() -> None:
    rules, events, rows = damped()
    [axes] = plot.rule(events, rows, rules[7], episode=0).axes
    from matplotlib.dates import date2num

    minutes = [round((x - date2num(START.replace(tzinfo=None))) * 1440, 3) for x in axes.get_xlim()]
    assert minutes == [20 - 9.6, 44 + 9.6]
    low, high = axes.get_ylim()
    assert 37 < low < 38
    assert 43 < high < 44
    assert "episode 1 of 1 enter" in refusal(lambda: plot.rule(events, rows, rules[7], episode=1)).lower()


def test_stay_over_another_column_is_drawn() -> None:
    rules = fp.Rules()
    rules.add(7, "price < 40", detect="enter,exit", stay="price < 40 OR volume > 5 AND venue = 'X'")
    values = [(0, 39.0, 3, "X"), (1, 45.0, 9, "X"), (2, 45.0, 9, "Y")]
    rows = [
        {"symbol": "IBM", "ts": START + timedelta(minutes=minute), "price": price, "volume": volume, "venue": venue}
        for minute, price, volume, venue in values
    ]
    events = fp.Monitor(rules, object="symbol", time="ts").update(rows)
    assert events["detect"].to_pylist() == ["enter", "exit"]
    panels = plot.rule(events, rows, rules[7]).axes
    assert [axes.get_ylabel() for axes in panels] == ["price", "volume"]
    assert spans_of(panels[0])["firing"] == [(0, 2)]
    rules.replace(7, "price < 40", stay="price < 40 OR price + volume < 50")
    assert "more than ranges of columns" in refusal(lambda: plot.rule(events, rows, rules[7]))


def test_a_rule_that_only_waited_is_drawn_for_the_object_with_the_most_rows() -> None:
    rules = fp.Rules()
    rules.add(7, "price < 40", detect="enter,exit", for_="1 hour")
    rows = [{"id": id, "ts": START + timedelta(minutes=id), "price": 39.0} for id in (4, 5, 5)]
    rows[2]["ts"] = START + timedelta(minutes=9)
    found: list[Any] = [[], fp.Monitor(rules, object="id", time="ts").update(rows)]
    for events in found:
        [axes] = plot.rule(events, rows, rules[7], object="id", time="ts").axes
        assert axes.get_legend().get_texts()[0].get_text() == "5"
        assert spans_of(axes)["pending"] == [(5, 9)]


def test_ranges_that_reach_further_than_a_double_is_exact_are_drawn() -> None:
    rules = fp.Rules()
    rules.add(7, "price * 2 < 80", detect="enter,exit")
    rows = [{"id": 1, "ts": START + timedelta(minutes=minute), "price": 45 - minute} for minute in range(9)]
    events = fp.Monitor(rules, object="id", time="ts", schema={"price": "bigint"}).update(rows)
    [axes] = plot.rule(events, rows, rules[7], object="id", time="ts").axes
    assert 39.0 in {line.get_ydata()[0] for line in axes.lines[1:]}
    assert axes.figure._repr_png_().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, events = watched()
    band, key = fp.Rules(), fp.Rules()
    band.add(7, "left.price - right.price > 3")
    key.add(7, "symbol = 'IBM'")
    assert "a band" in refusal(lambda: plot.rule(events, ROWS, band[7]))
    assert "no range" in refusal(lambda: plot.rule(events, ROWS, key[7]))
    assert "an int as rule" in refusal(lambda: plot.rule(events, ROWS, 7)).lower()
    assert "without the column rule_id" in refusal(lambda: plot.events({"x": [1]}))
    plot._picture_class.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'fencepost[plot]'" in refusal(lambda: plot.events(events))
