"""BoxIndex: which boxes hold a point? The production index of boxes.

index.py: the class. view.py: searches. moves.py: what moves enter and leave. rows.py, groups.py, group_blocks.py: boxes
in memory. run_grid.py, grid_cells.py, grid_search.py, grid_moves.py: the grid; grid_changes.py: its live changes.
packed_tree.py: the tree for the rest.
"""
