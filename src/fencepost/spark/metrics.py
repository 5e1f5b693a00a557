"""The figures of a running query: observed metrics in Spark's progress, and the same as Prometheus text."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.spark.work.match import METER

_COUNTERS = {
    "rows": ("fencepost_rows_total", "Rows read."),
    "late": ("fencepost_late_total", "Rows older than the last of their object."),
    "null_rows": ("fencepost_null_total", "Rows without a value in any column that rules use."),
    "enter": ('fencepost_events_total{detect="enter"}', "Events, or matches."),
    "exit": ('fencepost_events_total{detect="exit"}', "Events, or matches."),
    "cross": ('fencepost_events_total{detect="cross"}', "Events, or matches."),
    "inside": ('fencepost_events_total{detect="inside"}', "Events, or matches."),
    "silent": ('fencepost_events_total{detect="silent"}', "Events, or matches."),
    "damped": ("fencepost_damped_total", "Enters that waited and came to nothing."),
    "seconds": ("fencepost_match_seconds", "Seconds spent in matching, over all tasks."),
}
_GAUGES = {
    "version": ("fencepost_rule_version", "The newest snapshot version in force."),
    "rules": ("fencepost_rules", "Rules in force."),
    "rejected": ("fencepost_rejected_versions", "Newer versions that could not be used."),
    "skipped": (
        "fencepost_skipped_rules",
        "Rules that are left out for want of a column or of a clock.",
    ),
    "pending": ("fencepost_pending", "Enters that wait, as of the last marker."),
    "ending": ("fencepost_ending", "Exits that wait, as of the last marker."),
}
_OF_RULES = ("version", "rules", "rejected", "skipped")
"""Gauges that all buckets agree on."""


def observed(matched: Any, name: str) -> Any:
    """The frame with its figures observed under a name."""
    meter = {field: F.col(f"{METER}.{field}") for field in ("null_rows", "nanoseconds", *_OF_RULES)}
    return matched.observe(
        name,
        F.count(F.lit(1)).alias("rows"),
        F.sum(meter["null_rows"]).alias("null_rows"),
        F.sum(F.size("rule_ids")).alias("inside"),
        (F.sum(meter["nanoseconds"]) / 1e9).alias("seconds"),
        *(F.max(meter[field]).alias(field) for field in _OF_RULES),
    )


def observed_watch(stepped: Any, name: str) -> Any:
    """The packed events of watch with their figures observed under a name."""
    sums = ("rows", "late", "null_rows", "enter", "exit", "cross", "inside", "silent", "damped")
    return stepped.observe(
        name,
        *(F.sum(field).alias(field) for field in sums),
        (F.sum("nanoseconds") / 1e9).alias("seconds"),
        *(F.max(field).alias(field) for field in _OF_RULES),
        # Rows come to some buckets, a marker to all: only then is it known how much waits.
        *(F.when(F.max("marked") > 0, F.sum(field)).alias(field) for field in ("pending", "ending")),
    )


def prometheus_text(progress: Any) -> str:
    """The observed metrics of progress reports in the text format of Prometheus.

    Args:
        progress: a StreamingQueryProgress such as ``query.lastProgress``, or several of them. Counters add up what
            is passed: pass every report since the start for totals.

    >>> report = {"name": "ticks", "observedMetrics": {"match": {"rows": 5, "inside": 7, "rules": 2, "version": 3}}}
    >>> print(prometheus_text([report, report]), end="")
    # HELP fencepost_rows_total Rows read.
    # TYPE fencepost_rows_total counter
    fencepost_rows_total{query="ticks",operator="match"} 10
    # HELP fencepost_events_total Events, or matches.
    # TYPE fencepost_events_total counter
    fencepost_events_total{query="ticks",operator="match",detect="inside"} 14
    # HELP fencepost_rule_version The newest snapshot version in force.
    # TYPE fencepost_rule_version gauge
    fencepost_rule_version{query="ticks",operator="match"} 3
    # HELP fencepost_rules Rules in force.
    # TYPE fencepost_rules gauge
    fencepost_rules{query="ticks",operator="match"} 2
    """
    reports = [progress] if isinstance(progress, Mapping) else list(progress)
    lines = []
    for kind, metrics in (("counter", _COUNTERS), ("gauge", _GAUGES)):
        for field, (metric, help_text) in metrics.items():
            figures = _figures(reports, field, add=kind == "counter")
            name, _, label = metric.partition("{")
            if figures and f"# TYPE {name} {kind}" not in lines:
                lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
            for (query, operator), figure in figures.items():
                own = f",{label.rstrip('}')}" if label else ""
                lines.append(f'{name}{{query="{_escape(query)}",operator="{_escape(operator)}"{own}}} {figure:g}')
    return "".join(f"{line}\n" for line in lines)


def _figures(reports: Iterable[Mapping[str, Any]], field: str, add: bool) -> dict[tuple[str, str], float]:
    """A figure per query and operator: the sum over all reports, or the last one."""
    figures: dict[tuple[str, str], float] = {}
    for report in reports:
        query = str(report.get("name") or report.get("id") or "")
        for operator, metrics in (report.get("observedMetrics") or {}).items():
            figure = (metrics if isinstance(metrics, Mapping) else metrics.asDict()).get(field)
            if figure is not None:
                place = query, operator
                figures[place] = figures.get(place, 0) + figure if add else figure
    return figures


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
