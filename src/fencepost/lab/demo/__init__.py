"""A simulated market and a simulated city under a million rules, live on local Spark: `fencepost demo`."""
