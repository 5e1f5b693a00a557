"""Draws a figure as SVG: one look for all, labels at the line ends, the claim and the verdict below."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencepost.errors import FencepostError
from fencepost.lab.reproduce.figure import Curve, Figure, Outcome, Panel

OURS = "#b5331a"
COLOURS = {
    "UI": "#8c8c8c",
    "SCI": "#a3835b",
    "LCI": "#5b8c6e",
    "CEI": "#33608c",
    "ACEI": "#7a5c99",
    "IS-list": "#b08a2e",
    "Dlist": "#8c8c8c",
    "VCR": "#33608c",
    "R-tree": "#b08a2e",
    "BMQ": "#33608c",
    "DiffRMQ": "#b08a2e",
    "Quadratic": "#8c8c8c",
    "Stabbing": "#5b8c6e",
    "Block": "#7a5c99",
}
SPARE = ("#4f7d8c", "#8c5b73", "#6b6b6b", "#7d8c4f")
MARKERS = "osD^v<>P"
WIDTH, HEIGHT, CAPTION_LINE, HEADLINE = 5.9, 3.3, 0.185, 0.42
LABEL_SHARE, LABEL_STEP = 0.31, 0.064
MOST_TICKS, FEW_DECADES = 9, 1000
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "fencepost",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#777777",
    "axes.labelcolor": "#333333",
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.6,
    "xtick.color": "#555555",
    "ytick.color": "#555555",
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
}


def require_matplotlib() -> Any:
    """Matplotlib, or the refusal that says how to get it."""
    try:
        import matplotlib
    except ImportError:
        raise FencepostError(
            "no matplotlib", "matplotlib 3.9 or newer, which draws the figures", 'Run pip install "fencepost[bench]".'
        ) from None
    return matplotlib


def draw(figure: Figure, outcome: Outcome, path: Path) -> None:
    """Write the panels of a figure side by side, two to a row."""
    matplotlib = require_matplotlib()
    from matplotlib.figure import Figure as Canvas

    columns = min(len(outcome.panels), 3 if len(outcome.panels) == 3 else 2)
    rows = -(-len(outcome.panels) // columns)
    caption = _caption(figure, outcome, columns)
    below = CAPTION_LINE * (caption.count("\n") + 1) + 0.15
    height = rows * HEIGHT + below + HEADLINE
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(columns * WIDTH, height))
        axes = canvas.subplots(rows, columns, squeeze=False)
        for axis, panel in zip(axes.flat, outcome.panels, strict=False):
            _draw_panel(axis, panel)
        for axis in axes.flat[len(outcome.panels) :]:
            axis.set_visible(False)
        canvas.tight_layout(rect=(0, below / height, 1, 1 - HEADLINE / height), w_pad=1.5, h_pad=1.5)
        for axis, panel in zip(axes.flat, outcome.panels, strict=False):
            place = axis.get_position()
            axis.set_position((place.x0, place.y0, place.width * (1 - LABEL_SHARE), place.height))
            _label_ends(axis, panel)
        canvas.text(0.012, 1 - 0.1 / height, f"{figure.name}: {figure.title}", va="top", size=11, weight="bold")
        canvas.text(0.012, 0.08 / height, caption, va="bottom", size=8.5, color="#333333", linespacing=1.3)
        canvas.savefig(path, format="svg", metadata={"Date": None})  # no date: the same numbers give the same file


def _caption(figure: Figure, outcome: Outcome, columns: int) -> str:
    """The claim, and what became of it, in lines that fit."""
    width = int(columns * WIDTH * 15.3)
    broken = [finding for finding in outcome.findings if not finding.holds and not finding.ours]
    said = "; ".join(f"{finding.claim} ({finding.measured})" for finding in broken)
    source = figure.paper + (f", figure {figure.number}" if figure.number[:1].isdigit() else "")
    lines = [f"{source}: {figure.claim}"]
    lines.append(f"Here it {outcome.verdict}." + (f" What does not: {said}." if said else ""))
    lines += [f"In place of what the paper does not say: {outcome.stand_ins}"] if outcome.stand_ins else []
    return "\n".join(wrapped for line in lines for wrapped in textwrap.wrap(line, width))


def _colour(curve: Curve, position: int) -> str:
    if curve.kind == "ours":
        return OURS
    return COLOURS.get(_structure(curve), "#9a9a9a" if curve.kind == "model" else SPARE[position % len(SPARE)])


def _structure(curve: Curve) -> str:
    """The first word of a curve's name, up to a comma or a parenthesis."""
    return curve.name.split(",")[0].split("(")[0].split(" ")[0].strip()


