"""Parts of Spark that pyspark does not have, such as its Kafka connector: where they are, and how to get them."""

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from fencepost.errors import FencepostError

Part = Literal["kafka", "avro"]


class _Jars(NamedTuple):
    """What a part is made of."""

    artifacts: tuple[str, ...]
    """Of Spark; the first gives the part its name."""
    earlier: tuple[str, ...] = ("4.2.0", "4.1.1", "4.1.0", "4.0.0")
    """Releases that also run in a later Spark 4, newest first: repositories may lag behind pyspark."""
    beside: tuple[str, ...] = ()


_PARTS: Mapping[Part, _Jars] = {
    "kafka": _Jars(
        ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13"),
        ("4.2.0", "4.1.0", "4.0.0"),
        ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.13.1"),
    ),
    "avro": _Jars(("spark-avro_2.13",)),
}
PARTS: tuple[Part, ...] = tuple(_PARTS)
"""All of them: the connector to Kafka, and the decoders of its messages."""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def jar_cache() -> Path:
    """Where fetched jars are kept: ``FENCEPOST_JARS``, or a directory of the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("FENCEPOST_JARS") or Path(cache) / "fencepost" / "jars")


def artifact_of(part: Part) -> str:
    """The artifact of Spark that a part is named after."""
    return _PARTS[part].artifacts[0]


def connector_jars(part: Part = "kafka") -> list[Path]:
    """The jars that `fetch_connector` has put into the cache for this pyspark; none where it never ran."""
    found = sorted(_place(part).glob("*.jar"))
    return found if (_place(part) / "complete").exists() else []


def session_has_connector(settings: Mapping[str, object], part: Part = "kafka") -> bool:
    """Whether a session with these settings would find the connector without the cache."""
    named = " ".join(str(settings.get(key, "")) for key in ("spark.jars", "spark.jars.packages"))
    stem = artifact_of(part).removesuffix("-0-10_2.13").removesuffix("_2.13")
    if stem in named:
        return True
    home = os.environ.get("SPARK_HOME")
    spec = importlib.util.find_spec("pyspark")
    homes = [Path(home)] if home else [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    return any(next(place.glob(f"jars/{stem}*.jar"), None) for place in homes)


def fetch_connector(part: Part = "kafka") -> list[Path]:
    """Get a part of this pyspark with Maven, unless the cache has it; what Spark provides itself is left out.

    Where the repository does not have the part in that version yet, the newest earlier one is taken.
    """
    if found := connector_jars(part):
        return found
    own, wanted = _pyspark_version(), _PARTS[part]
    for artifact in wanted.artifacts:
        names = [f"org.apache.spark:{artifact}:{release}" for release in dict.fromkeys((own, *wanted.earlier))]
        copy_first(names, _place(part))
    copy_jars(wanted.beside, _place(part))
    (_place(part) / "complete").touch()
    return connector_jars(part)


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


def _place(part: Part) -> Path:
    return jar_cache() / f"{artifact_of(part)}-{_pyspark_version()}"


def _pyspark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "none"
