"""Borders: what does a move enter, leave or jump over? The production index of moves.

index               the class
axis, lists, moves  rules over one attribute; edits lets them come and go
box_rules           rules over several; lines and box_lines say which of them straight moves jump over
objects             who is where
"""
