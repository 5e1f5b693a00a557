"""A condition as a person writes it: the place of a fault, and the boxes that it means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.errors import FencepostError
from fencepost.language import Band, ConditionError, bind, bind_band, parse
from fencepost.monitor.expressions import show_range
from fencepost.ordinals import AttributeType
from fencepost.ordinals.schema import read_schema
from fencepost.rules.options import read_options


@dataclass(frozen=True)
class ReadBox:
    """One box of a condition."""

    keys: Mapping[str, str]
    ranges: Mapping[str, tuple[Any, Any]]
    """The smallest and the largest value inside; None where unbounded."""


@dataclass(frozen=True)
class ReadCondition:
    """What a condition means, or what is wrong with it."""

    text: str
    boxes: Sequence[ReadBox] = ()
    is_band: bool = False
    fault: str = ""
    remedy: str = ""
    spans: Sequence[tuple[int, int]] = ()
    """Start and end of each place that is to blame."""
    notes: Sequence[str] = field(default_factory=tuple)
    error: FencepostError | None = None
    """The refusal behind a fault."""

    @property
    def pieces(self) -> Sequence[tuple[str, bool]]:
        """The text in pieces, with whether each is to blame."""
        found, at = [], 0
        for start, end in sorted(self.spans):
            start, end = max(start, at), max(end, at)
            found += [(self.text[at:start], False), (self.text[start:end], True)]
            at = end
        return [piece for piece in [*found, (self.text[at:], False)] if piece[0]]


def read_condition(
    text: str, types: Mapping[str, str], zone: str = "UTC", options: Mapping[str, Any] | None = None
) -> ReadCondition:
    """Parse a condition and bind it to the columns that are known."""
    if not text.strip():
        return ReadCondition(text, fault="Nothing is written yet.", remedy="Write for example price > 40.")
    try:
        parsed = parse(text, zone)
        read_options(options or {})
    except FencepostError as error:
        return _refused(text, error)
    known = read_schema(types).types if types else None
    misfit = _find_misfit(parsed, known) if known else None
    if misfit is not None and not _is_new_column(misfit):
        return _refused(text, misfit)
    # A column that nobody has published yet may be new: that is said, and the place is marked.
    notes = [] if misfit is None else [f"{_sentence(misfit)} {misfit.remedy}"]
    spans = misfit.spans if isinstance(misfit, ConditionError) else ()
    if isinstance(parsed, Band):
        return ReadCondition(text, is_band=True, notes=notes, spans=spans)
    try:
        bound = bind(parsed, None if notes else known)
    except FencepostError as error:
        return _refused(text, error)
    kinds = read_schema(types).types if types and not notes else _inferred(parsed)
    boxes = []
    for box in bound.boxes:
        ranges = {}
        for name, first, last in box.ranges:
            type_ = kinds.get(name)
            if isinstance(type_, AttributeType):  # not what is computed of several columns, which has no axis
                ranges[name] = show_range(type_, first, last)
        boxes.append(ReadBox(dict(box.keys), ranges))
    return ReadCondition(text, boxes, notes=[*bound.dropped, *notes], spans=spans)


def _inferred(parsed: Any) -> Mapping[str, Any]:
    from fencepost.language import types_suggested_by

    return types_suggested_by([parsed])


def _refused(text: str, error: FencepostError) -> ReadCondition:
    spans = error.spans if isinstance(error, ConditionError) else ()
    return ReadCondition(text, fault=_sentence(error), remedy=error.remedy, spans=spans, error=error)


def _find_misfit(parsed: Any, known: Mapping[str, Any]) -> FencepostError | None:
    """Why a condition does not fit the columns that are known."""
    try:
        if isinstance(parsed, Band):
            bind_band(parsed, known, known)
        else:
            bind(parsed, known)
    except FencepostError as error:
        return error
    return None


def _is_new_column(error: FencepostError) -> bool:
    return "does not have" in error.got


def _sentence(error: FencepostError) -> str:
    text = error.one_line.removesuffix(error.remedy).strip()
    return text[0].upper() + text[1:]
