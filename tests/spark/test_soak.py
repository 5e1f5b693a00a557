"""The long run in a short form."""

from collections import Counter
from pathlib import Path

import pytest
from rich.progress import Progress

from tests.spark.soak import SOAKS

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    "operator", [pytest.param(each, marks=[pytest.mark.oldest] * (each == "watch")) for each in SOAKS]
)
def test_killed_again_and_again_each_fact_is_told_once(tmp_path: Path, operator: str) -> None:
    soak = SOAKS[operator](tmp_path, triggers=14, kills=2)
    soak.run(Progress(disable=True))
    told, expected = soak.events(), soak.recomputed()
    assert Counter(told) == Counter(expected), soak.last_words()
    assert len(told) > 1_000
    assert soak.started == 3
