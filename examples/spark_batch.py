"""Match and watch a batch DataFrame on Spark."""

from pyspark.sql import SparkSession

import fencepost as fp
from fencepost.spark import match, tune, watch

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
tune(spark)
ticks = spark.createDataFrame(
    [("IBM", 1, 39.0), ("IBM", 2, 41.5), ("AAPL", 2, 130.0), ("IBM", 3, 52.0)], "symbol string, at bigint, price double"
)
rules = fp.Rules()
rules.add(1, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
rules.add(2, "price >= 120", detect="enter")

match(ticks, rules).orderBy("at", "symbol").show()
events = watch(ticks, rules, object="symbol", time="at")
events.select("time", "object", "detect", "rule_id", "price_before", "price").orderBy("time", "object").show()
spark.stop()
