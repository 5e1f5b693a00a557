"""What Spark needs on this machine before it can start."""

from collections.abc import Iterator
from importlib.util import find_spec

from fencepost._java import find_java, missing_java
from fencepost.errors import FencepostError


def missing_for_spark() -> Iterator[FencepostError]:
    """A refusal for everything that is missing."""
    for module in ("pyspark", "pandas"):
        if find_spec(module) is None:
            yield FencepostError(f"no {module}", "it to be installed", "pip install 'fencepost[spark]'")
    if (missing := missing_java(find_java())) is not None:
        yield missing
