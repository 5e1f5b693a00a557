"""SSI: which pairs of two changing sets lie within bands? The production index of bands.

index.py: the class. search.py, moves.py, changes.py, replay.py: its kernels. ordered.py, members.py: its lists.
rounds.py: steps are taken until room is short, all or none. distance.py: the exact predicate. checks.py: invariants.
"""
