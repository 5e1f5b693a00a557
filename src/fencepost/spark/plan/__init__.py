"""What happens on the driver.

abilities.py: what a session can do. columns.py, sent.py: a frame bound to rules. rules.py: rules made ready for
executors. markers.py, remote_markers.py: the stream of versions and times. routing.py: which shard a row goes to.
"""
