"""The markers of a directory at a URL as a stream, by a Python data source: no connector of the JVM's is needed.

An offset has the newest version and the latest time. The markers of a micro-batch follow from its two offsets alone, so
a repeated one gets the same, whatever has come since.
"""

import math
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from fencepost.published import VersionDirectory
from fencepost.spark.work.packing import CLOCK, VERSION

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before 4.2; there a query that is to take what is there does so in one micro-batch

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing to support."""


LISTED_EVERY = 1.0
"""Seconds: a query without a trigger asks a hundred times in one, and stores count requests."""


def remote_markers(spark: Any, url: str) -> Any:
    """A stream of versions and times, as rows of kind and number."""
    spark.dataSource.register(MarkerSource)
    return spark.readStream.format(MarkerSource.name()).load(url)


class MarkerSource(DataSource):  # type: ignore[misc]
    """The data source, which Spark makes by its name."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "fencepost_markers"

    def schema(self) -> str:
        """A row per marker."""
        return "kind int, number bigint"

    def streamReader(self, schema: Any) -> "MarkerReader":  # noqa: ARG002, N802 (Spark's names)
        """Reads the markers of the directory that `load` was given."""
        return MarkerReader(self.options["path"])


class MarkerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Lists markers on the driver."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last: dict[str, int] = {}
        self._until = 0.0

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first marker."""
        return {"version": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop at the markers that are there now."""
        self._last, self._until = self._newest(), math.inf

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: ARG002, N802
        """The newest markers; there is no limit, and pyspark before 4.2 names none."""
        if time.monotonic() >= self._until:
            self._last, self._until = self._newest(), time.monotonic() + LISTED_EVERY
        return self._last

    def _newest(self) -> dict[str, int]:
        version, clock = VersionDirectory(self._url).markers.newest()
        return {"version": version} if clock is None else {"version": version, "clock": clock}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The markers between two offsets: the newest of each kind stands for all."""
        markers = [
            (kind, end[name])
            for kind, name in ((VERSION, "version"), (CLOCK, "clock"))
            if name in end and (name not in start or end[name] > start[name])
        ]
        return [InputPartition(markers)] if markers else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        """The markers as rows."""
        return iter(partition.value)
