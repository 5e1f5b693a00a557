"""The Spark session of a pipeline that was not given one."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fencepost
from fencepost.pipeline.connector import connector_jars, session_has_connector
from fencepost.pipeline.file.document import PipelineFile
from fencepost.pipeline.runtime.requirements import java_command
from fencepost.spark import tune
from fencepost.spark.session import JVM_SETTINGS

_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def make_session(file: PipelineFile) -> Any:
    """A session as the pipeline's file describes it."""
    section = file.section("session")
    given = {key: str(value) for key, value in section["settings"].items()}
    master = given.pop("spark.master", section["master"])
    if not session_has_connector(given) and (jars := connector_jars()):
        given["spark.jars"] = ",".join(filter(None, [given.get("spark.jars", ""), *map(str, jars)]))
    return start_session(f"fencepost {file.path.name}", master, given)


def start_session(name: str, master: str, given: Mapping[str, str]) -> Any:
    """A session whose workers find this fencepost, and which says nothing but errors."""
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    source = str(Path(fencepost.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    java = java_command()
    if "JAVA_HOME" not in os.environ and java is not None:
        os.environ["JAVA_HOME"] = str(Path(java).resolve().parents[1])
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Text without a zone must mean the same instant on every machine.
        "spark.sql.session.timeZone": "UTC",
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
        SparkContext(conf=conf, gateway=_launch_jvm(conf))
        conf = SparkConf(loadDefaults=False)  # the context has it all
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


_launched: list[Any] = []
"""The gateway to the JVM of this process, which outlives its sessions."""


def _launch_jvm(conf: Any) -> Any:
    """Start the JVM in a session of its own: a signal to the process group of the pipeline must not end it first.

    It ends with this process, since it reads a pipe from it.
    """
    from pyspark.java_gateway import launch_gateway

    if not _launched:
        _launched.append(launch_gateway(conf, {"start_new_session": True}))
    return _launched[0]


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
