"""fencepost on Spark DataFrames: match, watch, bands, and what they share (needs the extra ``fencepost[spark]``)."""

from fencepost.spark.bands import bands
from fencepost.spark.match import match
from fencepost.spark.metrics import prometheus_text
from fencepost.spark.session import find_java, tune
from fencepost.spark.sql import match_function, register
from fencepost.spark.state import read_state
from fencepost.spark.watch import save_state, watch

__all__ = [
    "bands",
    "find_java",
    "match",
    "match_function",
    "prometheus_text",
    "read_state",
    "register",
    "save_state",
    "tune",
    "watch",
]
