"""The settings of a pipeline's Spark session: those that are written, its packages, and what its formats need."""

import re
from collections.abc import Iterator, Mapping

from fencepost.pipeline.file.document import PipelineFile, listed
from fencepost.pipeline.file.faults import Fault
from fencepost.pipeline.file.formats import package_of

_NEEDED: Mapping[str, Mapping[str, str]] = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
}
"""By format; what the file says counts more."""
_COORDINATES = re.compile(r"[^:\s,]+:[^:\s,]+:[^:\s,]+")


def session_settings(file: PipelineFile) -> dict[str, str]:
    """All settings, as Spark names them."""
    session = file.section("session")
    given = {key: str(value) for key, value in session.get("settings", {}).items()}
    if packages := listed(session.get("packages")):
        given["spark.jars.packages"] = ",".join([*filter(None, [given.get("spark.jars.packages")]), *packages])
    for name in (*file.sources, *file.sinks, "rules.changes"):
        given = {**_NEEDED.get(str(file.section(name).get("format")).lower(), {}), **given}
    return given


def package_faults(file: PipelineFile) -> Iterator[Fault]:
    """Packages that are no Maven coordinates."""
    for package in listed(file.section("session").get("packages")):
        if not _COORDINATES.fullmatch(package):
            remedy = f'Write for example "{package_of("delta")}".'
            yield file.fault("session.packages", repr(package), "group:artifact:version", remedy)
