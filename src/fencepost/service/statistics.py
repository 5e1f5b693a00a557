"""What a service counts about itself: totals, how long rows took, and a line of samples over time."""

import threading
import time
from collections import Counter, deque
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds from the arrival of rows to the answer."""
_RECENT = 4096
_SAMPLES = 3600


class Sample(NamedTuple):
    """The totals at one moment."""

    at: float
    """Seconds since 1970."""
    rows: int
    events: dict[str, int]
    late: int
    p50: float
    p95: float
    p99: float


class Statistics:
    """Counts, since the start of the process."""

    def __init__(self) -> None:
        self.started = time.time()
        self.rows = self.calls = self.full = 0
        self.events: Counter[str] = Counter()
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self.samples: deque[Sample] = deque(maxlen=_SAMPLES)
        self._lock = threading.Lock()

    def note_rows(self, rows: int, seconds: float, events: pa.Table | None) -> None:
        """Count a call with rows, and what it caused."""
        with self._lock:
            self.calls += 1
            self.rows += rows
            self.seconds += seconds
            self._recent.append(seconds)
            self.buckets[next((place for place, bound in enumerate(_BOUNDS) if seconds <= bound), len(_BOUNDS))] += 1
            if events is not None and events.num_rows:
                for each in pc.value_counts(events["detect"]).to_pylist():
                    self.events[each["values"]] += each["counts"]

    def note_full(self) -> None:
        """Count a time when the disk was full."""
        self.full += 1

    def quantiles(self) -> dict[str, float]:
        """How many seconds the last calls took."""
        with self._lock:
            times = sorted(self._recent)
        if not times:
            return {"p50": 0.0, "p95": 0.0, "p99": 0.0}
        return {f"p{part}": times[min(len(times) - 1, len(times) * part // 100)] for part in (50, 95, 99)}

    def sample(self, late: int) -> None:
        """Note the totals of now."""
        with self._lock:
            rows, events = self.rows, dict(self.events)
        self.samples.append(Sample(time.time(), rows, events, late, **self.quantiles()))

    def as_json(self) -> dict[str, Any]:
        """Totals and quantiles."""
        with self._lock:
            counts = {"rows": self.rows, "calls": self.calls, "events": dict(self.events), "full": self.full}
        return {**counts, "started": self.started, "latency": self.quantiles()}

    def histogram(self) -> tuple[list[tuple[str, float]], float]:
        """Cumulative counts by upper bound, and the sum, as Prometheus has them."""
        with self._lock:
            total, found = 0, []
            for bound, number in zip([*map(str, _BOUNDS), "+Inf"], self.buckets, strict=True):
                total += number
                found.append((bound, float(total)))
            return found, self.seconds
