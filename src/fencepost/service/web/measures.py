"""The figures of a service, as Prometheus reads them."""

from collections.abc import Iterable

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from fencepost.service.service import Service
from fencepost.service.web.doors import refusals
from fencepost.service.web.rules import READS, Serving

router = APIRouter(tags=["state"])

_COUNTERS = {
    "rows": ("fencepost_rows", "Rows that were taken."),
    "calls": ("fencepost_calls", "Calls with rows."),
    "late": ("fencepost_late_rows", "Rows older than the last one of their object."),
    "null": ("fencepost_null_rows", "Rows without an object, a time or any value."),
    "damped": ("fencepost_damped", "Enters that waited and came to nothing."),
    "full": ("fencepost_disk_full", "Times when there was no room for events."),
}
_GAUGES = {
    "version": ("fencepost_rule_version", "The version in force."),
    "rules": ("fencepost_rules", "Rules in force."),
    "faulty": ("fencepost_faulty_rules", "Rules that were left out of the version in force."),
    "upkeep": ("fencepost_upkeep_fault", "1 while the book cannot be followed, or the state not be saved."),
    "pending": ("fencepost_pending", "Enters that wait."),
    "ending": ("fencepost_ending", "Exits that wait."),
    "waiting": ("fencepost_waiting_rows", "Rows that wait for the engine."),
    "position": ("fencepost_log_position", "The last position of the row log."),
    "last_event": ("fencepost_event_position", "The position of the last event."),
    "log_bytes": ("fencepost_log_bytes", "Size of the row log."),
    "event_bytes": ("fencepost_event_log_bytes", "Size of the event log."),
}


class ServiceMetrics(Collector):
    """Gives the figures of a service when they are asked for."""

    def __init__(self, service: Service, readers: int) -> None:
        self._service, self._readers = service, readers

    def collect(self) -> Iterable[Metric]:
        """Every figure there is."""
        figures = self._service.metrics()
        for field, (name, text) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=figures[field])
        events = CounterMetricFamily("fencepost_events", "Events.", labels=["detect"])
        for kind, number in figures["events"].items():
            events.add_metric([kind], number)
        yield events
        for field, (name, text) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, value=figures[field])
        yield GaugeMetricFamily("fencepost_stream_readers", "Readers of the stream.", value=self._readers)
        buckets, seconds = self._service.statistics.histogram()
        text = "From the arrival of rows to the answer."
        yield HistogramMetricFamily("fencepost_latency_seconds", text, buckets=buckets, sum_value=seconds)


@router.get("/metrics", response_class=Response, responses=refusals(), dependencies=[READS])
def metrics(request: Request, service: Serving) -> Response:
    """Figures as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(ServiceMetrics(service, len(request.app.state.readers)))
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")
