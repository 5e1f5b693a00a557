"""From text to a Condition or Band. Conditions that differ only in constants and column names are parsed once."""

from threading import Lock

from fencepost.language.band import Band, BandShape, compile_band, names_sides
from fencepost.language.condition import Condition, Shape
from fencepost.language.shape import ShapeKey, read_shape
from fencepost.language.source import ConditionError, RefusalError, Source
from fencepost.language.sql import compile_shape
from fencepost.ordinals.zones import rules_of_zone

_MOST_KEPT = 10_000


class Templates:
    """Compiled shapes by their keys; the oldest go first.

    >>> templates = Templates()
    >>> [len(templates.parse(text).boxes) for text in ("x > 5 OR x < 3", "x > 17 OR x < 4.5")], len(templates)
    ([2, 2], 1)
    """

    def __init__(self, most: int = _MOST_KEPT) -> None:
        self._most = most
        self._shapes: dict[ShapeKey, Shape | BandShape] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._shapes)

    def parse(self, text: str, zone: str = "UTC") -> Condition | Band:
        """See parse."""
        if not isinstance(text, str):
            raise ConditionError(f"{text!r} is no condition", "a string", "Write for example 'price > 40'.")
        if not (text.isascii() or _is_whole(text)):
            raise ConditionError("the text has half a surrogate pair", "whole characters", "Decode the text as UTF-8.")
        try:
            key, values = read_shape(text)
            shape = self._shapes.get(key) or self._new_shape(key, text)
            values.append(rules_of_zone(zone))
            return shape.fill(text, values)
        except RefusalError as refusal:
            raise refusal.against(text) from None
        except RecursionError:
            raise ConditionError(
                "the condition is nested too deeply",
                "at most some hundred parentheses inside each other",
                "Remove parentheses that change nothing.",
            ) from None

    def shape_of(self, text: str) -> Shape | BandShape:
        """The compiled shape of a condition that parses."""
        key, _ = read_shape(text)
        return self._shapes.get(key) or self._new_shape(key, text)

    def _new_shape(self, key: ShapeKey, text: str) -> Shape | BandShape:
        shape = _compile(text)
        if shape.is_reusable:
            self._keep(key, shape)
        return shape

    def _keep(self, key: ShapeKey, shape: Shape | BandShape) -> None:
        with self._lock:
            if len(self._shapes) >= self._most:
                self._shapes.pop(next(iter(self._shapes)))
            self._shapes[key] = shape


def _compile(text: str) -> Shape | BandShape:
    source = Source(text)
    return compile_band(source) if names_sides(source) else compile_shape(source)


_shared = Templates()


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse(text: str, zone: str = "UTC") -> Condition | Band:
    """The boxes of a SQL condition, or the band of one that compares `left.` with `right.`.

    Columns match without case unless quoted (with " or `); strings take single quotes. A numeric constant is exact
    until it is bound.

    Args:
        text: what would stand after WHERE.
        zone: that timestamps without one are read in, as `check_zone` names it.

    >>> condition = parse("symbol = 'IBM' AND price BETWEEN 40 AND 50")
    >>> [(part.column, part.lower, part.upper) for part in condition.boxes[0]]
    [('symbol', 'IBM', 'IBM'), ('price', 40, 50)]
    >>> parse("x > 5 AND x < 3")
    Traceback (most recent call last):
    ...
    fencepost.language.source.ConditionError: `x > 5` and `x < 3` exclude each other; expected a condition that can
    hold. Remove one of the two parts, correct its constants, or join them with OR.
      x > 5 AND x < 3
      ^^^^^     ^^^^^
    """
    return _shared.parse(text, zone)


def shape_of(text: str) -> Shape | BandShape:
    """The compiled shape of a condition that parses."""
    return _shared.shape_of(text)
