"""BLAKE2b of many messages against hashlib."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fencepost.indexes.kernels.blake2b import blake2b_rows
from tests.effort import examples


@given(
    st.integers(0, 40),
    st.sampled_from([1, 7, 8, 64, 83, 127, 128, 129, 255, 256, 257, 400]),
    st.sampled_from([1, 16, 32, 63, 64]),
    st.integers(0, 2**32 - 1),
)
@examples(80)
def test_every_row_has_the_digest_that_hashlib_gives(count: int, length: int, digest_size: int, seed: int) -> None:
    rows = np.random.default_rng(seed).integers(0, 256, (count, length), np.uint8)
    found = [row.tobytes() for row in blake2b_rows(rows, digest_size)]
    assert found == [hashlib.blake2b(row.tobytes(), digest_size=digest_size).digest() for row in rows]
