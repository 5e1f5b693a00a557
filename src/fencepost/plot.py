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

from fencepost._text import count, printable
from fencepost.errors import FencepostError
from fencepost.language import Binder, BoundBox, Condition, parse
from fencepost.ordinals import AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.rules.rule import Rule
from fencepost.snapshot import DETECTS, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["events", "rule"]

# Colours that people with any colour vision can tell apart (Okabe and Ito).
_COLOURS = {"enter": "#009e73", "exit": "#d55e00", "cross": "#cc79a7", "inside": "#56b4e9", "silent": "#999999"}
_MARKERS = {"enter": "^", "exit": "v", "cross": "X", "inside": ".", "silent": "s"}
_LINES = ("#444444", "#0072b2", "#8a6d00", "#7a4fb5")
_BAND = "#f0e442"
_GREY = "#888888"

_BINS = 60
_RULES = 12
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
    figure: Any = _picture_class()(figsize=(9, 5.4), layout="constrained")
    over_time, by_rule = figure.subplots(2, 1, height_ratios=[3, 2])
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
    title: str | None = None,
) -> "Figure":
    """Draws the values that a rule watches over time, the ranges in which it holds, and its events.

    Args:
        events: an event table, as `Monitor.update` returns it, or a list of events.
        rows: the rows that they come from: a table, or records.
        rule: the rule, such as `rules[7]` or `monitor.rules[7]`.
        object: the column of `rows` that names the object; without it, the one that has the objects of the events.
        time: the column of event time, likewise.
        objects: which objects to draw; without it, those that the rule has most events of.
        title: in place of the rule's number and condition.
    """
    if not isinstance(rule, Rule):
        raise FencepostError(f"a {type(rule).__name__} as rule", "a Rule", "Pass for example rules[7].")
    table, given = _event_table(events), Table(rows)
    table = table.filter(pc.equal(table["rule_id"], rule.id))
    shape = _find_shape(rule, given)
    object, time = _find_columns(given, table, object, time)
    chosen = list(objects) if objects is not None else _most_frequent(table["object"])
    times, names = given.arrow(time), given.arrow(object)
    figure: Any = _picture_class()(figsize=(9, 1.4 + 3.1 * len(shape.attributes)), layout="constrained")
    caption = title or f"rule {rule.id}{f' ({rule.name})' if rule.name else ''}: {rule.condition}"
    figure.suptitle("\n".join(textwrap.wrap(printable(caption), 92)[:3]), x=0.01, ha="left", weight="bold")
    panels = np.atleast_1d(figure.subplots(len(shape.attributes), 1, sharex=True)).tolist()
    for axes, attribute in zip(panels, shape.attributes, strict=True):
        _tidy(axes, "")
        axes.set_ylabel(attribute)
        for place, one in enumerate(chosen):
            mine = np.flatnonzero(np.asarray(pc.fill_null(pc.equal(names, pa.scalar(one, names.type)), False)))
            _draw_values(axes, times, given.arrow(attribute), mine, _LINES[place % len(_LINES)], printable(str(one)))
        _draw_events(axes, table.filter(pc.is_in(table["object"], pa.array(chosen, table["object"].type))), attribute)
        _draw_ranges(axes, shape, attribute)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=6, frameon=False, handlelength=1.4)
    _label_time(panels[-1], times.type)
    drawn: Figure = figure
    return drawn


class _Shape(NamedTuple):
    """What a rule asks of rows: boxes over columns that have types."""

    boxes: tuple[BoundBox, ...]
    types: Mapping[str, AttributeType]
    attributes: list[str]
    """Those that are drawn."""


def _find_shape(rule: Rule, rows: Table) -> _Shape:
    parsed = parse(str(rule.condition))
    if not isinstance(parsed, Condition):
        raise FencepostError(f"rule {rule.id}, a band", "a rule about one stream", "Draw its events with plot.events.")
    known = {name: rows.arrow(name).type for name in rows.names if _is_used(name, parsed.columns)}
    types = read_schema(known).types
    boxes = Binder(types).bind(parsed).boxes
    used = list(dict.fromkeys(name for box in boxes for name, _, _ in box.ranges))
    attributes = {name: type_ for name in used if isinstance(type_ := types[name], AttributeType)}
    if not attributes:
        raise FencepostError(
            f"rule {rule.id}, which has no range", "a rule with a range", "Draw its events with plot.events."
        )
    return _Shape(boxes, attributes, list(attributes)[:_ATTRIBUTES])


def _is_used(name: str, columns: Mapping[str, Any]) -> bool:
    return name.lower() in columns or '"' + name.replace('"', '""') + '"' in columns


def _find_columns(rows: Table, events: Any, object: str | None, time: str | None) -> tuple[str, str]:
    """The columns of the rows that name the object and its time: those in which the events find theirs, together."""
    objects = [object] if object is not None else _candidates(rows, events["object"])
    times = [time] if time is not None else _candidates(rows, events["time"])
    pairs = [(one, other) for one in objects for other in times if one != other]
    if len(pairs) > 1:
        moved = events.filter(pc.is_null(events["reason"])) if "reason" in events.column_names else events
        asked = {*zip(moved["object"].to_pylist(), moved["time"].to_pylist(), strict=True)}
        pairs = [
            pair for pair in pairs if asked <= {*zip(*(rows.arrow(each).to_pylist() for each in pair), strict=True)}
        ]
    if len(pairs) == 1:
        return pairs[0]
    shown = " or ".join(f"{one} and {other}" for one, other in pairs) or "no columns"
    got = f"rows in which {shown} may be object and time"
    raise FencepostError(got, "two columns with the values that events have", "Pass object= and time=, their names.")


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


def _most_frequent(objects: Any) -> list[Any]:
    counted = sorted(objects.value_counts().to_pylist(), key=lambda each: (-each["counts"], str(each["values"])))
    return [each["values"] for each in counted[:_OBJECTS]]


def _draw_values(axes: Any, times: Any, values: Any, rows: Any, colour: str, label: str) -> None:
    chosen = pa.array(rows)
    at, of = _to_axis(times.take(chosen)), _to_axis(values.take(chosen))
    order = np.argsort(at, kind="stable")
    marker = "o" if len(rows) <= _POINTS else None
    axes.plot(at[order], of[order], color=colour, lw=0.9, marker=marker, ms=2.2, alpha=0.85, label=label, zorder=2)


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
    type_, label = shape.types[attribute], "in range"
    smallest, largest = type_.limits
    for first, last in dict.fromkeys(
        (first, last) for box in shape.boxes for name, first, last in box.ranges if name == attribute
    ):
        low, high = (_place_of(axes, type_, ordinal) for ordinal in (first, last))
        low, high = bottom if first == smallest else low, top if last == largest else high
        if low > top or high < bottom:
            continue  # no value that is drawn comes near it
        axes.axhspan(low, high, color=_BAND, alpha=0.22, lw=0, label=label, zorder=0)
        for ordinal, limit, end in ((first, smallest, low), (last, largest, high)):
            if ordinal != limit:
                axes.axhline(end, color="#b8a800", lw=0.8, zorder=1)
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
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


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
