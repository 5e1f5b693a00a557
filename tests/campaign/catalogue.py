"""All trials, in the order of their importance."""

from tests.campaign import semantics
from tests.campaign.trial import Trial

TRIALS: list[Trial] = [
    *semantics.TRIALS,
]
