"""Options of damping as hypothesis draws them."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

lengths = (
    st.integers(0, 2**62)
    | st.timedeltas(timedelta(0), timedelta(days=40_000))
    | st.sampled_from(["0 s", "90 s", "1.5 minutes", "2 hours", "1 day", "7", "250 ms", "3us"])
)
rows = st.integers(1, 9).map(lambda count: f"{count} rows")
numbers = st.integers(1, 2**70) | st.floats(0, 1e300, exclude_min=True)


@st.composite
def options(draw: st.DrawFn, column: str | None = "price", *, every: bool = True) -> dict[str, Any]:
    """Options that fit any rule on one column which does not detect cross; without a column, those of bands."""
    drawn: dict[str, Any] = {
        "for_": draw(st.none() | lengths | rows),
        "keep_firing_for": draw(st.none() | lengths | rows),
        "cooldown": draw(st.none() | lengths),
        "limit": draw(st.none() | st.integers(1, 2**62)),
        "every": draw(st.none() | lengths) if every else None,
    }
    outer = draw(st.sampled_from([None, "stay", "margin"])) if column else None
    if outer == "margin":
        drawn["margin"] = {column: draw(numbers)}
    elif outer == "stay":
        extra = draw(st.sampled_from(["", f" OR {column} IS NOT NULL AND venue = 'ü\"'", " OR volume > 3"]))
        drawn["stay"] = f"{column} < 0 OR {column} >= 0{extra}".replace(f" {column} IS NOT NULL AND", "")
    kept = {name: value for name, value in drawn.items() if value is not None}
    return {**kept, "detect": "inside,enter,exit"}
