"""Every scenario gives the events, late rows, counters and answers that were recorded, bit for bit.

Keys came to events later: they stand in columns that were not recorded.
"""

import pytest

from tests.corpus.files import first_difference, path_of, read_records
from tests.corpus.playing import play
from tests.corpus.scenarios import GROUPS


@pytest.mark.parametrize("group", GROUPS)
def test_answers_are_as_recorded(group: str) -> None:
    recorded = read_records(path_of(group))
    scenarios = GROUPS[group]()
    assert [scenario.name for scenario in scenarios] == list(recorded), "record the scenarios that are new"
    differing = []
    for scenario in scenarios:
        difference = first_difference(recorded[scenario.name], list(play(scenario)), new_columns=True)
        if difference is not None:
            differing.append(f"{scenario.name}, {difference}")
    assert not differing, f"{len(differing)} scenarios differ. The first: {differing[0]}"
