"""A Spark Declarative Pipeline: ticks, and the rules that hold for each."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import fencepost as fp
from fencepost.spark import match_function

session = SparkSession.active()
rules = fp.Rules()
rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50")
rules.add(2, "price >= 120")
rules_of = match_function(session, rules, ["symbol", "price"], schema={"symbol": "string", "price": "double"}).function


@dp.materialized_view
def ticks() -> DataFrame:
    """A few prices; in earnest a table or a stream."""
    return session.sql("SELECT * FROM VALUES ('IBM', 39.0D), ('IBM', 41.5D), ('AAPL', 130.0D) AS t(symbol, price)")


@dp.materialized_view
def alerts() -> DataFrame:
    """Every tick that some rule is about, with each of these rules."""
    matched = session.read.table("ticks").withColumn("rule_ids", rules_of("symbol", "price"))
    return matched.select("symbol", "price", F.explode("rule_ids").alias("rule_id"))
