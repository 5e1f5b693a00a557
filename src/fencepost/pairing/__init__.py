"""Pairs of rows of two streams, and the band rules over them.

engine.py: rows and rule changes in, detections out. sides.py: the rows of either side. rules.py: band rules by slot.
indexes.py, join.py: an SSI per pair of columns. batch.py: what the rows of one batch do there. rows.py: what they are.
"""
