"""The settings of a Spark session that decide the speed of Python operators."""

import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

__all__ = ["SETTINGS", "tune", "warn_untuned"]

SETTINGS: Mapping[str, str] = {
    # Below the largest value Spark computes the size of the batch again for every row.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}
"""Settings that may be changed on a running session, classic or Connect."""

_warned: "WeakSet[Any]" = WeakSet()


def tune(spark: Any) -> None:
    """Set the session's settings that matter to fencepost, and print each with what it was.

    Args:
        spark: a session of your own, classic or Spark Connect; only queries that start afterwards are concerned.
    """
    for key, value in SETTINGS.items():
        before = spark.conf.get(key, None)
        spark.conf.set(key, value)
        print(f"{key} = {value} (was {'unset' if before is None else before})")


def warn_untuned(spark: Any) -> None:
    """Warn, once per session, of settings that nobody has chosen; a value that the user set is left in peace."""
    if spark in _warned:
        return
    _warned.add(spark)
    unset = [key for key in SETTINGS if spark.conf.get(key, None) is None]
    if unset:
        warnings.warn(
            f"{' and '.join(unset)} {'is' if len(unset) == 1 else 'are'} unset, which makes Python operators up to "
            "three times slower; call fencepost.spark.tune(spark) once, or set your own values",
            stacklevel=3,
        )
