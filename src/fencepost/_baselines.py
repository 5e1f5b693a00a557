"""Processors that machine code is made for ahead of time: each stands for all that have at least its features.

Their names are LLVM's. A form is used on a processor that has every feature in its list, the best of them first; any
other processor compiles for itself.
"""

import platform

_V3 = "avx,avx2,bmi,bmi2,cx16,f16c,fma,lzcnt,movbe,popcnt,sahf,sse3,sse4.1,sse4.2,ssse3"
_V4 = "avx512bw,avx512cd,avx512dq,avx512f,avx512vl"

BASELINES = {
    "x86-64-v4": frozenset(f"{_V3},{_V4}".split(",")),
    "x86-64-v3": frozenset(_V3.split(",")),
}
"""By name, best first, the features that their code may use."""


def fitting_baselines(features: str) -> list[str]:
    """The baselines whose code runs where there are these features, best first.

    Args:
        features: as LLVM lists them, those of this processor if it says nothing else.

    >>> fitting_baselines("+sse3,-avx2")
    []
    >>> fitting_baselines(",".join(f"+{each}" for each in BASELINES["x86-64-v3"]) + ",-avx512f")
    ['x86-64-v3']
    """
    if platform.machine() not in {"x86_64", "AMD64"}:
        return []
    present = {each[1:] for each in features.split(",") if each.startswith("+")}
    return [name for name, needed in BASELINES.items() if needed <= present]
