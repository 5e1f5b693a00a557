"""Pictures of events, for notebooks and reports: events over time, and one rule with the values that it watches.

They need matplotlib: `pip install 'fencepost[plot]'`. Both return a matplotlib `Figure`; `figure.savefig("alerts.png")`
writes it.
"""

import io
import textwrap
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fencepost._text import count, name_kind, printable
from fencepost.errors import FencepostError
from fencepost.language import Binder, BoundBox, Condition, parse
from fencepost.ordinals import AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rules
from fencepost.rules.damping import Damping
from fencepost.rules.options import fields_of
from fencepost.rules.rule import Rule
from fencepost.rules.stays import parse_stay
from fencepost.snapshot import DETECTS, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["events", "rule"]


def __dir__() -> list[str]:
    return sorted(__all__)


# Colours that people with any colour vision can tell apart (Okabe and Ito).
_COLOURS = {"enter": "#009e73", "exit": "#d55e00", "cross": "#cc79a7", "inside": "#56b4e9", "silent": "#999999"}
_MARKERS = {"enter": "^", "exit": "v", "cross": "X", "inside": ".", "silent": "s"}
_LINES = ("#444444", "#0072b2", "#8a6d00", "#7a4fb5")
_PHASES = {"pending": "#e69f00", "firing": "#0072b2", "ending": "#56b4e9"}
"""What damping does with an object: inside and not reported yet; inside and reported; outside and still reported."""
_BAND = "#f0e442"
_GREY = "#888888"

_BINS = 60
_RULES = 12
_OVER_TIME, _BAR = 2.6, 0.24
"""Inches of height: of events over time, and of a rule."""
_OBJECTS = 3
_ATTRIBUTES = 3
_POINTS = 400
"""Up to so many rows of an object are drawn as dots, too."""


def events(events: Any, *, rules: int = _RULES, title: str | None = None) -> "Figure":
    """Draws events over time, by kind, and the rules with the most of them.

    Args:
        events: an event table, as `Monitor.update` returns it, or a list of events.
        rules: how many rules to show.
        title: in place of the count of events.
    """
    table = _event_table(events)
    bars = max(1, min(rules, pc.count_distinct(table["rule_id"]).as_py())) * _BAR
    figure: Any = _picture_class()(figsize=(9, _OVER_TIME + bars + 1.6), layout="constrained")
    over_time, by_rule = figure.subplots(2, 1, height_ratios=[_OVER_TIME, bars])
    figure.suptitle(title or count(table.num_rows, "event"), x=0.01, ha="left", weight="bold")
    kinds = [kind for kind in DETECTS if pc.any(pc.equal(table["detect"], kind)).as_py()]
    _draw_over_time(over_time, table, kinds)
    _draw_by_rule(by_rule, table, kinds, rules)
    drawn: Figure = figure
    return drawn


