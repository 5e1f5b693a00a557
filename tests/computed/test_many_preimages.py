"""Many ranges at once against one at a time."""

from fractions import Fraction

import numpy as np
import pytest

from fencepost.computed.many_preimages import many_preimages
from fencepost.computed.preimages import preimage
from fencepost.computed.terms import Term
from fencepost.computed.typing import typed
from fencepost.ordinals import DOUBLE
from tests.effort import seeds

ROWS = 60
HARD = np.array([0.0, 1, -1, 0.1, 1.8, -2.5, 40, 1e10, 1e300, -1e-300, 5e-324])


@pytest.mark.parametrize("seed", seeds(40))
def test_the_same_ranges_as_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    constants: list[np.ndarray] = []
    term = Term("column", value="x")
    for number in range(int(rng.integers(1, 4))):
        constants.append(rng.choice(HARD, ROWS) if rng.random() < 0.5 else rng.normal(0, 50, ROWS).round(2))
        name, own = "+-*/"[int(rng.integers(4))], Term("constant", value=number)
        is_left = name != "/" and rng.random() < 0.4
        term = Term(name, (own, term) if is_left else (term, own))
        if rng.random() < 0.2:
            term = Term("negate", (term,))
    ends = np.stack([DOUBLE.encode(rng.choice(HARD, ROWS))[0], DOUBLE.encode(rng.normal(0, 100, ROWS).round(1))[0]])
    firsts, lasts = ends.min(axis=0), ends.max(axis=0)
    lasts[::3], firsts[1::3] = DOUBLE.limits[1], DOUBLE.limits[0]
    found = many_preimages(term, lambda number: constants[number], firsts, lasts)

    def filled(part: Term, row: int) -> Term:
        if part.name == "constant":
            return Term("constant", value=Fraction(float(constants[part.value][row])))
        return part._replace(parts=tuple(filled(each, row) for each in part.parts))

    for row in np.flatnonzero(found.usable).tolist():
        alone = preimage(typed(filled(term, row), lambda name: (name, DOUBLE)), (int(firsts[row]), int(lasts[row])))
        assert alone is not None
        assert alone[2] == [(int(found.firsts[row]), int(found.lasts[row]))]
