"""Objects that move, and the rules over them: rows, positions, clocks, transitions."""
