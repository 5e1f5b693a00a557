"""Plans on Spark that are measured side by side: a kernel that does nothing, joins, and objects that move."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812

from fencepost.pipeline.runtime.session import start_session, stderr_to, tuned

MOVES = "object bigint, at bigint, value double"


def one_core(scratch: Path) -> Any:
    """A session on one core: what is measured is work, not waiting. Its own words go to a file.

    Args:
        scratch: a directory for its files.
    """
    settings = {
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "512m",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    with stderr_to(scratch / "spark.log"):
        spark = start_session("fencepost measures", "local[1]", settings)
        spark.sparkContext.setLogLevel("OFF")
        return tuned(spark)


def write(frame: Any) -> None:
    """Compute every row and column, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


def frames(spark: Any, table: pa.Table, file: Path) -> tuple[Any, Any]:
    """A table as a frame of one partition, and its first row likewise."""
    pq.write_table(table, file)
    pq.write_table(table.slice(0, 1), file.with_suffix(".one"))
    read = spark.read.parquet
    return read(str(file)).coalesce(1), read(str(file.with_suffix(".one"))).coalesce(1)


def ready_answer(batches: Iterator[Any], mean: float) -> Iterator[Any]:
    """A kernel that does nothing: every batch with an answer of the usual size that lies ready."""
    rows = -1
    for batch in batches:
        if batch.num_rows != rows:
            rows = batch.num_rows
            offsets = (np.arange(rows + 1) * mean).astype(np.int32)
            lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1], dtype=np.int64)))
        yield pa.RecordBatch.from_arrays([*batch.columns, lists], names=[*batch.schema.names, "rule_ids"])


def binned(events: Any, ranges: Any, width: float) -> Any:
    """Pairs by an equality join on bins, what one would write by hand."""
    spread = f"explode(sequence(cast(floor(lower / {width!r}) AS int), cast(floor(upper / {width!r}) AS int))) AS bin"
    left = events.selectExpr("*", f"cast(floor(value / {width!r}) AS int) AS bin")
    pairs = left.join(F.broadcast(ranges.selectExpr("*", spread)), "bin").where("value >= lower AND value < upper")
    return pairs.select("id", "value", "rule_id")


def sums(pairs: Any) -> tuple[int, int, int]:
    """Count and sums that tell two sets of pairs apart."""
    count, rules, products = pairs.selectExpr("count(*)", "sum(rule_id)", "sum(rule_id * id)").first()
    return count, rules, products


class Moving:
    """Files of moves, one per trigger, of objects between 0 and 1.

    Args:
        path: a directory that does not exist; the files are in `in` below it.
        objects: how many.
    """

    def __init__(self, path: Path, objects: int) -> None:
        self.path, self._files, self._objects = path, 0, objects
        (path / "in").mkdir(parents=True)
        self._rng = np.random.default_rng(7)
        self._places = self._rng.random(objects)

    def put(self, rows: int, step: float) -> None:
        """A file of moves, each about a step long."""
        objects = np.resize(self._rng.permutation(self._objects), rows)
        at = self._files * 10**9 + np.arange(rows)
        moved = np.empty(rows)
        for start in range(0, rows, self._objects):
            own = objects[start : start + self._objects]
            self._places[own] = np.clip(self._places[own] + self._rng.uniform(-2, 2, len(own)) * step, 0, 1)
            moved[start : start + self._objects] = self._places[own]
        draft = self.path / "in" / f".{self._files}"
        pq.write_table(pa.table({"object": objects, "at": at, "value": moved}), draft)
        draft.rename(self.path / "in" / f"{self._files}.parquet")
        self._files += 1

    def files(self) -> list[Path]:
        """What was put, in its order."""
        return sorted((self.path / "in").iterdir(), key=lambda file: int(file.stem))

    def stream(self, spark: Any) -> Any:
        """The moves as a streaming frame, a file per trigger."""
        return spark.readStream.schema(MOVES).option("maxFilesPerTrigger", 1).parquet(f"{self.path}/in")
