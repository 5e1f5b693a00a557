"""Tests of what only newer releases of Spark have."""

import pyspark
import pytest

__all__ = ["RELEASE", "needs_4_1"]

RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))
needs_4_1 = pytest.mark.skipif(RELEASE < (4, 1), reason="Spark has this since 4.1")
