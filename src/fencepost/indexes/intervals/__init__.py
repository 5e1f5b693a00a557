"""Structures that find the intervals containing a value; one file each."""
