"""Peers side by side in one run: interleaved rounds, medians, ratios. Run with `make bench`."""

import os

# Everyone computes on one core; polars decides how many it takes when it is imported.
os.environ.setdefault("POLARS_MAX_THREADS", "1")
