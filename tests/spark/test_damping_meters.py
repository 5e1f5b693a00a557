"""The figures of damping that a bucket tells: what came to nothing, and what waits."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Observation

import fencepost as fp
from fencepost.spark.metrics import observed_watch, prometheus_text
from fencepost.spark.work.bucket import step
from fencepost.spark.work.packing import CLOCK, METERS, ROWS, STEPPED, VERSION, packed_bytes
from fencepost.spark.work.task import OBJECT, TIME
from tests.spark.test_bucket_state import Kept, task_of

FIGURES = ("damped", "pending", "ending", "marked")


class Store(Kept):
    def replace_head(self, head: str) -> None:
        self.parts = {**self.parts, "head": head}


def packed_rows(*rows: tuple[int, int, float]) -> tuple[int, int, bytes]:
    objects, times, values = zip(*rows, strict=True)
    columns = {OBJECT: pa.array(objects), TIME: pa.array(times), "x": pa.array(values), "zone": ["a"] * len(rows)}
    return ROWS, 0, packed_bytes(pa.table(columns))


def test_a_bucket_tells_what_damping_holds_back(tmp_path: Path) -> None:
    rules = fp.Rules()
    rules.add(1, "x BETWEEN 10 AND 20", detect="enter,exit", for_=5, keep_firing_for=5)
    rules.publish(tmp_path, {"x": "double", "zone": "string"})
    task, store = task_of(tmp_path, pa.int64()), Store(appends=True)

    def told(*packed: tuple[int, int, bytes]) -> tuple[Any, ...]:
        found = step(0, packed, store, task)
        return tuple(sum(row[name] for row in found) for name in (*FIGURES, "enter", "exit"))

    assert told((VERSION, 1, b""), packed_rows((1, 0, 15.0), (2, 0, 15.0))) == (0, 2, 0, 1, 0, 0)
    assert told(packed_rows((1, 2, 30.0))) == (1, 1, 0, 0, 0, 0)
    written = store.appended + store.rewritten
    assert told((CLOCK, 4, b"")) == (0, 1, 0, 1, 0, 0)
    assert store.appended + store.rewritten == written, "the head alone knows"
    assert told((CLOCK, 6, b"")) == (0, 0, 0, 1, 1, 0)
    assert told(packed_rows((2, 7, 30.0))) == (0, 0, 1, 0, 0, 0)
    assert told((CLOCK, 20, b"")) == (0, 0, 0, 1, 0, 1)


@pytest.mark.oldest
def test_what_waits_is_observed_where_a_marker_reached_all_buckets(spark: Any) -> None:
    def observed(marked: int) -> dict[str, Any]:
        meters = [{**dict.fromkeys(METERS, 0), "damped": 2, "pending": n, "marked": marked} for n in (3, 4)]
        rows = [(None, *(meter[name] for name in METERS)) for meter in meters]
        observation: Any = Observation("watch")
        observed_watch(spark.createDataFrame(rows, STEPPED), observation).collect()
        figures: dict[str, Any] = observation.get
        return figures

    told, partial = observed(1), observed(0)
    assert (told["damped"], told["pending"], told["ending"]) == (4, 7, 0)
    assert (partial["damped"], partial["pending"], partial["ending"]) == (4, None, None)
    text = prometheus_text([{"name": "q", "observedMetrics": {"watch": each}} for each in (told, partial)])
    assert 'fencepost_damped_total{query="q",operator="watch"} 8' in text
    assert 'fencepost_pending{query="q",operator="watch"} 7' in text
