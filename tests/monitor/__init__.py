"""Monitors; what helpers assert is explained as in tests."""

import pytest

pytest.register_assert_rewrite("tests.monitor.played", "tests.monitor.band_scripts")
