"""All figures in the order of their papers, and finding them by name."""

from collections.abc import Sequence

from fencepost.errors import FencepostError
from fencepost.lab.reproduce import acei, bands, bmq, cei, ours, ours_spark, vci
from fencepost.lab.reproduce.figure import Figure


def figures() -> list[Figure]:
    """Every figure."""
    return [figure for paper in (cei, acei, vci, bmq, bands, ours, ours_spark) for figure in paper.FIGURES]


def named(names: Sequence[str]) -> list[Figure]:
    """The figures of these names, in the order of the catalogue; all of them if none is named."""
    known = {figure.name: figure for figure in figures()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FencepostError(
            f"no figure named {', '.join(unknown)}",
            f"any of {', '.join(known)}",
            "Name some of these, or none for all.",
        )
    return [figure for name, figure in known.items() if not names or name in names]
