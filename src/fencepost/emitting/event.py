"""One event in Python: a tuple in the order of the columns of event tables, whose fields have names."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, SupportsIndex, overload

from fencepost._html import html_table


class Event(tuple[Any, ...]):
    """One event, as `Monitor.update_one` returns it: a tuple whose fields have the names of the columns of `update`.

    A field is read by its name, as an attribute (`event.rule_id`, `event.price`) or in brackets
    (`event["price_before"]`). A column whose name is a method of tuples, such as `count`, is read in brackets only.

    >>> event = event_class(("event_id", "rule_id", "price"))(("8e6a", 7, 41.5))
    >>> event["rule_id"], event.price, event[2], event.asdict()
    (7, 41.5, 41.5, {'event_id': '8e6a', 'rule_id': 7, 'price': 41.5})
    """

    __slots__ = ()

    columns: ClassVar[tuple[str, ...]] = ()
    """The names of the fields, in order."""
    _places: ClassVar[Mapping[str, int]] = MappingProxyType({})

    # These first nine are the same in every event; the attributes of rules follow them.

    @property
    def event_id(self) -> str:
        """A hash of the fact: the same wherever it is found."""
        return tuple.__getitem__(self, 0)  # type: ignore[no-any-return]

    @property
    def rule_id(self) -> int:
        """The rule."""
        return tuple.__getitem__(self, 1)  # type: ignore[no-any-return]

    @property
    def rule_version(self) -> int:
        """The version of the rule."""
        return tuple.__getitem__(self, 2)  # type: ignore[no-any-return]

    @property
    def snapshot_version(self) -> int:
        """The published version of all rules; 0 where they were not published."""
        return tuple.__getitem__(self, 3)  # type: ignore[no-any-return]

    @property
    def object(self) -> Any:
        """The object."""
        return tuple.__getitem__(self, 4)

    @property
    def other(self) -> Any:
        """The partner, in bands; None elsewhere."""
        return tuple.__getitem__(self, 5)

    @property
    def detect(self) -> str:
        """What happened: inside, enter, exit, cross or silent."""
        return tuple.__getitem__(self, 6)  # type: ignore[no-any-return]

    @property
    def time(self) -> Any:
        """When it happened."""
        return tuple.__getitem__(self, 7)

    @property
    def reason(self) -> str | None:
        """Why, where the object did not move."""
        return tuple.__getitem__(self, 8)  # type: ignore[no-any-return]

    def asdict(self) -> dict[str, Any]:
        """The fields by name, as a row of `update(...).to_pylist()`."""
        return dict(zip(self.columns, self, strict=True))

    def __getattr__(self, name: str) -> Any:
        place = self._places.get(name)
        if place is None:
            raise AttributeError(f"an event has no field {name!r}; it has {', '.join(self.columns)}")
        return tuple.__getitem__(self, place)

    @overload
    def __getitem__(self, key: SupportsIndex | str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Any, ...]: ...
    def __getitem__(self, key: SupportsIndex | slice | str) -> Any:
        if isinstance(key, str):
            if key not in self._places:
                raise KeyError(key)
            key = self._places[key]
        return tuple.__getitem__(self, key)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.columns})

    def __repr__(self) -> str:
        return f"Event({', '.join(f'{name}={value!r}' for name, value in zip(self.columns, self, strict=True))})"

    def _repr_html_(self) -> str:
        return html_table(f"{self.detect} of rule {self.rule_id}", self.columns, [self])

    def __reduce__(self) -> Any:
        return _make, (self.columns, tuple(self))


@lru_cache(256)
def event_class(columns: Sequence[str]) -> type[Event]:
    """The events with these columns, which are a tuple."""
    places = {name: place for place, name in enumerate(columns)}
    return type("Event", (Event,), {"__slots__": (), "columns": tuple(columns), "_places": places})


def _make(columns: tuple[str, ...], values: tuple[Any, ...]) -> Event:
    return event_class(columns)(values)
