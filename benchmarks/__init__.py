"""Peers side by side in one run: interleaved rounds, medians, ratios. Run with `make bench`."""
