"""Spark's Kafka connector: where it is, and how to get it with Maven."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fencepost.errors import FencepostError

_CONNECTOR = "spark-sql-kafka-0-10_2.13"
_TOKENS = "spark-token-provider-kafka-0-10_2.13"
_EARLIER = ("4.2.0", "4.1.0", "4.0.0")
"""Releases whose connector also runs in a later Spark 4, newest first: repositories may lag behind pyspark."""
_BESIDE = ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.13.1")
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def jar_cache() -> Path:
    """Where fetched jars are kept: ``FENCEPOST_JARS``, or a directory of the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("FENCEPOST_JARS") or Path(cache) / "fencepost" / "jars")


def connector_jars() -> list[Path]:
    """The jars that `fetch_connector` has put into the cache for this pyspark; none where it never ran."""
    found = sorted(_place().glob("*.jar"))
    return found if (_place() / "complete").exists() else []


def session_has_connector(settings: Mapping[str, object]) -> bool:
    """Whether a session with these settings would find the connector without the cache."""
    named = " ".join(str(settings.get(key, "")) for key in ("spark.jars", "spark.jars.packages"))
    if "spark-sql-kafka" in named:
        return True
    home = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(home)] if home else [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    return any(next(place.glob("jars/spark-sql-kafka-*.jar"), None) for place in homes)


def fetch_connector() -> list[Path]:
    """Get the connector of this pyspark with Maven, unless the cache has it; what Spark provides itself is left out.

    Where the repository does not have the connector in that version yet, the newest earlier one is taken.
    """
    if found := connector_jars():
        return found
    own = _pyspark_version()
    for artifact in (_CONNECTOR, _TOKENS):
        names = [f"org.apache.spark:{artifact}:{release}" for release in dict.fromkeys((own, *_EARLIER))]
        copy_first(names, _place())
    copy_jars(_BESIDE, _place())
    (_place() / "complete").touch()
    return connector_jars()


def copy_first(artifacts: Sequence[str], target: Path) -> None:
    """Copy the first of several artifacts that can be had."""
    for artifact in artifacts[:-1]:
        try:
            return copy_jars([artifact], target)
        except FencepostError:
            continue
    return copy_jars(artifacts[-1:], target)


def copy_jars(artifacts: Sequence[str], target: Path) -> None:
    """Copy single artifacts, without what they depend on, out of Maven's repositories."""
    for artifact in artifacts:
        run_maven([_COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={target}"], artifact)


def run_maven(arguments: Sequence[str], wanted: str) -> None:
    """Run Maven, which knows its repositories from its own settings."""
    maven = shutil.which("mvn")
    if maven is None:
        raise FencepostError(
            f"no mvn on the path, which would get {wanted}",
            "Maven, or the connector's jars in Spark's settings",
            "Install Maven, or name the connector in spark.jars.packages.",
        )
    with tempfile.TemporaryDirectory() as scratch:
        command = [maven, "--batch-mode", "--quiet", *arguments]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr[-300:])
        raise FencepostError(
            f"no {wanted} from Maven ({reason.strip()})",
            "the jar",
            "Check the network and Maven's settings, or name the connector in spark.jars.packages.",
        )


def _place() -> Path:
    return jar_cache() / f"{_CONNECTOR}-{_pyspark_version()}"


def _pyspark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "none"
