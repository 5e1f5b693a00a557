"""A pipeline that runs.

running         from start to stop; retries and signals: how it starts again, and ends
session, requirements   Spark
last_rows       rows of a source, read again for who asks
sources, operators, sinks   the frames; formats opens those that only Spark knows, decoding decodes messages
book, changes   rules that change; feeds are changes of tables elsewhere
ticker          ticks, where anything can end by time
webhook, dead_letters   deliveries, and what could not be used
progress, log, metrics  what it has done
identity        whose checkpoint it is
"""
