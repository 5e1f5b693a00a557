"""All scenarios of the corpus, by the file that their answers are recorded in."""

from collections.abc import Callable

from tests.corpus import bands, boxes
from tests.corpus.playing import Scenario

GROUPS: dict[str, Callable[[], list[Scenario]]] = {
    "objects_and_times": boxes.objects_and_times,
    "kinds_of_rows": boxes.kinds_of_rows,
    "kinds_of_rules": boxes.kinds_of_rules,
    "many_rules": boxes.many_rules,
    "pairs": bands.pairs,
    "many_pairs": bands.many_pairs,
}
