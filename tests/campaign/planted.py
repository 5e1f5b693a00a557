"""Trials with planted faults, to show that the runner notices each."""

import ctypes
import os
import time

from tests.campaign.trial import Trial, require


def _do_well(seed: int) -> int:
    return seed


def _lie(seed: int) -> int:
    require(seed % 3 != 0, f"an answer is wrong for seed {seed}")
    return 1


def _raise(seed: int) -> int:
    return {}[seed]  # type: ignore[index]


def _exit(_: int) -> int:
    os._exit(3)


def _crash(_: int) -> int:
    ctypes.string_at(0)
    return 1


def _hang(_: int) -> int:
    time.sleep(3_600)
    return 1


TRIALS = [
    Trial("good", "holds", "nothing", _do_well),
    Trial("lies", "no lies", "every third seed", _lie),
    Trial("raises", "no raw errors", "a missing key", _raise),
    Trial("exits", "stays", "os._exit", _exit),
    Trial("crashes", "stays", "a null pointer", _crash),
    Trial("hangs", "answers", "an hour of sleep", _hang, patience=3.0),
]
