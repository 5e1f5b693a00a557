"""Compares as many random conditions with DuckDB as are asked for, and lists the differences."""

import argparse
import sys
from collections import Counter

from tests.computed.compared import compare

AT_ONCE, ROWS = 250, 40
"""Conditions that share their rows, and how many rows those are."""


def main() -> None:
    """Exit 1 where a difference is none that the documentation names."""
    parser = argparse.ArgumentParser(prog="python -m tests.computed", description=__doc__)
    parser.add_argument("--conditions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    conditions, answers, documented, wrong = 0, 0, Counter[str](), []
    for seed in range(given.seed, given.seed + -(-given.conditions // AT_ONCE)):
        found = compare(seed, min(AT_ONCE, given.conditions - conditions), ROWS)
        conditions, answers = conditions + found.conditions, answers + found.answers
        documented += found.documented
        wrong += found.wrong
    print(f"{conditions:,} conditions, {answers:,} answers compared with DuckDB")
    for difference, times in documented.most_common():
        print(f"  {times:,} differ by what docs/rules.md names: {difference}")
    print(f"  {len(wrong):,} conditions differ by anything else")
    print("\n".join(f"    {each}" for each in wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
