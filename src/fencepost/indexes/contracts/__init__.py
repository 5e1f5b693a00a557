"""What every structure of a family must do: intervals, boxes, borders, bands.

registry.py: ids, ranges and how they are refused, for all; the table of the papers' structures. production.py: what
the production indexes share.
"""