def _draw_panel(axis: Any, panel: Panel) -> None:
    axis.set_title(panel.title, weight="bold")
    axis.set_xlabel(panel.x_label)
    axis.set_ylabel(panel.y_label)
    if panel.log_x:
        axis.set_xscale("log")
    if panel.log_y:
        axis.set_yscale("log")
    alike: dict[str, int] = {}
    for position, curve in enumerate(panel.curves):
        seen = alike.setdefault(_colour(curve, position), 0)
        alike[_colour(curve, position)] += 1
        x, y = _drawable(curve, panel)
        axis.plot(
            x,
            y,
            color=_colour(curve, position),
            linewidth={"ours": 2.6, "paper": 1.4, "model": 1.0}[curve.kind],
            linestyle=(0, (4, 3)) if curve.kind == "model" or seen % 2 else "-",
            marker=None if curve.kind == "model" else MARKERS[seen % len(MARKERS)],
            zorder=3 if curve.kind == "ours" else 2,
        )
    if not panel.log_y:
        axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
    _set_ticks(axis, panel)


def _set_ticks(axis: Any, panel: Panel) -> None:
    """Ticks at the places of the sweep, and at 1, 2, 5, 10, ... beside it; all of them plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    places = sorted({x for curve in panel.curves for x in curve.x})
    if len(places) <= MOST_TICKS:
        axis.xaxis.set_major_locator(FixedLocator(places))
    axis.xaxis.set_major_formatter(FuncFormatter(_plain))
    axis.xaxis.set_minor_locator(NullLocator())
    if panel.log_y:
        low, high = axis.get_ylim()
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < FEW_DECADES else (1.0,)))
    axis.yaxis.set_major_formatter(FuncFormatter(_plain))
    axis.yaxis.set_minor_locator(NullLocator())


def _plain(value: float, _position: int = 0) -> str:
    """A number as people write it: 0.05, 16, 640k, 2^20.

    >>> [_plain(value) for value in (0.05, 16, 8192, 640_000, 2**20, 5_000_000)]
    ['0.05', '16', '8,192', '640k', '2^20', '5M']
    """
    whole = int(value)
    if value == whole and whole >= 2**16 and whole & (whole - 1) == 0:
        return f"2^{whole.bit_length() - 1}"
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= 10_000 and value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:,g}" if value < 1000 else f"{value:,.0f}"


def _drawable(curve: Curve, panel: Panel) -> tuple[list[float], list[float]]:
    """The points that have a place on the panel's axes: logarithms need positive numbers."""
    pairs = [
        (x, y)
        for x, y in zip(curve.x, curve.y, strict=True)
        if (y > 0 or not panel.log_y) and (x > 0 or not panel.log_x)
    ]
    return [x for x, _ in pairs], [y for _, y in pairs]


def _label_ends(axis: Any, panel: Panel) -> None:
    """Names beside the last points, moved apart where they would overlap."""
    reference = panel.curve(panel.ratio_to) if panel.ratio_to else None
    to_axes = axis.transData + axis.transAxes.inverted()
    labels = []
    for position, curve in enumerate(panel.curves):
        x, y = _drawable(curve, panel)
        if not x:
            continue
        text = curve.name
        if reference is not None and curve is not reference and x[-1] in reference.x:
            text += f", {y[-1] / reference.y[list(reference.x).index(x[-1])]:.1f}x"
        labels.append((to_axes.transform((x[-1], y[-1])), text, _colour(curve, position), curve.kind))
    labels.sort(key=lambda label: float(label[0][1]))
    heights = _apart([label[0][1] for label in labels], LABEL_STEP, 0.0, 1.0)
    for (end, text, colour, kind), height in zip(labels, heights, strict=True):
        axis.annotate(
            text,
            xy=end,
            xycoords="axes fraction",
            xytext=(1.04, height),
            textcoords="axes fraction",
            va="center",
            size=8.2,
            color=colour,
            weight="bold" if kind == "ours" else "normal",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6, "shrinkA": 1, "shrinkB": 3},
        )


def _apart(wanted: Sequence[float], step: float, low: float, high: float) -> list[float]:
    """Ascending places at least a step apart, as near to the wanted ones as that leaves room for."""
    placed: list[float] = []
    for place in wanted:
        placed.append(max(place, placed[-1] + step if placed else low))
    excess = max(0.0, placed[-1] - high) if placed else 0.0
    for i in reversed(range(len(placed))):
        ceiling = placed[i + 1] - step if i + 1 < len(placed) else placed[i] - excess
        placed[i] = min(placed[i], ceiling)
    return placed
