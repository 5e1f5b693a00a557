"""Tools for work on fencepost itself."""
