"""The simulated world: prices that move in small steps, vehicles that drive through a city, and rules about both.

Everything the rules say is kept here a second time, as plain columns, for the check that uses no index.
"""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fencepost.rules import Rules

SCHEMA = {"symbol": "string", "price": "double", "x": "double", "y": "double"}
DISTRICTS = ("Harbour", "Old Town", "Airport", "Station", "Market Hall", "Riverside", "Campus", "Mill", "Park", "Docks")
DETECT = "enter,exit"
BY_HAND = 1_000_000_000
"""The first id of rules that people add; the world numbers its own from 0 on."""
_CITY = 20_000.0
"""Metres from one end of the city to the other."""
_STEP = 5e-4
"""How far a price moves, relative to itself."""
_DRIVE = 8.0
"""Metres between two positions of a vehicle."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Change(NamedTuple):
    """Rules that were added and removed at once."""

    added: int
    removed: int


class World:
    """Symbols and vehicles, half of the objects each, and rules about them, half of the rules each.

    The same seed gives the same world.
    """

    def __init__(self, rules: int, objects: int, seed: int = 7) -> None:
        self._rng = np.random.default_rng(seed)
        symbols, vehicles = objects // 2, objects - objects // 2
        self.symbols = np.array([_ticker(number) for number in range(symbols)])
        self.vehicles = np.array([f"{('taxi', 'bus', 'van')[n % 3]} {n:04}" for n in range(vehicles)])
        self.prices: Floats = self._rng.lognormal(4, 1, symbols)
        self.places: Floats = self._rng.random((vehicles, 2)) * _CITY
        self._headings: Floats = self._rng.random(vehicles) * 2 * np.pi
        self._make_rules(rules)

    def _make_rules(self, count: int) -> None:
        on_prices = count // 2
        self.ids: Ints = np.arange(count)
        self.symbol_of: Ints = np.full(count, -1)
        """The symbol of a rule about prices, by number; -1 for one about the city."""
        self.lows, self.highs = np.full((count, 2), -np.inf), np.full((count, 2), np.inf)
        """Price in the first column, or x and y."""
        self.symbol_of[:on_prices] = self._rng.integers(0, max(len(self.symbols), 1), on_prices)
        self._place_prices(slice(0, on_prices))
        self._place_fences(slice(on_prices, count))

    def _place_prices(self, rules: slice) -> None:
        base = self.prices[self.symbol_of[rules]]
        self.lows[rules, 0] = base * (1 + self._rng.normal(0, 0.03, len(base)))
        self.highs[rules, 0] = self.lows[rules, 0] + base * (1e-4 + self._rng.exponential(5e-3, len(base)))

    def _place_fences(self, rules: slice) -> None:
        count = len(self.lows[rules])
        self.lows[rules] = self._rng.random((count, 2)) * _CITY
        self.highs[rules] = self.lows[rules] + self._rng.uniform(10, 60, (count, 2))

    def rules(self) -> Rules:
        """All rules, as fencepost takes them."""
        about_prices, about_places = self.symbol_of >= 0, self.symbol_of < 0
        rules = Rules()
        market = {
            "rule_id": self.ids[about_prices],
            "symbol": self.symbols[self.symbol_of[about_prices]],
            "lower": self.lows[about_prices, 0],
            "upper": self.highs[about_prices, 0],
        }
        rules.add_table(market, equal=["symbol"], ranges={"price": ("lower", "upper")}, detect=DETECT, initial=True)
        city = {"rule_id": self.ids[about_places]}
        for axis, name in enumerate("xy"):
            city |= {f"{name}_from": self.lows[about_places, axis], f"{name}_to": self.highs[about_places, axis]}
        ranges = {name: (f"{name}_from", f"{name}_to") for name in "xy"}
        rules.add_table(city, ranges=ranges, detect=DETECT, initial=True)
        return rules

    def change(self, rules: Rules, count: int) -> Change:
        """Remove some rules and add as many others, most of them around objects, so that something happens."""
        gone = self._rng.choice(len(self.ids), count, replace=False)
        for id in self.ids[gone].tolist():
            rules.remove(id)
        first = int(self.ids.max()) + 1
        self.ids = np.concatenate([np.delete(self.ids, gone), np.arange(first, first + count)])
        about_prices = count // 2
        symbols = self._rng.integers(0, max(len(self.symbols), 1), about_prices)
        added = np.concatenate([symbols, np.full(count - about_prices, -1)])
        self.symbol_of = np.concatenate([np.delete(self.symbol_of, gone), added])
        self.lows, self.highs = (
            np.concatenate([np.delete(ends, gone, axis=0), np.full((count, 2), empty)])
            for ends, empty in ((self.lows, -np.inf), (self.highs, np.inf))
        )
        new = slice(len(self.ids) - count, len(self.ids))
        self._place_prices(slice(new.start, new.start + about_prices))
        self._place_fences(slice(new.start + about_prices, new.stop))
        for place in range(new.start, new.stop):
            rules.add(int(self.ids[place]), self.condition(place), detect=DETECT, initial=True)
        return Change(count, count)

    def condition(self, place: int) -> str:
        """What a rule says, in SQL."""
        low, high = self.lows[place], self.highs[place]
        if self.symbol_of[place] < 0:
            return " AND ".join(
                f"{name} >= {float(low[axis])!r} AND {name} < {float(high[axis])!r}" for axis, name in enumerate("xy")
            )
        symbol = self.symbols[self.symbol_of[place]]
        return f"symbol = '{symbol}' AND price >= {float(low[0])!r} AND price < {float(high[0])!r}"

    def moved(self, now: datetime) -> pa.Table:
        """Let everything move a step, and say where it is."""
        self.prices *= 1 + self._rng.normal(0, _STEP, len(self.prices))
        self._headings += self._rng.normal(0, 0.3, len(self._headings))
        step = np.stack([np.cos(self._headings), np.sin(self._headings)], axis=1) * _DRIVE
        self.places = np.clip(self.places + step, 0, _CITY)
        prices, places = len(self.prices), len(self.places)

        def column(of_prices: Any, of_places: Any, type_: Any) -> Any:
            first = pa.nulls(prices, type_) if of_prices is None else pa.array(of_prices, type_)
            second = pa.nulls(places, type_) if of_places is None else pa.array(of_places, type_)
            return pa.concat_arrays([first, second])

        number, text = pa.float64(), pa.string()
        return pa.table(
            {
                "object": column(self.symbols, self.vehicles, text),
                "ts": pa.array([now.astimezone(UTC)] * (prices + places), pa.timestamp("us", tz="UTC")),
                "symbol": column(self.symbols, None, text),
                "price": column(self.prices, None, number),
                "x": column(None, self.places[:, 0], number),
                "y": column(None, self.places[:, 1], number),
            }
        )

    def rules_around(self, object: str) -> set[int]:
        """The rules that an object is inside, by comparing it with each of them."""
        at = np.flatnonzero(self.symbols == object)
        if len(at):
            price = self.prices[at[0]]
            inside = (self.symbol_of == at[0]) & (self.lows[:, 0] <= price) & (price < self.highs[:, 0])
        else:
            place = self.places[np.flatnonzero(self.vehicles == object)[0]]
            inside = (self.symbol_of < 0) & ((self.lows <= place) & (place < self.highs)).all(axis=1)
        return set(self.ids[inside].tolist())


def _ticker(number: int) -> str:
    """Four letters, another four for every number."""
    rest, letters = number * 7 + 3, ""
    for _ in range(4):
        rest, letter = divmod(rest, 26)
        letters += chr(ord("A") + letter)
    return letters
