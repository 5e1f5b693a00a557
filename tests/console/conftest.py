"""The Spark session that all tests share."""

from tests.spark.conftest import spark

__all__ = ["spark"]
