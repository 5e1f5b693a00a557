"""What the plans of operators with state share: the stream of versions and clock markers."""

from typing import Any

from pyspark.sql import functions as F  # noqa: N812 (Spark's own name for it)

from fencepost.snapshot import VersionDirectory
from fencepost.snapshot.places import is_url
from fencepost.spark.packing import CLOCK, VERSION
from fencepost.spark.remote_markers import remote_markers

__all__ = ["version_markers"]


def version_markers(spark: Any, source: Any, buckets: int) -> Any:
    """The stream of versions and clock markers, each told to every bucket."""
    versions = VersionDirectory(source.directory)
    versions.mark()
    told = remote_markers(spark, source.directory) if is_url(source.directory) else _marker_files(spark, versions)
    everywhere = F.explode(F.sequence(F.lit(0), F.lit(buckets - 1))).alias("bucket")
    return told.select(everywhere, "kind", "number", F.lit(None).cast("binary").alias("payload"))


def _marker_files(spark: Any, versions: VersionDirectory) -> Any:
    """Markers at a path, by Spark's own source of files."""
    schema = "path string, modificationTime timestamp, length bigint, content binary"
    files = spark.readStream.format("binaryFile").schema(schema).load(str(versions.markers.path)).select("path")
    name = F.element_at(F.split("path", "/"), -1)
    number, ending = (F.element_at(F.split(name, r"\."), place) for place in (1, 2))
    kind = F.when(ending == "version", VERSION).when(ending == "clock", CLOCK)
    return files.select(kind.cast("int").alias("kind"), number.cast("bigint").alias("number")).where("kind IS NOT NULL")
