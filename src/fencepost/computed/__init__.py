"""Computed attributes: expressions over columns, evaluated once per batch and indexed like a column.

One evaluator serves every body (one process, batch, stream), so that event ids agree. It works on ordinals, as the
state of a watch keeps them, and on Arrow strings.

terms       an expression: its parts, its type, its canonical text
typing      what types its parts have, where those of columns are known
evaluate    its values for rows; numbers, times and strings do it
bounds      ordered strings: the sorted bounds of rules, and where a string lies among them
attributes  a computed attribute, as a snapshot keeps it
preimages   ranges of an expression over one column as ranges of that column; many_preimages for many at once
"""

from fencepost.computed.attributes import Computed, computed_id
from fencepost.computed.bounds import Bounds
from fencepost.computed.evaluate import Given
from fencepost.computed.terms import Term

__all__ = ["Bounds", "Computed", "Given", "Term", "computed_id"]
