"""From detections to events.

detections.py: what engines find, as columns. engine.py: what every engine can do. emitter.py: the one writer of events;
stages in front of it may hold detections back.
"""
