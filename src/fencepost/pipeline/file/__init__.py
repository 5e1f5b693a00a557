"""A pipeline file: read, checked, refused with every fault at its place.

document.py: the sections as they were written. keys.py: every key there is. checks.py: what can be wrong before Spark
starts. columns.py: what a source gives. secrets.py: references, and what no message shows.
faults.py: faults with their places.
"""
