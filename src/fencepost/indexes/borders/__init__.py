"""Borders: what does a move enter, leave or jump over? The production index of moves.

index.py: the class. axis.py, lists.py, moves.py: one attribute. box_rules.py: several. lines.py: straight lines and
boxes. objects.py: who is where.
"""
