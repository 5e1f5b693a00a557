"""SliceList: which intervals hold a value? The production index of intervals.

index.py: the class. view.py: searches by readers. search.py: their kernels. windows.py, window_kernels.py: building.
changes.py: windows read back. edits.py: windows edited in place. slot_table.py: ids and slots.
few_moves.py: few moves against all rules, in one call.
"""
