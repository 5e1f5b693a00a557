"""fencepost evaluates millions of standing range rules against live data."""

from fencepost.errors import FencepostError

__all__ = ["FencepostError"]
