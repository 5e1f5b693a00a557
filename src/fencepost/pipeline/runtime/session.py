"""The Spark session of a pipeline that was not given one."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fencepost
from fencepost._files.whole import PRIVATE
from fencepost._java import prepare_java
from fencepost.pipeline.connector import PARTS, connector_jars, session_has_connector
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.file.session import session_settings
from fencepost.pipeline.runtime.book import open_book
from fencepost.published import VersionDirectory
from fencepost.spark import tune
from fencepost.spark.session import JVM_SETTINGS

_ZONE = "spark.sql.session.timeZone"
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def make_session(file: PipelineFile, log: Path) -> Any:
    """A session as the pipeline's file describes it; what its JVM says goes to a file."""
    given = settings_in_zone(file)
    master = given.pop("spark.master", file.section("session")["master"])
    for part in PARTS:
        if not session_has_connector(given, part) and (jars := connector_jars(part)):
            given["spark.jars"] = ",".join(filter(None, [given.get("spark.jars", ""), *map(str, jars)]))
    return start_session(f"fencepost {file.path.name}", master, given, log)


def settings_in_zone(file: PipelineFile) -> dict[str, str]:
    """The settings of a pipeline, with the zone of its rules if they name none: times then mean the same in rows."""
    given, rules = session_settings(file), file.section("rules")
    if _ZONE not in given and rules.get("book"):
        with open_book(rules["book"], file) as book:
            given[_ZONE] = book.zone
    elif _ZONE not in given:
        given[_ZONE] = VersionDirectory(file.located(rules["directory"])).zone() or "UTC"
    return given


def start_session(name: str, master: str, given: Mapping[str, str], log: Path | None = None) -> Any:
    """A session whose workers find this fencepost, and which says nothing but errors, to a file if one is named."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    source = str(Path(fencepost.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    prepare_java()
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _ZONE: "UTC",  # text without a zone must mean the same instant on every machine
        **JVM_SETTINGS,
    }
    if master.startswith("local"):
        # Two hundred parts, Spark's choice, would cost more per micro-batch than all the rest.
        settings |= {"spark.sql.shuffle.partitions": str(os.cpu_count() or 1), **_LOCAL}
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(master).setAppName(name).setAll([*{**settings, **given}.items()])
    try:
        SparkSession.active()
    except PySparkRuntimeError:  # there is none
        SparkContext(conf=conf, gateway=_launch_jvm(conf, log))
        conf = SparkConf(loadDefaults=False)  # the context has it all
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


_launched: list[Any] = []
"""The gateway to the JVM of this process, which outlives its sessions."""


def _launch_jvm(conf: Any, log: Path | None) -> Any:
    """Start the JVM in a session of its own: a signal to the process group of the pipeline must not end it first.

    It ends with this process, since it reads a pipe from it.
    """
    from pyspark.java_gateway import launch_gateway

    if _launched and _launched[0].proc is not None and _launched[0].proc.poll() is not None:
        _launched.clear()  # it has ended
    if not _launched:
        with contextlib.ExitStack() as opened:
            said = {} if log is None else {"stderr": opened.enter_context(_new_log(log))}
            _launched.append(launch_gateway(conf, {"start_new_session": True, **said}))
    return _launched[0]


def _new_log(log: Path) -> Any:
    """A file that nobody else may read; that of the run before stays as well."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_name(f"{log.name}.1"))
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE), "ab")


@contextlib.contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """Standard error goes to a file meanwhile, and that of a JVM which is started meanwhile for good."""
    own = os.dup(2)
    with log.open("wb") as file:
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        os.close(own)


def tuned(spark: Any) -> Any:
    """Set the settings of a session that matter, and print them on standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        tune(spark)
    return spark
