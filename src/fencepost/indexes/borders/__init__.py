"""Border structures: which rules a move enters, leaves or jumps over; one file per structure."""
