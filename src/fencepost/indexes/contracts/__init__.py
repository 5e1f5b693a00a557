"""What every structure of a family must do: intervals, boxes, borders, bands.

registry        ids, ranges and how they are refused, for all; the table of the papers' structures
production      what the production indexes share
intervals, boxes, borders, bands    the contract of each family
checks          tries a structure of anyone's against its contract
"""
