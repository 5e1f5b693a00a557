"""Tests of computed attributes."""
