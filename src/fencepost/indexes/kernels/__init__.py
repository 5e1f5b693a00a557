"""Compiled pieces that several structures share: vectors, lanes, sorting, hashing, strings, checksums."""
