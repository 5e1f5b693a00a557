"""Every scenario gives the events, late rows, counters and answers that were recorded, bit for bit.

Keys came to events later: they stand in columns that were not recorded. What `why` says is for people and may change.
"""

import pytest

from tests.corpus.files import first_difference, path_of, read_records
from tests.corpus.playing import Record, play
from tests.corpus.scenarios import GROUPS


def _is_prose(record: Record) -> bool:
    return record.step.endswith((" why: text", " one: text"))


@pytest.mark.parametrize("group", GROUPS)
def test_answers_are_as_recorded(group: str) -> None:
    recorded = read_records(path_of(group))
    scenarios = GROUPS[group]()
    assert [scenario.name for scenario in scenarios] == list(recorded), "record the scenarios that are new"
    differing = []
    for scenario in scenarios:
        played = [each for each in play(scenario) if not _is_prose(each)]
        known = [each for each in recorded[scenario.name] if not _is_prose(each)]
        difference = first_difference(known, played, new_columns=True)
        if difference is not None:
            differing.append(f"{scenario.name}, {difference}")
    assert not differing, f"{len(differing)} scenarios differ. The first: {differing[0]}"
