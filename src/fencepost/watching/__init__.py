"""The engine for objects that move, and the rules over them.

engine          Watch: rows, rules and time in, detections out
rows, positions a batch read, ordered, and completed with the values known before
objects, state  numbers of objects, and what is remembered of each; tables and trails are their Arrow forms
keyed_objects   objects that keys tell apart
sealed          files of state, with a checksum
rules_in_force  a snapshot, and changes that are not compiled yet
transitions     from moves to detections, by crossings; few_rows go a short way, moved writes their events
rule_changes    from changes of rules to detections, over everyone
damping         damped rules; entries are what is remembered of them
clock           event time: its type, timeout and expiry
"""
