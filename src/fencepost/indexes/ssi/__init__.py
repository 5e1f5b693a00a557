"""SSI: which pairs of two changing sets lie within bands? The production index of bands.

index.py: the class. search.py, moves.py, changes.py, replay.py: its kernels. ordered.py, members.py: its lists.
distance.py: the exact predicate.
"""
