"""How often each rule fired, as a picture."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fencepost.cli.binding import BoundRules
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.monitor.tally import Tally


def draw(tally: Tally, shown: int, path: Path) -> None:
    """Draw a picture: events over time, and by rule."""
    from fencepost.plot import events

    _write(events(tally.events(), rules=shown), path)


def draw_episode(tally: Tally, bound: BoundRules, monitor: Monitor, path: Path) -> None:
    """Draw the only rule for one object: an episode that damping held back, if there is, or what waited to the end."""
    from fencepost.plot import rule

    fired = tally.fired()
    name = fired[0].most[0] if fired else _most_rows(bound, monitor)
    events = tally.events() if fired else monitor.update([])
    mine = events.filter(pc.equal(events["object"], pa.scalar(name, events["object"].type)))
    rows = [
        table.filter(pc.equal(table[monitor.object], pa.scalar(name, table.schema.field(monitor.object).type)))
        for table in bound.batches(lambda *_: None, "drawing")
    ]
    [own] = monitor.rules
    columns = {"object": monitor.object, "time": monitor.time}
    _write(rule(mine, pa.concat_tables(rows), own, **columns, objects=[name], episode=_find_episode(mine)), path)


def _most_rows(bound: BoundRules, monitor: Monitor) -> Any:
    """The object with the most rows."""
    counts: Counter[Any] = Counter()
    for table in bound.batches(lambda *_: None, "choosing"):
        found = table[monitor.object].drop_null().value_counts()
        counts.update({each["values"]: each["counts"] for each in found.to_pylist()})
    return min(counts, key=lambda name: (-counts[name], str(name)))


def _find_episode(events: Any) -> int | None:
    """The number of an episode in which something waited, else of the first; None where there are no enters."""
    reported = events.select(["detect", "reason"]).to_pylist()
    enters = np.cumsum([event["detect"] == "enter" for event in reported])
    waited = [place for place, event in enumerate(reported) if event["reason"] in ("held", "cooldown", "kept")]
    if not enters.any():
        return None
    return max(0, int(enters[waited[0]]) - 1) if waited else 0


def _write(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except ValueError as error:
        raise FencepostError(f"--plot {path} ({error})", "*.svg, *.png or *.pdf", "Rename the file.") from None
