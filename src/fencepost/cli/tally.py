"""How often each rule fired, as a picture."""

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
    """Draw an episode of the only rule: of the object with the most events, one that damping held back if there is."""
    from fencepost.plot import rule

    events = tally.events()
    [name] = tally.fired()[0].most[:1]
    mine = events.filter(pc.equal(events["object"], pa.scalar(name, events["object"].type)))
    rows = [
        table.filter(pc.equal(table[monitor.object], pa.scalar(name, table.schema.field(monitor.object).type)))
        for table in bound.batches(lambda *_: None, "drawing")
    ]
    [own] = monitor.rules
    columns = {"object": monitor.object, "time": monitor.time}
    _write(rule(mine, pa.concat_tables(rows), own, **columns, objects=[name], episode=_find_episode(mine)), path)


def _find_episode(events: Any) -> int | None:
    """The number of an episode in which something waited, else of the first; None where there are no enters."""
    told = events.select(["detect", "reason"]).to_pylist()
    enters = np.cumsum([event["detect"] == "enter" for event in told])
    waited = [place for place, event in enumerate(told) if event["reason"] in ("held", "cooldown", "kept")]
    if not enters[-1]:
        return None
    return max(0, int(enters[waited[0]]) - 1) if waited else 0


def _write(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path)
    except ValueError as error:
        raise FencepostError(f"--plot {path} ({error})", "*.svg, *.png or *.pdf", "Rename the file.") from None
