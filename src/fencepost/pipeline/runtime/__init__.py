"""A pipeline that runs.

running.py: from start to stop. session.py, requirements.py: Spark. sources.py, operators.py, sinks.py: the frames.
book.py, changes.py: rules that change. webhook.py, dead_letters.py: deliveries. progress.py, log.py, metrics.py: what
it has done. retries.py, signals.py: how it starts again, and ends. identity.py: whose checkpoint it is.
"""