def _draw_over_time(axes: Any, table: Any, kinds: Sequence[str]) -> None:
    _tidy(axes, "events over time")
    table = table.filter(pc.is_valid(table["time"]))
    if not table.num_rows:
        axes.text(0.5, 0.5, "no events", transform=axes.transAxes, ha="center", color=_GREY)
        return
    times = _to_axis(table["time"])
    numbers = times.astype(np.int64) if times.dtype.kind == "M" else times
    edges = np.linspace(float(numbers.min()), float(numbers.max()), _BINS + 1)
    if edges[0] == edges[-1]:
        edges = np.array([edges[0] - 0.5, edges[0] + 0.5])
    of_kind = np.asarray(table["detect"])
    bottom = np.zeros(len(edges) - 1)
    starts = edges[:-1].astype(np.int64).astype(times.dtype) if times.dtype.kind == "M" else edges[:-1]
    widths = np.diff(edges)
    width = widths[0].astype("m8[us]") if times.dtype.kind == "M" else widths[0]
    for kind in kinds:
        heights = np.histogram(numbers[of_kind == kind], edges)[0]
        axes.bar(starts, heights, width, bottom, align="edge", color=_COLOURS[kind], label=kind)
        bottom += heights
    _label_time(axes, table["time"].type)
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1.02), ncols=4, frameon=False, handlelength=1, borderaxespad=0)
    axes.set_ylim(0, bottom.max() * 1.25)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _draw_by_rule(axes: Any, table: Any, kinds: Sequence[str], most: int) -> None:
    _tidy(axes, "rules with the most events", grid="x")
    counted = table.group_by(["rule_id"]).aggregate([("detect", "count")])
    counted = counted.sort_by([("detect_count", "descending"), ("rule_id", "ascending")])
    ids = counted["rule_id"].to_pylist()[:most]
    left = np.zeros(len(ids))
    for kind in kinds:
        own = table.filter(pc.equal(table["detect"], kind)).group_by(["rule_id"]).aggregate([("detect", "count")])
        found = dict(zip(own["rule_id"].to_pylist(), own["detect_count"].to_pylist(), strict=True))
        lengths = np.array([found.get(id, 0) for id in ids], np.float64)
        axes.barh(range(len(ids)), lengths, left=left, color=_COLOURS[kind], height=0.75)
        left += lengths
    names = _names_of(table)
    axes.set_yticks(range(len(ids)), [printable(names.get(id, f"rule {id}")) for id in ids])
    axes.set_ylim(-0.5, max(1, len(ids)) - 0.5)
    axes.invert_yaxis()
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    hidden = counted.num_rows - len(ids)
    if hidden > 0:
        axes.set_xlabel(f"and {count(hidden, 'rule')} more", loc="right", color=_GREY, fontsize=9)


def _names_of(table: Any) -> dict[int, str]:
    """The names of rules, where events have them."""
    if "name" not in table.column_names:
        return {}
    pairs = zip(table["rule_id"].to_pylist(), table["name"].to_pylist(), strict=True)
    return {id: _shorten(name, 28) for id, name in pairs if isinstance(name, str)}


