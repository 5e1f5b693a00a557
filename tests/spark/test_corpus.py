"""Batch frames give the events that were recorded, bit for bit."""

from typing import Any

import pytest

from tests.corpus.files import first_difference, path_of, read_records
from tests.corpus.spark_frames import RUNS


@pytest.mark.oldest
@pytest.mark.parametrize("name", RUNS)
def test_events_are_as_recorded(spark: Any, name: str) -> None:
    recorded = read_records(path_of("spark"))[name]
    assert first_difference(recorded, [RUNS[name](spark)], new_columns=True) is None
