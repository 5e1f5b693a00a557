"""From detections to events.

detections      what engines find, as columns
engine          what every engine can do
emitter         the one writer of events; stages in front of it may hold detections back
damping         which detections of damped rules are reported, and when
event, further  one event in Python; columns of events behind the attributes
"""
