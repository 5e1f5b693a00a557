"""Which form of `compress_32` a target gets, and that every form writes the same."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from fencepost.indexes.kernels.lanes import vectors_of

X86 = "x86_64-unknown-linux-gnu"

COMPRESS = """
import json
import numba, numpy as np
from numba.core.registry import cpu_target
from fencepost.indexes.kernels import lanes
from fencepost.indexes.kernels.vectors import PADDING

forms = []
for name in ("_packed_16", "_packed_8"):
    def recorded(builder, items, chosen, name=name, form=getattr(lanes, name)):
        forms.append(name)
        return form(builder, items, chosen)
    setattr(lanes, name, recorded)

@numba.njit
def compress(target, source, mask, add):
    lanes.compress_32(target, 0, source, 0, mask, add)

rng = np.random.default_rng(1)
source = rng.integers(0, 2**32, 32 + PADDING).astype(np.uint32)
for mask in (0, 1, 2**32 - 1, *rng.integers(0, 2**32, 40).tolist()):
    chosen = source[:32][[bool(mask >> lane & 1) for lane in range(32)]]
    for dtype, add in ((np.uint32, 0), (np.int64, -7)):
        target = np.zeros(32 + PADDING, dtype)
        compress(target, source, np.uint64(mask), add)
        assert (target[: len(chosen)] == chosen.astype(np.int64) + add).all()
print(json.dumps(sorted(set(forms))))
"""


@pytest.mark.parametrize(
    ("processor", "features", "avx512", "avx2"),
    [
        ("x86-64", "", False, False),
        ("x86-64", "+avx", False, False),
        ("x86-64", "+avx,+avx2", False, True),
        ("x86-64-v3", "", False, True),
        ("x86-64-v3", "-avx2", False, False),
        ("x86-64-v4", "", True, True),
        ("skylake-avx512", "", True, True),
        ("znver3", "", False, True),
    ],
)
def test_a_target_has_what_its_processor_implies(processor: str, features: str, avx512: bool, avx2: bool) -> None:
    assert vectors_of(X86, processor, features) == (avx512, avx2)


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="it runs code for x86-64")
@pytest.mark.parametrize(("processor", "forms"), [("x86-64", []), ("x86-64-v3", ["_packed_8"])])
def test_a_processor_without_a_list_of_features_gets_its_form(processor: str, forms: list[Any]) -> None:
    environment = {**os.environ, "NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    run = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", COMPRESS], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == forms
