"""What happens on the driver.

abilities       what a session can do
columns, sent   a frame bound to rules; which of its columns go to Python
rules           rules made ready for executors
markers         the stream of versions and times; remote_markers for URLs
routing         which shard a row goes to
steps           the plan of an operator with state
"""
