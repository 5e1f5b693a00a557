"""Scenarios of two streams."""

from collections.abc import Sequence
from typing import Any

from tests.corpus.boxes import EVERY, MOVES, Script
from tests.corpus.drawing import SCHEMA, Dice, Stream, Times, Traffic, band, condition, difference, options
from tests.corpus.playing import Scenario

SIZES = ((6, 5), (1, 0), (14, 20), (0, 1), (25, 3), (20, 30))
SOON = (0, 0, 0, 1, 1, 2, -2)


def paired(
    name: str,
    seed: int,
    *,
    objects: tuple[str, str] = ("string", "string"),
    time: str = "timestamp",
    sequence: tuple[str, ...] = (),
    first: str = "enter",
    timeout: int | None = None,
    deleted: bool = False,
    key: tuple[str, ...] = (),
    report: str = "pairs",
    kind: str = "double",
    right: str = "x",
    same: tuple[str, ...] = ("k",),
    pinned: tuple[str, ...] = ("c",),
    detects: Sequence[str] = EVERY,
    expiring: float = 0.15,
    rules: int = 8,
    batches: Sequence[tuple[int, int]] = SIZES,
    boxes: int = 0,
    changes: bool = True,
    count: int = 4,
    sharing: float = 0.6,
    **stream: Any,
) -> Scenario:
    """A random scenario: batches of either side or both, with everything else between them.

    Args:
        name: of the scenario.
        seed: of all choices.
        objects: the types of left and right rows' names.
        time: its type.
        sequence: columns.
        first: of the monitor.
        timeout: in ticks.
        deleted: whether rows say that they are gone.
        key: columns of key=.
        report: of the monitor.
        kind: the type of what is subtracted.
        right: the column of right rows that is subtracted; of left ones it is x.
        same: columns that rules compare with each other.
        pinned: columns that rules compare with strings.
        detects: that rules choose from.
        expiring: the share of rules that expire.
        rules: how many bands there are to begin with.
        batches: left and right rows of each; no table where 0.
        boxes: how many rules about one more stream there are beside them.
        changes: whether rules change.
        count: of objects of each side.
        sharing: the share of bands that compare a column of `same`.
        stream: the rest of `Stream`.

    """
    dice, times = Dice(seed), Times(time)
    keys = tuple(dict.fromkeys((*key, *same, *pinned)))
    shape: dict[str, Any] = {"deleted": "gone" if deleted else None, "texts": ("a", "a", "b"), "spread": SOON}
    shape |= {"missing": 0.06, **stream}

    def side(which: str, column: str) -> Traffic:
        return Traffic(dice, Stream(which, count, times, sequence, {column: kind}, keys, **shape))

    left, other = side(objects[0], "x"), side(objects[1], right)
    beside = Traffic(dice, Stream(objects[0], count, times, sequence, {"x": kind}, keys, **shape | {"deleted": None}))
    in_boxes = set(range(rules + 1, rules + 1 + boxes))

    def drawn() -> dict[str, Any]:
        rest = options(dice, detects, times, expiring, left.now + 50)
        if boxes and dice.chance(0.4):
            return {"condition": condition(dice, {"x": kind}, ("c",), 1, 2), **rest}
        return {"condition": band(dice, kind, ("x", right), same, pinned, sharing), **rest}

    script = Script(dice, left, drawn)
    start = [_anchor(kind, right, same, pinned)]
    start += [
        {**script.rule(id), "condition": band(dice, kind, ("x", right), same, pinned, sharing)}
        for id in range(1, rules + 1)
    ]
    for id in sorted(in_boxes):
        start.append({**script.rule(id), "condition": condition(dice, {"x": kind}, ("c",), 1, 2)})
    if boxes:
        start.append({"id": -1, "condition": "c = 'none'", "detect": "exit"})
    for sizes in batches:
        tables = [each.batch(size) if size else None for each, size in zip((left, other), sizes, strict=True)]
        script.steps.append(("pair", *tables))
        left.now = other.now = beside.now = max(left.now, other.now, beside.now)
        _ask(script)
        if boxes:
            script.steps.append(("update", beside.batch(sum(sizes))))
            _ask(script)
        if changes:
            script.change_rules()
            _ask(script)
        if times.is_known and dice.chance(0.4):
            script.advance()
            other.now = beside.now = left.now
    script.steps.append(("inside",))
    settings: dict[str, Any] = {"object": "vehicle", "first": first, "late": True, "report": report}
    settings |= {"time": "ts"} if times.is_known else {}
    settings |= {"sequence": list(sequence)} if sequence else {}
    settings |= {"timeout": times.span(timeout)} if timeout is not None else {}
    settings |= {"deleted": "gone"} if deleted else {}
    settings |= {"key": key[0] if len(key) == 1 else key} if key else {}
    types = {name: "bigint" if name in left.stream.numbered else "string" for name in keys}
    settings |= {"schema": dict.fromkeys(("x", right), SCHEMA[kind]) | types}
    return Scenario(name, settings, start, script.steps)


def _anchor(kind: str, right: str, same: Sequence[str], pinned: Sequence[str]) -> dict[str, Any]:
    """A band that no pair is inside of, with every column."""
    parts = [f"left.x - right.{right} > {difference(kind, 900)}", *(f"left.{name} = right.{name}" for name in same)]
    parts += [f"{side}.{name} = 'none'" for name in pinned for side in ("left", "right")]
    return {"id": 0, "condition": " AND ".join(parts), "detect": "exit"}


