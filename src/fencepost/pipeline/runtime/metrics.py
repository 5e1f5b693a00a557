"""The figures of a running pipeline for Prometheus, served only where the pipeline file asks for it."""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fencepost.errors import FencepostError
from fencepost.pipeline.file.checks import parse_address
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.progress import KINDS, WAITING, Histogram, Progress

_COUNTERS = {
    "rows": ("fencepost_rows", "Rows read from the sources, usable or not."),
    "late": ("fencepost_late", "Rows older than the last of their object."),
    "null": ("fencepost_null", "Rows without a value in any column that rules use."),
    "damped": ("fencepost_damped", "Enters that waited and came to nothing."),
    "dead_letters": ("fencepost_dead_letters", "Rows that could not be used."),
    "batches": ("fencepost_batches", "Micro-batches with rows."),
    "rule_changes": ("fencepost_rule_changes", "Changes of rules that arrived on a topic."),
    "bad_changes": ("fencepost_bad_changes", "Messages of that topic that are no change."),
    "restarts": ("fencepost_restarts", "Starts after a failure that passed."),
}


class PipelineMetrics(Collector):
    """Gives the figures of a pipeline when they are asked for."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def collect(self) -> Iterable[Metric]:
        """Every figure there is."""
        progress = self._progress
        for field, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=progress.counts.get(field, 0))
        events = CounterMetricFamily("fencepost_events", "Events, or matches.", labels=["detect"])
        for kind in KINDS:
            events.add_metric([kind], progress.counts.get(kind, 0))
        yield events
        yield from self._deliveries()
        yield _gauge("fencepost_rule_version", "The rule version in force.", progress.version)
        yield _gauge("fencepost_rules", "Rules in force.", progress.gauges.get("rules"))
        rejected = progress.gauges.get("rejected", 0)
        yield _gauge("fencepost_rejected_versions", "Newer versions that could not be used.", rejected)
        skipped = progress.gauges.get("skipped", 0)
        yield _gauge("fencepost_skipped_rules", "Rules left out for want of a column or of a clock.", skipped)
        pending, ending = (progress.gauges.get(name) for name in WAITING)
        yield _gauge("fencepost_pending", "Enters that wait, as of the last tick or version.", pending)
        yield _gauge("fencepost_ending", "Exits that wait, as of the last tick or version.", ending)
        yield _gauge("fencepost_event_lag_seconds", "From the newest event time to now.", progress.lag())
        behind = progress.offsets_behind
        yield _gauge("fencepost_offsets_behind", "Messages not read yet, where the source tells.", behind)
        text = "How long a micro-batch took, from its trigger to its commit."
        yield _histogram("fencepost_trigger_seconds", text, progress.triggers)
        text = "From the time of an event to the end of the micro-batch that wrote it."
        yield _histogram("fencepost_latency_seconds", text, progress.latencies)

    def _deliveries(self) -> Iterator[Metric]:
        posted = CounterMetricFamily("fencepost_posted", "Events that a webhook took.", labels=["sink"])
        retries = CounterMetricFamily("fencepost_delivery_retries", "Posts that were tried again.", labels=["sink"])
        undelivered = CounterMetricFamily("fencepost_undelivered", "Events that it did not take.", labels=["sink"])
        spooled = GaugeMetricFamily("fencepost_spooled", "Events that wait for a webhook.", labels=["sink"])
        for name, (delivered, waiting) in list(self._progress.sent.items()):
            posted.add_metric([name], delivered.posted)
            retries.add_metric([name], delivered.retries)
            undelivered.add_metric([name], delivered.undelivered)
            spooled.add_metric([name], waiting)
        yield from (posted, retries, undelivered, spooled)


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    buckets = list(zip(bounds, map(float, itertools.accumulate(histogram.counts())), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram.sum)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    """A figure; without a sample where it is not known."""
    made = GaugeMetricFamily(name, text)
    if value is not None:
        made.add_metric([], value)
    return made


@contextmanager
def serving_metrics(file: PipelineFile, progress: Progress) -> Iterator[str]:
    """Serve the figures meanwhile, at the address that the file names and nowhere else; gives the URL."""
    listen = file.section("metrics")["listen"]
    host, port = parse_address(listen)
    registry = CollectorRegistry()
    registry.register(PipelineMetrics(progress))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise FencepostError(
            f"{listen} cannot be listened at ({error.strerror or error})", "a free port", "Choose another in [metrics]."
        ) from None
    try:
        yield f"http://{_shown(server)}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _shown(server: Any) -> str:
    host, port = server.server_address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
