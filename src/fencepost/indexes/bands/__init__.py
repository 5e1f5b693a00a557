"""Standing band joins: which queries ``a <= left - right <= b`` a change on one side concerns."""