def _ask(script: Script) -> None:
    if script.dice.chance(0.6):
        script.steps.append((script.dice.pick(("inside", "why", "save")),))
        if script.steps[-1] == ("why",) and script.steps[-2][0] not in ("pair", "update", "advance"):
            script.steps.pop()


def pairs() -> list[Scenario]:
    """Every setting of bands, by few rows."""
    two = ("k", "venue")
    return [
        paired("pairs", 200),
        paired("pairs timed out", 201, timeout=5, time="bigint"),
        paired("pairs untimed", 202, time="none"),
        paired("pairs untimed, sequence", 203, time="none", sequence=("seq",), deleted=True),
        paired("pairs deleted", 204, deleted=True, sequence=("seq",)),
        paired("pairs deleted and timed out", 205, deleted=True, timeout=6, time="date"),
        paired("pairs first silent", 206, first="silent", timeout=8),
        paired("pairs of one key", 207, key=("k",), deleted=True),
        paired("pairs of two keys", 208, key=two, same=(), timeout=7, sequence=("part", "seq")),
        paired("pairs of a key that rules pin", 209, key=("c",), same=("c",)),
        paired("pairs of numbered keys", 233, numbered=("k",), pinned=("c",), deleted=True),
        paired("pairs of one numbered key", 234, numbered=("k",), key=("k",), timeout=9),
        paired("rules reported", 210, report="rules"),
        paired("rules reported by key", 211, report="rules", key=("k",), deleted=True, timeout=7),
        paired("rules reported untimed", 212, report="rules", time="none"),
        paired("pairs of integers", 213, kind="bigint", objects=("int64", "int64")),
        paired("pairs of decimals", 214, kind="decimal", objects=("int32", "string"), time="timestamp_ntz"),
        paired("pairs of timestamps", 215, kind="timestamp", objects=("string", "far"), deleted=True),
        paired("pairs of times without zone", 216, kind="timestamp_ntz", time="timestamp_ntz", timeout=6),
        paired("pairs of dates", 217, kind="date", objects=("binary", "date"), time="date"),
        paired("pairs of two columns", 218, right="y", sequence=("seq",)),
        paired("pairs of floats", 219, kind="float", objects=("negative", "large_string"), time="timestamp_ms"),
        paired("pairs that cross", 220, detects=("cross", "enter"), far=0.6),
        paired("pairs inside", 221, detects=("inside",), changes=False),
        paired("pairs without keys", 222, same=(), pinned=(), count=6),
        paired("pairs expiring", 223, expiring=0.8, time="timestamp"),
        paired("pairs expiring and gone", 224, expiring=0.8, timeout=4, deleted=True, time="date"),
        paired("pairs in disorder", 225, spread=(0, 4, -3, -6, 2, -1, 8), batches=((30, 25), (1, 1), (40, 30))),
        paired("pairs in ties", 226, spread=(0, 0, 0, 0, 1), batches=((30, 25), (1, 1), (30, 30)), deleted=True),
        paired("pairs and changes", 227, batches=((12, 12), *((1, 1),) * 14), deleted=True, sequence=("seq",)),
        paired("pairs beside objects", 228, boxes=5),
        paired("pairs beside objects, timed out", 229, boxes=5, timeout=6, deleted=True, time="date"),
        paired("pairs beside objects, by key", 230, boxes=6, key=("k",), kind="bigint", objects=("int64", "string")),
        paired("pairs beside objects, untimed", 231, boxes=5, time="none"),
        paired("pairs beside objects, rules reported", 232, boxes=5, report="rules", sequence=("seq",)),
    ]


def many_pairs() -> list[Scenario]:
    """More rows and more rules."""
    large = ((120, 120), (1, 0), (0, 1), (90, 50), (10, 120))
    texts = ("a", "b", *(f"other {number}" for number in range(20)))
    quiet: dict[str, Any] = {"changes": False, "batches": large, "count": 60, "texts": texts}
    going: dict[str, Any] = {
        "batches": ((1300, 1300), (3, 3), (40, 1200), (1, 1)),
        "count": 2500,
        "deleted": True,
        "sharing": 1,
    }
    going |= {"texts": tuple(f"key {number}" for number in range(1500)), "changes": False, "spread": (0,) * 40 + (1,)}
    return [
        paired("many pairs", 250, rules=8, detects=MOVES, expiring=0.0, **quiet),
        paired("many pairs by key", 251, rules=50, detects=MOVES, key=("k",), deleted=True, expiring=0.0, **quiet),
        paired("many bands", 252, rules=120, detects=MOVES, count=6, batches=((40, 40), (1, 1), (20, 10)), same=("k",)),
        paired(
            "many bands of integers", 253, rules=100, kind="bigint", count=6, batches=((50, 40), (1, 1)), expiring=0.0
        ),
        paired("many rules reported", 254, rules=20, report="rules", detects=MOVES, **quiet),
        paired("many pairs that go", 256, rules=5, detects=MOVES, timeout=2, **going),
        paired("many pairs that go, by key", 257, rules=5, detects=MOVES, timeout=2, key=("k",), **going),
        paired(
            "many bands of timestamps", 255, rules=40, kind="timestamp", timeout=9, count=12, detects=("cross", "exit")
        ),
    ]
