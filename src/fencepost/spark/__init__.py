"""fencepost on Spark DataFrames (needs the extra ``fencepost[spark]``).

match, watch, bands     the operators
sql                     match as a function of SQL
state                   what a stream remembers, as a frame
session                 settings that matter, and the Java that Spark needs
metrics                 figures of a running query
plan/, work/            what happens on the driver, and in a Python worker
"""

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
