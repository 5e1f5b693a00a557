"""Formats beyond those that pipelines have keys for: which there are, and the packages that bring them."""

import pkgutil
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fencepost.pipeline.file.keys import ANY

FILES = ("json", "csv", "parquet", "orc", "text", "xml", "avro", "binaryFile")
"""Formats of files in a directory."""
AT_PATHS = (*FILES, "delta")
"""Formats whose path is a directory: a source needs it, and a pipeline must not write to what it reads."""
OF_SPARK = ("orc", "text", "xml", "binaryFile", "jdbc")
"""What every session knows."""

_PACKAGES = {
    "delta": "io.delta:delta-spark_{spark}_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13",
    "avro": "org.apache.spark:spark-avro_2.13",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13",
    "hudi": "org.apache.hudi:hudi-spark{spark}-bundle_2.13",
    "mongodb": "org.mongodb.spark:mongo-spark-connector_2.13",
}
"""Where well-known formats come from; `spark` is the first two numbers of Spark's version."""
_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_CLOSE = 0.75


def package_of(format_: str) -> str | None:
    """The Maven coordinates of a format; None for one that is not known here."""
    name = _PACKAGES.get(format_.lower())
    return None if name is None else f"{name.format(spark=_spark_version())}:VERSION"


def find_misspelled(format_: str, variants: Iterable[str], session: Mapping[str, Any]) -> str | None:
    """The format that was probably meant; None where there may be one of the name that was written.

    Jars, packages and Python packages named ``pyspark_...`` bring formats of any name.
    """
    own = [name for name in variants if name != ANY]
    if format_.lower() in own:
        return format_.lower()
    known = {name.lower(): name for name in (*own, *OF_SPARK, *_PACKAGES)}
    close = get_close_matches(format_.lower(), known, n=1, cutoff=_CLOSE)
    if not close or close[0] == format_.lower():
        return None
    settings = session.get("settings")
    brought = session.get("packages") or (isinstance(settings, Mapping) and any(settings.get(key) for key in _JARS))
    if brought or any(module.name.startswith("pyspark_") for module in pkgutil.iter_modules()):
        return None
    return known[close[0]]


def _spark_version() -> str:
    try:
        return ".".join(version("pyspark").split(".")[:2])
    except PackageNotFoundError:
        return "4.1"
