"""Charts as inline SVG, made here: no script draws them, and colours come from the stylesheet by class.

Shapes stretch to the width of the page; words stand beside them as HTML, so that they keep their size on a phone.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from fencepost.console.conditions import ReadBox
from fencepost.console.shown import show_number, show_rough, show_time
from fencepost.console.source import Histogram, Series
from fencepost.monitor.expressions import plain_end

_WIDTH, _HEIGHT = 600.0, 120.0
_MARGIN = 0.06
_LANES = 6


def sparkline(counts: Sequence[int], label: str) -> Markup:
    """Counts as small bars."""
    most = max(counts, default=0)
    if not most:
        return Markup('<span class="none">none</span>')
    bars = "".join(
        f'<rect x="{place}" y="{20 - max(1.5, 20 * number / most):.1f}" width="0.8" '
        f'height="{max(1.5, 20 * number / most):.1f}"/>'
        for place, number in enumerate(counts)
        if number
    )
    return Markup(  # noqa: S704 (numbers and an escaped label)
        f'<svg class="spark" viewBox="0 0 {len(counts)} 20" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><path class="ground" d="M0 19.6H{len(counts)}"/>{bars}</svg>'
    )


def lines(series: Series, unit: str, label: str) -> Markup:
    """Lines over time, each by its name; the first has its area filled."""
    top = _top(value for row in series.values.values() for value in row if value is not None)
    shapes = []
    for number, (name, row) in enumerate(series.values.items()):
        points = [
            (place * _WIDTH / max(1, len(row) - 1), _HEIGHT - _HEIGHT * value / top)
            for place, value in enumerate(row)
            if value is not None
        ]
        if not points:
            continue
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        if len(series.values) == 1:
            shapes.append(f'<path class="area s{number}" d="{path}V{_HEIGHT}H{points[0][0]:.1f}Z"/>')
        shapes.append(f'<path class="line s{number} {escape(name)}" d="{path}"/>')
    legend = [(f"s{number}", name) for number, name in enumerate(series.values)] if len(series.values) > 1 else []
    return _framed("".join(shapes), label, (f"{show_number(top)}{unit}", "0"), _ends(series.begin, series.end), legend)


def stacked(
    values: Mapping[str, Sequence[float | None]], begin: Any, end: Any, label: str, *, is_keyed: bool = True
) -> Markup:
    """Bars over time, the kinds of events on top of each other, with a key that says which is which."""
    if not values:
        return Markup("")
    bins = max(len(row) for row in values.values())
    totals = [sum(row[place] or 0 for row in values.values()) for place in range(bins)]
    top = _top(totals)
    width = _WIDTH / bins
    shapes = []
    for place in range(bins):
        base = _HEIGHT
        for kind, row in values.items():
            height = _HEIGHT * (row[place] or 0) / top
            if height:
                base -= height
                shapes.append(
                    f'<rect class="fill {escape(kind)}" x="{place * width + 0.6:.1f}" y="{base:.1f}" '
                    f'width="{width - 1.2:.1f}" height="{height:.1f}"/>'
                )
    legend = [(f"{kind} fill", kind) for kind in values] if is_keyed else []
    return _framed("".join(shapes), label, (show_number(top), "0"), _ends(begin, end), legend)


def histogram(found: Histogram) -> Markup:
    """Events over time by kind."""
    label = f"{found.total:,} events from {show_time(found.begin)} to {show_time(found.end)}"
    return stacked(found.counts, found.begin, found.end, label)


def pair_of_counts(old: Sequence[int], new: Sequence[int], begin: Any, end: Any) -> Markup:
    """Two histograms on one axis, the old one upward, the new one downward."""
    most = max(1, *old, *new)
    width = _WIDTH / max(1, len(new))
    half = _HEIGHT / 2
    shapes = [f'<path class="ground" d="M0 {half}H{_WIDTH}"/>']
    for name, row in (("old", old), ("new", new)):
        for place, number in enumerate(row):
            height = (half - 2) * number / most
            if number:
                y = half - height - 0.5 if name == "old" else half + 0.5
                shapes.append(
                    f'<rect class="{name} fill" x="{place * width + 0.6:.1f}" y="{y:.1f}" width="{width - 1.2:.1f}" '
                    f'height="{max(1.0, height):.1f}"/>'
                )
    label = f"Events over time: {sum(old):,} as it is, {sum(new):,} as edited"
    legend = [("old fill", "as it is, upward"), ("new fill", "as edited, downward")]
    return _framed("".join(shapes), label, (f"{most:,}", f"{most:,}"), _ends(begin, end), legend)


# -- conditions ----------------------------------------------------------------------------------------------


def axes(boxes: Sequence[ReadBox], values: Mapping[str, Sequence[Any]] | None = None) -> Markup:
    """The ranges of a condition, an axis for each column; two columns make a plane."""
    names = list(dict.fromkeys(name for box in boxes for name in box.ranges))
    names.sort(key=_goes_up)
    if len(names) == 2 and all(_is_number(end) for box in boxes for ends in box.ranges.values() for end in ends):
        return _plane(boxes, names, values or {})
    return Markup("").join(_axis(name, boxes, (values or {}).get(name, ())) for name in names)


def _goes_up(name: str) -> bool:
    """Whether a column is one that maps have upward."""
    return name.lower().endswith(("lat", "latitude", "northing"))


def _axis(name: str, boxes: Sequence[ReadBox], values: Sequence[Any]) -> Markup:
    """The ranges of one column, in lanes where there are several."""
    own = [box.ranges[name] for box in boxes if name in box.ranges]
    spans = list(dict.fromkeys(own))[:_LANES]
    scale = _Scale([end for span in spans for end in span if end is not None] + [v for v in values if v is not None])
    height = 14.0 * len(spans) + 14
    shapes = [f'<path class="ground" d="M0 {height - 6}H{_WIDTH}"/>']
    for lane, (low, high) in enumerate(spans):
        left = 0.0 if low is None else scale.at(low)
        right = _WIDTH if high is None else scale.at(high)
        shapes.append(
            f'<rect class="range" x="{left:.1f}" y="{14 * lane + 2}" width="{max(2.0, right - left):.1f}" height="10" '
            'rx="2"/>'
        )
    for value in values:
        if value is not None:
            at = scale.at(value)
            shapes.append(f'<path class="tick" d="M{at:.1f} {height - 12}V{height}"/>')
    words = " or ".join(show_span(*span) for span in spans)
    label = f"{name}: {words}"
    more = f" and {len(set(own)) - len(spans):,} more" if len(set(own)) > len(spans) else ""
    return Markup(  # noqa: S704 (numbers and escaped words)
        f'<figure class="axis"><figcaption><b>{escape(name)}</b> {escape(words)}{more}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH:.0f} {height:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}" height="{height:.0f}">{"".join(shapes)}</svg>'
        f'<div class="ends"><span>{escape(scale.first)}</span><span>{escape(scale.last)}</span></div></figure>'
    )


def _plane(boxes: Sequence[ReadBox], names: Sequence[str], values: Mapping[str, Sequence[Any]]) -> Markup:
    """Boxes over two columns, and points or the way of an object."""
    side = 240.0
    across, up = (
        _Scale(
            [end for box in boxes for end in box.ranges.get(name, ()) if end is not None]
            + [value for value in values.get(name, ()) if value is not None],
            side,
        )
        for name in names
    )
    shapes = []
    for box in boxes[:200]:
        (left, right), (low, high) = (box.ranges.get(name, (None, None)) for name in names)
        x0, x1 = (0.0 if left is None else across.at(left)), (side if right is None else across.at(right))
        y0, y1 = (0.0 if low is None else up.at(low)), (side if high is None else up.at(high))
        shapes.append(
            f'<rect class="range" x="{x0:.1f}" y="{side - y1:.1f}" width="{max(2.0, x1 - x0):.1f}" '
            f'height="{max(2.0, y1 - y0):.1f}"/>'
        )
    points = [
        (across.at(x), side - up.at(y))
        for x, y in zip(*(values.get(name, ()) for name in names), strict=False)
        if x is not None and y is not None
    ]
    if points:
        way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        x, y = points[-1]
        shapes.append(f'<path class="line s0" d="M{way}"/><circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    words = " and ".join(
        f"{name} from {scale.first} to {scale.last}" for name, scale in zip(names, (across, up), strict=True)
    )
    return Markup(  # noqa: S704 (numbers and escaped words)
        f'<figure class="plane"><svg viewBox="0 0 {side:.0f} {side:.0f}" role="img" '
        f'aria-label="{escape(f"A plane of {words}")}"><rect class="sheet" width="{side:.0f}" height="{side:.0f}"/>'
        f"{''.join(shapes)}</svg>"
        f"<figcaption><b>{escape(names[0])}</b> {escape(across.first)} to {escape(across.last)} from left to right, "
        f"<b>{escape(names[1])}</b> {escape(up.first)} to {escape(up.last)} upward</figcaption></figure>"
    )


def trail(
    name: str,
    times: Sequence[Any],
    values: Sequence[Any],
    ranges: Sequence[tuple[str, Any, Any]],
    marks: Sequence[tuple[Any, str]] = (),
) -> Markup:
    """The values of an object over time, the ranges of rules behind them, and marks where events were."""
    known = [(place, float(value)) for place, value in enumerate(values) if _is_number(value) and value is not None]
    if not known:
        return Markup("")
    plain = [value for _, value in known]
    low, high = min(plain), max(plain)
    reach = (high - low) or abs(high) * 0.01 or 1.0
    # The bounds that matter are near: one that is far away would press the values into a line.
    near = [
        end
        for _, *ends in ranges
        for end in ends
        if end is not None and low - 2 * reach < float(end) < high + 2 * reach
    ]
    scale = _Scale([*plain, *map(float, near)], _HEIGHT)
    shapes = []
    for number, (_, first, last) in enumerate(ranges):
        top = 0.0 if last is None else max(0.0, _HEIGHT - scale.at(float(last)))
        bottom = _HEIGHT if first is None else min(_HEIGHT, _HEIGHT - scale.at(float(first)))
        if bottom > 0 and top < _HEIGHT:
            shapes.append(
                f'<rect class="band b{number % 4}" x="0" y="{top:.1f}" width="{_WIDTH}" '
                f'height="{max(1.5, bottom - top):.1f}"/>'
            )
    step = _WIDTH / max(1, len(values) - 1)
    shapes.append(
        '<path class="line s0" d="M'
        + "L".join(f"{place * step:.1f} {_HEIGHT - scale.at(value):.1f}" for place, value in known)
        + '"/>'
    )
    at = _instants(times)
    for when, kind in marks:
        place = _place_of(at, when)
        if place is not None:
            shapes.append(f'<path class="mark {escape(kind)}" d="M{place * step:.1f} 0V{_HEIGHT}"/>')
    label = f"{name} from {show_number(low)} to {show_number(high)}, at the end {show_number(plain[-1])}"
    legend = [(f"b{number % 4} band", words) for number, (words, *_) in enumerate(ranges)]
    ends = (show_time(times[0]), show_time(times[-1]))
    return _framed("".join(shapes), label, (scale.last, scale.first), ends, legend)


# -- helpers -------------------------------------------------------------------------------------------------


class _Scale:
    """Values of a column to places on an axis, with some room at both ends."""

    def __init__(self, values: Sequence[Any], length: float = _WIDTH) -> None:
        numbers = [_number(value) for value in values]
        low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
        room = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
        self._low, self._high, self._length = low - room, high + room, length
        sample = next((value for value in values if value is not None), 0.0)
        self.first, self.last = (_shown_like(sample, end) for end in (self._low, self._high))

    def at(self, value: Any) -> float:
        """Where a value lies."""
        share = (_number(value) - self._low) / (self._high - self._low)
        return self._length * min(1.0, max(0.0, share))


def _number(value: Any) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, date):
        return float(value.toordinal())
    return float(value)


def _shown_like(sample: Any, number: float) -> str:
    if isinstance(sample, datetime):
        return show_time(datetime.fromtimestamp(number, sample.tzinfo))
    if isinstance(sample, date):
        return date.fromordinal(max(1, round(number))).isoformat()
    return show_rough(number)


def _is_number(value: Any) -> bool:
    return value is None or (not isinstance(value, (str, datetime, date, bool)))


def show_span(low: Any, high: Any) -> str:
    """A range in words, by its smallest and its largest value; None where it is unbounded.

    >>> show_span(40, 50), show_span(40.00000000000001, None), show_span(5e-324, 39.99999999999999)
    ('40 to 50', 'above 40', 'above 0 and below 40')
    """
    (first, is_above), (last, is_below) = plain_end(low, -math.inf), plain_end(high, math.inf)
    if low is None and high is None:
        return "any value"
    if low is not None and low == high:
        return show_value(low)
    above, below = (f"above {show_value(first)}", f"below {show_value(last)}")
    if low is None:
        return below if is_below else f"up to {show_value(last)}"
    if high is None:
        return above if is_above else f"from {show_value(first)} on"
    if not (is_above or is_below):
        return f"{show_value(first)} to {show_value(last)}"
    return (
        f"{above if is_above else f'from {show_value(first)}'} and {below if is_below else f'up to {show_value(last)}'}"
    )


def show_value(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, datetime):
        return show_time(value)
    return show_number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)


def _top(values: Any) -> float:
    most = max(values, default=0.0)
    if most <= 0:
        return 1.0
    base = 10.0 ** np.floor(np.log10(most))
    return float(next(step * base for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * base >= most * 0.999))


def _ends(begin: Any, end: Any) -> tuple[str, str]:
    return show_time(begin), show_time(end)


def _instants(times: Sequence[Any]) -> Any:
    return [time.timestamp() if isinstance(time, datetime) else time for time in times]


def _place_of(times: Sequence[Any], when: Any) -> int | None:
    """The row of a time; None where it is not among them."""
    wanted = when.timestamp() if isinstance(when, datetime) else when
    try:
        if not times[0] <= wanted <= times[-1]:
            return None
        return int(np.searchsorted(np.array(times, dtype=float), wanted))
    except (TypeError, ValueError):
        return None


def _framed(
    shapes: str, label: str, sides: tuple[str, str], ends: tuple[str, str], legend: Sequence[tuple[str, str]]
) -> Markup:
    keys = "".join(f'<li><i class="key {escape(style)}"></i>{escape(words)}</li>' for style, words in legend)
    return Markup(  # noqa: S704 (numbers and escaped words)
        f'<figure class="chart"><div class="sides"><span>{escape(sides[0])}</span><span>{escape(sides[1])}</span></div>'
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><path class="grid" d="M0 0.5H{_WIDTH}M0 {_HEIGHT / 2}H{_WIDTH}"/>'
        f'<path class="ground" d="M0 {_HEIGHT - 0.5}H{_WIDTH}"/>{shapes}</svg>'
        f'<div class="ends"><span>{escape(ends[0])}</span><span>{escape(ends[1])}</span></div>'
        + (f'<ul class="legend">{keys}</ul>' if keys else "")
        + "</figure>"
    )
