"""A pipeline file: read, checked, refused with every fault at its place.

document, keys  the sections as they were written; every key there is
checks          what can be wrong before Spark starts; faults with their places
columns         what a source gives: decoding for messages, avro, protobuf and registry for their schemas
rule_columns    what rules need of it
formats         formats beyond those that have keys; session are the settings of Spark's
secrets         references, and what no message shows
clock, ticks    event time of a pipeline, and when it ticks
"""
