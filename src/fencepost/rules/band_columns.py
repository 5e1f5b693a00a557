"""Bound bands as columns of a snapshot, and the conditions of their sides as text."""

import json
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from fencepost.computed import Term
from fencepost.errors import FencepostError
from fencepost.language import BoundBand, BoundBox, StringRange
from fencepost.ordinals import KEY, AttributeType, ColumnType
from fencepost.snapshot.columns import BandColumns
from fencepost.snapshot.sides import BandSides


def check_band(band: BoundBand) -> BoundBand:
    """The band, whose bounds a double must hold."""
    for bound in (band.lower, band.upper):
        if bound is not None and float(bound) != bound:
            raise FencepostError(
                f"the band has a bound of {bound} units",
                "a number that a double holds exactly",
                "Round it, or use a coarser unit.",
            )
    return band


def band_columns(bands: Sequence[tuple[int, BoundBand, BandSides | None]]) -> BandColumns | None:
    """Bands, each with the row of its rule and what `sides_of` says; None where there are none."""
    if not bands:
        return None
    rows, bound, sides = zip(*bands, strict=True)
    text = pa.large_string()
    return BandColumns(
        np.array(rows, np.int64),
        pa.array([band.left for band in bound], text),
        pa.array([band.right for band in bound], text),
        pa.array([json.dumps(band.same) for band in bound], text),
        pa.array([json.dumps(band.left_keys) for band in bound], text),
        pa.array([json.dumps(band.right_keys) for band in bound], text),
        np.array([-math.inf if band.lower is None else band.lower for band in bound], np.float64),
        np.array([math.inf if band.upper is None else band.upper for band in bound], np.float64),
        np.array([band.lower_closed for band in bound], np.bool_),
        np.array([band.upper_closed for band in bound], np.bool_),
        pa.array([None if each is None else each.to_json() for each in sides], text),
    )


def sides_of(band: BoundBand) -> BandSides | None:
    """What of a band is computed, or concerns one side; None where that is nothing."""
    if not band.computed and not band.left_where and not band.right_where:
        return None
    uses: list[dict[str, ColumnType]] = []
    for place, where in enumerate((band.left_where, band.right_where)):
        names = [(band.left, band.right)[place], *(pair[place] for pair in band.same)]
        used: dict[str, ColumnType] = {}
        for name in names:
            if name in band.computed:
                used |= band.computed[name].columns
        for box in where:
            for name, _, _ in box.ranges:
                used |= band.computed[name].columns if name in band.computed else {name: band.types[name]}
            used |= dict.fromkeys((name for name, _ in box.keys), KEY)
            for each in box.strings:
                used |= each.term.columns()
        uses.append(used)
    return BandSides(dict(band.computed), (write_where(band.left_where), write_where(band.right_where)), tuple(uses))  # type: ignore[arg-type]


def attributes_of(band: BoundBand, sides: BandSides | None) -> dict[str, AttributeType]:
    """The columns of numbers and times that a band uses, with their types."""
    own = {band.left: band.left_type, band.right: band.right_type}
    if sides is None:
        return own
    found = {name: type_ for name, type_ in own.items() if name not in band.computed}
    return found | {name: type_ for name, type_ in sides.columns.items() if isinstance(type_, AttributeType)}


def write_where(boxes: Iterable[BoundBox]) -> str:
    """Boxes as JSON, which is the same for the same boxes; empty for none."""
    found = [
        [box.ranges, box.keys, [[each.term.to_json(), *each[1:]] for each in box.strings]]
        for box in dict.fromkeys(boxes)
    ]
    return json.dumps(sorted(found, key=json.dumps)) if found else ""


def read_where(text: str) -> list[BoundBox]:
    """What `write_where` wrote."""
    return [
        BoundBox(
            tuple((name, first, last) for name, first, last in ranges),
            tuple((name, value) for name, value in keys),
            tuple(StringRange(Term.from_json(term), *ends) for term, *ends in strings),
        )
        for ranges, keys, strings in (json.loads(text) if text else ())
    ]
