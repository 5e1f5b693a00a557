"""The stream of versions and clock markers."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost._files.storage import is_url, make_directory, place_of
from fencepost.published import VersionDirectory
from fencepost.published.markers import Markers
from fencepost.spark.work.packing import CLOCK, VERSION


def version_markers(spark: Any, source: Any, buckets: int) -> Any:
    """The stream of versions and clock markers, each for every bucket."""
    versions = VersionDirectory(source.directory)
    versions.mark()
    if is_url(source.directory):
        from fencepost.spark.plan.remote_markers import remote_markers  # Python data sources are new in Spark 4.0

        return _repeat(remote_markers(spark, source.directory), buckets)
    return _repeat(_marker_files(spark, versions.markers), buckets)


def clock_markers(spark: Any, clock: str, buckets: int) -> Any:
    """The stream of clock markers in a directory of their own, each for every bucket."""
    markers = Markers(place_of(clock).absolute())
    make_directory(markers.path)
    return _repeat(_marker_files(spark, markers), buckets)


def _repeat(markers: Any, buckets: int) -> Any:
    everywhere = F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))).alias("bucket")
    return markers.select(everywhere, "kind", "number", F.lit(None).cast("binary").alias("payload"))


def _marker_files(spark: Any, markers: Markers) -> Any:
    """Markers at a path, by Spark's own source of files."""
    schema = "path string, modificationTime timestamp, length bigint, content binary"
    files = (
        spark.readStream.format("binaryFile")
        .schema(schema)
        .option("ignoreMissingFiles", True)
        .load(str(markers.path))
        .select("path")
    )
    name = F.element_at(F.split("path", "/"), -1)
    number, ending = (F.element_at(F.split(name, r"\."), place) for place in (1, 2))
    kind = F.when(ending == "version", VERSION).when(ending == "clock", CLOCK)
    return files.select(kind.cast("int").alias("kind"), number.cast("bigint").alias("number")).where("kind IS NOT NULL")
