"""What a session can do: the one place that knows which release of Spark brought what."""

import re
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pyspark
from pyspark.sql import types


class Abilities(NamedTuple):
    """What operators may use on a session; without it they take another way to the same answers."""

    arrow_functions: bool
    """`arrow_udf`: only the columns that rules need go to Python, as they are."""
    numbered_partitions: bool
    """`repartitionById`: a row says which partition it goes to."""
    sends_artifacts: bool
    """`addArtifacts` sends any file to executors, not only code."""
    appends_state: bool
    """State of several variables, one of which can be lengthened (transformWithState)."""
    steps_rows: bool
    """Such state for a function that takes rows; otherwise it takes pandas frames."""
    reads_state: bool
    """The state of a checkpoint can be read as a frame."""


def abilities_of(spark: Any) -> Abilities:
    """What a session can do, by its Spark and by the pyspark here, of which the older one decides."""
    if spark not in _known:
        _known[spark] = _since(min(_release(spark.version), _release(pyspark.__version__)), not _is_classic(spark))
    return _known[spark]


def parse_type(text: str) -> Any:
    """The type that a text in SQL names; fields alone are a struct. A public name came with Spark 4.0."""
    parse = getattr(types.DataType, "fromDDL", None) or vars(types)["_parse_datatype_string"]
    return parse(text)


_known: "WeakKeyDictionary[Any, Abilities]" = WeakKeyDictionary()


def _since(release: tuple[int, int], connect: bool) -> Abilities:
    return Abilities(
        arrow_functions=release >= (4, 1),
        numbered_partitions=release >= (4, 1),
        sends_artifacts=connect or release >= (4, 3),  # classic sessions before call a method that is not there
        appends_state=release >= (4, 0),
        steps_rows=release >= (4, 1),
        reads_state=release >= (4, 0),
    )


def _release(version: str) -> tuple[int, int]:
    major, minor = re.findall(r"\d+", version)[:2]
    return int(major), int(minor)


def _is_classic(spark: Any) -> bool:
    """Whether this process has the driver; otherwise the session is one of Spark Connect."""
    return not type(spark).__module__.startswith("pyspark.sql.connect")