def _shorten(text: str, width: int) -> str:
    """A text that is not wider."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def rule(
    events: Any,
    rows: Any,
    rule: Rule,
    *,
    object: str | None = None,
    time: str | None = None,
    objects: Sequence[Any] | None = None,
    episode: int | None = None,
    title: str | None = None,
) -> "Figure":
    """Draws the values that a rule watches over time, the ranges in which it holds, and its events.

    Of a damped rule values are drawn as steps, since they hold between rows, and bands of colour say when the first
    object is pending, firing and ending.

    Args:
        events: an event table, as `Monitor.update` returns it, or a list of events.
        rows: the rows that they come from: a table, or records.
        rule: the rule, such as `rules[7]` or `monitor.rules[7]`.
        object: the column of `rows` that names the object; without it, the one that has the objects of the events.
        time: the column of event time, likewise.
        objects: which objects to draw; without it, those that the rule has most events of, of a damped rule one. If it
            has no events, those with the most rows.
        episode: draw only this one of the first object's enters, counted from 0, with its exit and some time around.
        title: in place of the rule's number and condition.
    """
    if not isinstance(rule, Rule):
        raise FencepostError(f"{name_kind(rule)} as rule", "a Rule", "Pass for example rules[7].")
    table, given = _event_table(events), Table(rows)
    table = table.filter(pc.equal(table["rule_id"], rule.id))
    shape = _find_shape(rule, given)
    object, time = _find_columns(given, table, object, time)
    damped = Damping.of(rule) is not None
    times, names = given.arrow(time), given.arrow(object)
    most = table["object"] if table.num_rows else names.drop_null()  # a rule may only have waited
    chosen = list(objects) if objects is not None else _most_frequent(most, 1 if damped else _OBJECTS)
    drawn_times = None if episode is None else _find_episode(table, chosen, episode, times)
    phases = _find_phases(given, shape, table, (names, times), chosen[0]) if damped and chosen else []
    figure: Any = _picture_class()(figsize=(9, 1.4 + 3.1 * len(shape.attributes)), layout="constrained")
    waits = f"; {Damping.of(rule)}" if damped else ""
    caption = title or f"rule {rule.id}{f' ({rule.name})' if rule.name else ''}: {rule.condition}{waits}"
    figure.suptitle("\n".join(textwrap.wrap(printable(caption), 92)[:3]), x=0.01, ha="left", weight="bold")
    panels = np.atleast_1d(figure.subplots(len(shape.attributes), 1, sharex=True)).tolist()
    for axes, attribute in zip(panels, shape.attributes, strict=True):
        _tidy(axes, "")
        axes.set_ylabel(attribute)
        for place, one in enumerate(chosen):
            mine = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, pa.scalar(one, names.type)), False)))
            colour = _LINES[place % len(_LINES)]
            _draw_values(axes, times, given.arrow(attribute), mine, colour, printable(str(one)), steps=damped)
        if table.num_rows:
            mine = pc.is_in(table["object"], pa.array(chosen, table["object"].type))
            _draw_events(axes, table.filter(mine), attribute)
        if drawn_times is not None:
            _limit_times(axes, *drawn_times)
        _draw_ranges(axes, shape, attribute)
        _draw_phases(axes, phases)
    look = {"ncols": 8 if damped else 6, "frameon": False, "handlelength": 1.4, "columnspacing": 1.4}
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1.0), **look)
    _label_time(panels[-1], times.type)
    drawn: Figure = figure
    return drawn


class _Shape(NamedTuple):
    """What a rule asks of rows: boxes over columns that have types."""

    boxes: tuple[BoundBox, ...]
    stay: tuple[BoundBox, ...]
    """The wider ones that are left; none where they are the same."""
    types: Mapping[str, AttributeType]
    attributes: list[str]
    """Those that are drawn."""


def _find_shape(rule: Rule, rows: Table) -> _Shape:
    parsed = parse(str(rule.condition))
    if not isinstance(parsed, Condition):
        raise FencepostError(f"rule {rule.id}, a band", "a rule about one stream", "Draw its events with plot.events.")
    stay_columns = {} if rule.stay is None else parse_stay(rule.stay, "UTC").columns
    used_columns = {**stay_columns, **parsed.columns}
    known = {name: rows.arrow(name).type for name in rows.names if _is_used(name, used_columns)}
    types = read_schema(known).types
    bound = Binder(types).bind(parsed)
    boxes = bound.boxes
    if bound.computed or any(box.strings for box in boxes):
        raise _more_than_ranges(rule)
    stay = _find_stay(rule, types)
    used = list(dict.fromkeys(name for box in (*boxes, *stay) for name, _, _ in box.ranges))
    attributes = {name: type_ for name in used if isinstance(type_ := types[name], AttributeType)}
    if not attributes:
        raise FencepostError(f"rule {rule.id} has no range", "a rule with a range", "Draw its events with plot.events.")
    return _Shape(boxes, stay, attributes, list(attributes)[:_ATTRIBUTES])


def _more_than_ranges(rule: Rule) -> FencepostError:
    return FencepostError(
        f"rule {rule.id}, which asks for more than ranges of columns",
        "a rule about columns of numbers and times",
        "Draw its events with plot.events.",
    )


def _find_stay(rule: Rule, types: Mapping[str, Any]) -> tuple[BoundBox, ...]:
    """The boxes that objects stay in, of `stay` or `margin`."""
    if rule.stay is None and rule.margin is None:
        return ()
    alone = Rules.from_dicts([{**fields_of(rule), "enabled": True}])
    wider = alone.compile(dict(types)).stay
    assert wider is not None, "the rule has one"
    if wider.computed:
        raise _more_than_ranges(rule)
    return tuple(
        BoundBox(tuple((name, *ends) for name, ends in ranges.items()), tuple(keys.items()))
        for keys, ranges in wider.boxes_of(0)
    )


def _is_used(name: str, columns: Mapping[str, Any]) -> bool:
    return name.lower() in columns or '"' + name.replace('"', '""') + '"' in columns


def _find_columns(rows: Table, events: Any, object: str | None, time: str | None) -> tuple[str, str]:
    """The columns of the rows that name the object and its time: those in which the events find theirs, together."""
    objects = [object] if object is not None else _candidates(rows, events["object"])
    moved = _caused_by_rows(events)
    times = [time] if time is not None else _candidates(rows, _since_of(moved))
    pairs = [(one, other) for one in objects for other in times if one != other]
    if len(pairs) > 1:
        asked = {*zip(moved["object"].to_pylist(), _since_of(moved).to_pylist(), strict=True)}
        pairs = [
            pair for pair in pairs if asked <= {*zip(*(rows.arrow(each).to_pylist() for each in pair), strict=True)}
        ]
    if len(pairs) == 1:
        return pairs[0]
    shown = " or ".join(f"{one} and {other}" for one, other in pairs) or "no columns"
    got = f"rows in which {shown} may be object and time"
    raise FencepostError(got, "two columns with the values that events have", "Pass object= and time=, their names.")


def _caused_by_rows(events: Any) -> Any:
    """The events that a row has caused, then or by what it began; all of them where there are none."""
    if "reason" not in events.column_names:
        return events
    caused = pc.is_null(events["reason"])
    if "since" in events.column_names:
        caused = pc.or_(caused, pc.is_valid(events["since"]))
    found = events.filter(caused)
    return found if found.num_rows else events


def _candidates(rows: Table, values: Any) -> list[str]:
    """The columns that have all of these values."""
    wanted, found = values.unique(), []
    for name in rows.names:
        try:
            if len(wanted) and pc.all(pc.is_in(wanted, rows.arrow(name).cast(wanted.type))).as_py():
                found.append(name)
        except (pa.ArrowException, TypeError, FencepostError):
            continue
    return found


def _most_frequent(objects: Any, most: int) -> list[Any]:
    counted = sorted(objects.value_counts().to_pylist(), key=lambda each: (-each["counts"], str(each["values"])))
    return [each["values"] for each in counted[:most]]


def _draw_values(axes: Any, times: Any, values: Any, rows: Any, colour: str, label: str, *, steps: bool) -> None:
    chosen = pa.array(rows)
    at, of = _to_axis(times.take(chosen)), _to_axis(values.take(chosen))
    order = np.argsort(at, kind="stable")
    style: dict[str, Any] = {"drawstyle": "steps-post"} if steps else {}
    if len(rows) <= _POINTS:
        style |= {"marker": "o", "ms": 2.2}
    axes.plot(at[order], of[order], color=colour, lw=0.9, alpha=0.85, label=label, zorder=2, **style)


# -- damping -----------------------------------------------------------------------------------------------


class _Phase(NamedTuple):
    """A time in which damping does the same thing with an object."""

    name: str
    begin: Any
    end: Any


def _find_episode(events: Any, objects: Sequence[Any], episode: int, times: Any) -> tuple[Any, Any]:
    """When an episode begins, with what it waited for, and when it ends, and a part of that time around it."""
    mine = (
        events.filter(pc.equal(events["object"], pa.scalar(objects[0], events["object"].type))) if objects else events
    )
    kinds = mine["detect"].to_pylist()
    at, since = _to_axis(mine["time"]), _to_axis(_since_of(mine))
    enters = [place for place, kind in enumerate(kinds) if kind == "enter"]
    if not 0 <= episode < len(enters):
        raise FencepostError(
            f"episode {episode} of {count(len(enters), 'enter')}", "one of them, counted from 0", "Correct the number."
        )
    begin = since[enters[episode]]
    exits = [place for place in range(enters[episode], len(kinds)) if kinds[place] == "exit"]
    end = at[exits[0]] if exits else _to_axis(times).max()
    around = (end - begin) * 2 // 5 if at.dtype.kind == "M" else (end - begin) * 0.4
    return begin - around, end + around


def _since_of(events: Any) -> Any:
    """Since when it was so that events report: their own time where they did not wait."""
    if "since" not in events.column_names or pa.types.is_null(events["since"].type):
        return events["time"]
    return pc.coalesce(events["since"], events["time"])


def _find_phases(rows: Table, shape: _Shape, events: Any, columns: tuple[Any, Any], object: Any) -> list[_Phase]:
    """What damping does with an object from its first row to its last, or to a later event."""
    names, times = columns
    mine = pa.array(np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, pa.scalar(object, names.type)), False))))
    at = _to_axis(times.take(mine))
    order = np.argsort(at, kind="stable")
    held, stays = (
        _find_held(boxes, rows, shape.types, mine.take(pa.array(order))) for boxes in (shape.boxes, shape.stay)
    )
    shown = events
    if events.num_rows:  # else its objects may have another type
        shown = events.filter(pc.equal(events["object"], pa.scalar(object, events["object"].type)))
    shown = shown.filter(pc.is_in(shown["detect"], pa.array(["enter", "exit"])))
    happened = list(zip(_to_axis(shown["time"]), shown["detect"].to_pylist(), strict=True))
    # Rows say what is inside, events what is reported; at one instant the row is first.
    moments: list[tuple[Any, int, Any]] = [(at[place], 0, place) for place in order]
    moments = sorted([*moments, *((time, 1, kind) for time, kind in happened)], key=lambda each: each[:2])
    is_raw = is_reported = False
    seen, phases = -1, list[_Phase]()
    for (time, is_event, what), (until, *_) in zip(moments, [*moments[1:], moments[-1]], strict=True):
        if is_event:
            is_reported = what == "enter"
        else:
            seen += 1
            is_raw = bool(held[seen] or (is_raw and stays[seen]))
        name = {(True, False): "pending", (True, True): "firing", (False, True): "ending"}.get((is_raw, is_reported))
        if name is not None and until > time:
            if phases and phases[-1].name == name and phases[-1].end == time:
                phases[-1] = phases[-1]._replace(end=until)
            else:
                phases.append(_Phase(name, time, until))
    return phases


def _find_held(
    boxes: tuple[BoundBox, ...], rows: Table, types: Mapping[str, AttributeType], chosen: Any
) -> npt.NDArray[np.bool_]:
    """At which of the chosen rows of one object any of some boxes holds; what is missing keeps its last value."""
    found = np.zeros(len(chosen), np.bool_)
    for box in boxes:
        holds = np.ones(len(chosen), np.bool_)
        for name, text in box.keys:
            values = pc.fill_null_forward(rows.arrow(name).take(chosen))
            holds &= np.asarray(pc.fill_null(pc.equal(values.cast(pa.string()), text), False))
        for name, first, last in box.ranges:
            ordinals, known = types[name].encode(rows.arrow(name).take(chosen), name)
            valid = np.ones(len(chosen), np.bool_) if known is None else known
            place = np.maximum.accumulate(np.where(valid, np.arange(len(chosen)), -1))
            values = np.asarray(ordinals)[np.maximum(place, 0)]
            holds &= (place >= 0) & (first <= values) & (values <= last)
        found |= holds
    return found


def _draw_phases(axes: Any, phases: Sequence[_Phase]) -> None:
    """Shade the times, and mark them at the bottom, where no range is behind the colour."""
    low, high = axes.get_xlim()
    named: set[str] = set()
    for name, begin, end in phases:
        first, last = (float(axes.convert_xunits(each)) for each in (begin, end))
        if last < low or first > high:
            continue
        axes.axvspan(first, last, color=_PHASES[name], alpha=0.13, lw=0, zorder=0.5)
        label = name if name not in named else "_"
        axes.axvspan(first, last, 0, 0.03, color=_PHASES[name], alpha=0.95, lw=0, label=label, zorder=3)
        named.add(name)
    axes.set_xlim(low, high)


def _limit_times(axes: Any, begin: Any, end: Any) -> None:
    """Show only a part of the time, and the values in it."""
    low, high = (float(axes.convert_xunits(each)) for each in (begin, end))
    axes.set_xlim(low, high)
    shown = []
    for line in axes.lines:
        at, of = (np.asarray(line.get_data(orig=False)[place], np.float64) for place in (0, 1))
        inside = np.flatnonzero((low <= at) & (at <= high))
        first = max(0, int(inside[0]) - 1) if len(inside) else 0
        shown += [of[first : int(inside[-1]) + 1]] if len(inside) else []
    values = np.concatenate(shown) if shown else np.zeros(0)
    values = values[np.isfinite(values)]
    if len(values):
        margin = 0.08 * float(np.ptp(values)) or 1.0
        axes.set_ylim(float(values.min()) - margin, float(values.max()) + margin)


def _draw_events(axes: Any, table: Any, attribute: str) -> None:
    for kind in DETECTS:
        own = table.filter(pc.equal(table["detect"], kind))
        if own.num_rows:
            at, of = _to_axis(own["time"]), _to_axis(own[attribute])
            colour, marker = _COLOURS[kind], _MARKERS[kind]
            axes.scatter(at, of, s=46, marker=marker, color=colour, ec="white", lw=0.6, label=kind, zorder=4)


def _draw_ranges(axes: Any, shape: _Shape, attribute: str) -> None:
    """Shade the ranges; one without an end reaches to the edge of what is drawn."""
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top)
    type_ = shape.types[attribute]
    smallest, largest = type_.limits
    for boxes, label, line in ((shape.boxes, "in range", "-"), (shape.stay, "stay", "--")):
        for first, last in dict.fromkeys(
            (first, last) for box in boxes for name, first, last in box.ranges if name == attribute
        ):
            low, high = (_place_of(axes, type_, ordinal) for ordinal in (first, last))
            low, high = bottom if first == smallest else low, top if last == largest else high
            if low > top or high < bottom:
                continue  # no value that is drawn comes near it
            axes.axhspan(low, high, color=_BAND, alpha=0.22 if line == "-" else 0.1, lw=0, label=label, zorder=0)
            for ordinal, limit, end in ((first, smallest, low), (last, largest, high)):
                if ordinal != limit:
                    axes.axhline(end, color="#b8a800", lw=0.8, ls=line, zorder=1)
            label = "_"  # once in the legend


def _place_of(axes: Any, type_: AttributeType, ordinal: int) -> float:
    """Where a value is on the y axis; any place for one that has no end."""
    if ordinal in type_.limits:
        return 0.0
    return float(axes.convert_yunits(_to_axis(type_.decode(np.array([ordinal])))[0]))


def _event_table(events: Any) -> Any:
    """Events as an Arrow table with rule_id, detect, object and time."""
    if isinstance(events, (list, tuple)):
        events = pa.Table.from_pylist([each.asdict() if hasattr(each, "asdict") else each for each in events])
        if not events.num_rows:
            events = pa.table({"rule_id": pa.array([], pa.int64()), "detect": pa.array([], pa.string())})
            events = events.append_column("time", pa.array([], pa.int64()))
            return events.append_column("object", pa.array([], pa.string()))
    given = Table(events)
    missing = [name for name in ("rule_id", "detect", "time") if given.find(name) is None]
    if missing:
        raise FencepostError(
            f"a table without the column {missing[0]}", "a table of events", "Pass what Monitor.update returned."
        )
    return pa.table({name: given.arrow(name) for name in given.names})


def _to_axis(values: Any) -> npt.NDArray[Any]:
    """A column as matplotlib takes it: numbers, or instants without a zone."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return np.asarray(values.cast(pa.timestamp("us"))).astype("M8[us]")
    return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)


def _tidy(axes: Any, title: str, grid: str = "y") -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#e6e6e6", lw=0.8)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, loc="left", fontsize=10, color="#444444")


def _label_time(axes: Any, type_: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        if getattr(type_, "tz", None) is not None:
            axes.set_xlabel("UTC", loc="left", color=_GREY, fontsize=9)
    else:
        axes.set_xlabel("time", loc="left", color=_GREY, fontsize=9)


@cache
def _picture_class() -> "type[Figure]":
    """A Figure that notebooks show also where nobody imported pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FencepostError(
            "a plot without matplotlib", "matplotlib installed", "Install it: pip install 'fencepost[plot]'."
        ) from None

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            written = io.BytesIO()
            self.savefig(written, format="png", dpi=110)
            return written.getvalue()

    return Picture
