"""The structures of the papers, and the machinery that only they need; not on the production path."""
