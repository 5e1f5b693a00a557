"""What a reproduced figure is: curves, checks against closed forms, and what became of each claim."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fencepost.errors import FencepostError

Kind = Literal["paper", "ours", "model"]
"""A structure of the papers, the production index, or a closed form."""

Verdict = Literal["holds", "holds partly", "does not hold"]

Parameters = Mapping[str, Any]


class Curve(NamedTuple):
    """One line of a panel: `y` over `x`, both in the panel's units."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    kind: Kind = "paper"


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    log_x: bool = True
    log_y: bool = True
    ratio_to: str | None = None
    """The curve that the labels at the line ends compare the others with."""

    def curve(self, name: str) -> Curve:
        """The curve of this name."""
        return next(curve for curve in self.curves if curve.name == name)


class Check(NamedTuple):
    """A quantity that depends on no machine, against its closed form."""

    what: str
    measured: float
    expected: float
    within: float = 0.0
    """The share of `expected` that it may be off by: zero for what is exact, the sampling error for means."""

    @property
    def holds(self) -> bool:
        """Whether the measured value is the expected one."""
        if self.within == 0.0:
            return self.measured == self.expected
        return math.isclose(self.measured, self.expected, rel_tol=self.within)

    def __str__(self) -> str:
        allowed = f" within {self.within:.1%}" if self.within else ""
        return f"{self.what}: got {self.measured:,.6g}; expected {self.expected:,.6g}{allowed}"


class Finding(NamedTuple):
    """One claim of a figure, what was measured, and whether it holds."""

    claim: str
    measured: str
    holds: bool
    why: str = ""
    """Why not, or what qualifies it."""
    ours: bool = False
    """It is about fencepost's own index: no claim of the paper, and no part of the verdict."""


@dataclass(frozen=True)
class Outcome:
    """What measuring a figure gave."""

    panels: Sequence[Panel]
    findings: Sequence[Finding]
    checks: Sequence[Check] = ()
    stand_ins: str = ""
    """What stands for something that the paper does not specify: the figure then holds partly at best."""
    notes: Sequence[str] = field(default=())
    """What a reader should know beside the claims, such as where a paper contradicts itself."""

    @property
    def failed(self) -> list[Check]:
        """The checks whose measured value is not the expected one."""
        return [check for check in self.checks if not check.holds]

    @property
    def verdict(self) -> Verdict:
        """Holds if every claim does and nothing had to stand in; does not hold if no claim does."""
        holding = [finding.holds for finding in self.findings if not finding.ours]
        if not any(holding):
            return "does not hold"
        return "holds" if all(holding) and not self.stand_ins else "holds partly"


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, or an experiment of ours in the same form.

    Args:
        name: as on the command line, and of its files.
        paper: who published it.
        number: which figure of the paper it is.
        title: what it shows.
        claim: what the paper says about it, in our words.
        measure: makes the curves; takes the parameters by name.
        quick: parameters that take seconds.
        full: parameters of the paper's own size.
        missing: says what the machine lacks for it.
    """

    name: str
    paper: str
    number: str
    title: str
    claim: str
    measure: Callable[..., Outcome]
    quick: Parameters
    full: Parameters
    missing: Callable[[], Iterable[FencepostError]] = tuple
