"""No input hurts: whatever is given is answered or refused, soon and in little memory."""

import json
import random
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

import fencepost as fp
from fencepost.errors import FencepostError
from fencepost.pipeline import check
from tests.campaign.changed_bytes import change_bytes
from tests.campaign.matching import draw_condition
from tests.campaign.trial import Trial, require
from tests.campaign.values import KEYS, TYPES

SECONDS = 1.0
MEGABYTES = 100
INPUTS = 60
"""Of one try."""
ALL_TYPES = {**TYPES, **dict.fromkeys(KEYS, "string")}
NASTY = [
    "\x00",
    "\x1b[31m",
    "\x9b",
    "\u202e",
    "\ud7ff",
    "\U0001f600",
    "'",
    '"',
    "`",
    ";",
    "--",
    "/*",
    "\\",
    "%",
    "\n",
    "[",
]
TOKENS = [
    "AND", "OR", "NOT", "BETWEEN", "IN", "(", ")", ",", "=", "<>", ">=", "NULL", "IS", "TRUE", "1e999", "-", "0x1F",
    "1e-400", "99999999999999999999999", "d", "i", "n", "s", "'a'", "DATE '2024-02-30'", "TIMESTAMP 'x'", "/ 0",
    "INTERVAL '1' DAY", "CAST(1 AS INT)", "SELECT 1", "left.d - right.d", "ABS(", "CASE WHEN", "LIKE '%'", "d.e.f",
    '"d"', "?", ":x", "*",
]  # fmt: skip


class Meter:
    """How long an answer takes, and how much memory beyond what there was.

    The time is that of the processor: another program's turn is not ours.
    """

    def __enter__(self) -> Self:
        Path("/proc/self/clear_refs").write_text("5")
        self.before = _status("VmRSS")
        self.start = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.process_time() - self.start
        self.megabytes = (_status("VmHWM") - self.before) / 1024


def _status(name: str) -> int:
    """A number of kilobytes that the system knows of this process."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1])


def give(what: str, call: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Give one input; anything but an answer or a refusal in time is raised."""
    answer = None
    with Meter() as meter:
        try:
            answer = call()
        except FencepostError as error:
            str(error)
        except Exception as error:
            raise RuntimeError(f"{what[:300]!r}: {type(error).__name__}: {str(error)[:300]}") from error
    require(meter.seconds <= seconds, f"{what[:200]!r}, {len(what):,} characters: {meter.seconds:.1f} s")
    require(meter.megabytes <= MEGABYTES, f"{what[:200]!r}, {len(what):,} characters: {meter.megabytes:.0f} MB")
    return answer


def compile_condition(condition: str) -> int:
    """Add, bind and use one condition."""
    rules = fp.Rules()
    rules.add(1, condition, detect="enter,exit")
    return rules.compile(ALL_TYPES).match({name: [None] for name in ALL_TYPES}).counts.sum()  # type: ignore[no-any-return]


# -- conditions --------------------------------------------------------------------------------------------------------


def mutate(rng: random.Random, text: str) -> str:
    """Put in, leave out, double or exchange something."""
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        new = rng.choice([rng.choice(NASTY), f" {rng.choice(TOKENS)} ", text[at:end], ""])
        text = text[:at] + new + text[rng.choice([at, end, at + 1]) :]
    return text


def try_conditions(seed: int) -> int:
    """Conditions that are right, and such as somebody mistyped."""
    rng = random.Random(seed)  # noqa: S311
    give("d > 1", lambda: compile_condition("d > 1"), seconds=60)
    for _ in range(INPUTS):
        text = draw_condition(rng, depth=rng.randrange(3))
        kind = rng.randrange(4)
        if kind == 1:
            text = " ".join(rng.choices(TOKENS, k=rng.randint(1, 12)))
        elif kind > 1:
            text = mutate(rng, text)
        give(text, lambda text=text: compile_condition(text))  # type: ignore[misc]
    return INPUTS


def draw_giant(rng: random.Random, size: int) -> str:
    """A condition of some ten thousands of parts."""
    shapes: list[Callable[[], str]] = [
        lambda: " AND ".join(f"d > {n}" for n in range(size)),
        lambda: " OR ".join(f"d = {n}" for n in range(size)),
        lambda: f"i IN ({', '.join(map(str, range(10 * size)))})",
        lambda: f"s IN ({', '.join(repr(str(n)) for n in range(10 * size))})",
        lambda: "(" * size + "d > 1" + ")" * size,
        lambda: "NOT " * size + "b",
        lambda: f"s = '{'x' * 100 * size}'",
        lambda: f"d > {'9' * size}",
        lambda: f"d > {'-' * size}1",
        lambda: f"d > 1{' + 1' * size}",
        lambda: f"{'x' * size} > 1",
        lambda: " AND ".join(f"(d > {n} OR i < {n})" for n in range(size // 10)),
        lambda: " AND ".join(f"d <> {n}" for n in range(size)),
        lambda: " OR ".join(f"HOUR(ts) = {n}" for n in range(size)),
        lambda: " OR ".join(f"LOWER(s) = 's{n}'" for n in range(size)),
        lambda: " AND ".join(f"ABS(d - {n}) > 0.1" for n in range(size)),
        lambda: " OR ".join(f"(d IS NULL AND i > {n})" for n in range(size)),
        lambda: " AND ".join(f"d BETWEEN 0 AND {n}" for n in range(size)),
        lambda: " AND ".join(f"ABS(d - {n % 7}) > {n}" for n in range(size)),
        lambda: f"d > 1 {' ' * 100 * size}",
        lambda: f"d > 1 /*{'x' * 100 * size}*/",
    ]
    return rng.choice(shapes)()


def try_giants(seed: int) -> int:
    """One giant."""
    rng = random.Random(seed)  # noqa: S311
    give("d > 1", lambda: compile_condition("d > 1"), seconds=60)
    text = draw_giant(rng, rng.choice([260, 1_000, 1_200, 10_000]))
    give(text, lambda: compile_condition(text))
    return 1


# -- pipelines ---------------------------------------------------------------------------------------------------------

PIPELINE = """[source]
format = "json"
path = "events/"
schema = { symbol = "string", price = "double", ts = "timestamp" }
[rules]
directory = "published/"
[operator]
kind = "watch"
object = "symbol"
time = "ts"
timeout = "5 minutes"
[sink]
format = "parquet"
path = "alerts/"
checkpoint = "checkpoint/"
[trigger]
every = "1 second"
"""
VALUES = [
    '""',
    "[]",
    "{}",
    "1e400",
    "-1",
    "true",
    "1979-05-27",
    '"\\u0000"',
    "[[1]]",
    '"${HOME}"',
    '"file:/nowhere"',
    "9" * 30,
    "nan",
]


def mutate_pipeline(rng: random.Random) -> str:
    """Lines changed, doubled, moved or dropped, values of other types."""
    lines = PIPELINE.splitlines()
    for _ in range(rng.choice([1, 2, 4])):
        at = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0:
            lines.insert(rng.randrange(len(lines)), lines[at])
        elif kind == 1 and len(lines) > 1:
            del lines[at]
        elif kind == 2 and "=" in lines[at]:
            lines[at] = lines[at].split("=")[0] + "= " + rng.choice(VALUES)
        elif kind == 3 and "=" in lines[at]:
            lines[at] = mutate(rng, lines[at].split("=")[0]) + "=" + lines[at].split("=", 1)[1]
        elif kind == 4:
            lines[at] = f"[{mutate(rng, lines[at].strip('[]'))}]"
        else:
            lines[at] = mutate(rng, lines[at])
    return "\n".join(lines) + "\n"


def try_pipelines(seed: int) -> int:
    """Files of pipelines, checked."""
    rng = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "events").mkdir()
        rules = fp.Rules()
        rules.add(7, "symbol = 'IBM' AND price BETWEEN 40 AND 50", detect="enter,exit")
        rules.publish(folder / "published")
        (folder / "pipeline.toml").write_text(PIPELINE)
        require(give(PIPELINE, lambda: check(folder / "pipeline.toml"), seconds=60) == [], "a good pipeline has faults")
        for _ in range(INPUTS):
            text = mutate_pipeline(rng)
            content = text.encode(errors="surrogatepass")
            (folder / "pipeline.toml").write_bytes(change_bytes(rng, content) if rng.random() < 0.2 else content)
            give(text, lambda: check(folder / "pipeline.toml"))
    return INPUTS


def try_nested_pipelines(seed: int) -> int:
    """Files whose values are nested without end."""
    rng = random.Random(seed)  # noqa: S311
    depth = rng.choice([100, 1_000, 100_000])
    text = PIPELINE + rng.choice(
        [
            "x = " + "[" * depth + "]" * depth,
            "x = " + "{a=" * depth + "1" + "}" * depth,
            f"[{'a.' * depth}b]",
            "a." * depth + "b = 1",
        ]
    )
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "pipeline.toml").write_text(text)
        give(text[len(PIPELINE) :], lambda: check(Path(name) / "pipeline.toml"))
    return 1


# -- rules as dicts and files ------------------------------------------------------------------------------------------

ODD: list[Any] = [
    None, True, -1, 2**63, 2**70, 1.5, float("nan"), "", "x", "7", "\x1b]0;x\x07", [], {}, [1], {"a": {"b": 1}},
    "enter,enter", "2024-01-01T00:00:00Z", "9999-99-99", "\ud800",
]  # fmt: skip


def draw_mapping(rng: random.Random) -> dict[str, Any]:
    """A rule as JSON has it, mostly wrong."""
    row: dict[str, Any] = {"id": rng.randrange(100), "condition": draw_condition(rng, depth=1)}
    row |= {"detect": rng.choice(["enter", "exit,cross"]), "labels": {"a": "b"}, "expires": "2030-01-01T00:00:00+00:00"}
    for _ in range(rng.choice([0, 1, 1, 2])):
        row[rng.choice([*row, "initial", "enabled", "version", "other", ""])] = rng.choice(ODD)
    return row


def try_changes(seed: int) -> int:
    """Rules as mappings, and changes of a monitor's rules made of them."""
    rng = random.Random(seed)  # noqa: S311
    start = fp.Rules()
    start.add(1, "d > 1")
    monitor = fp.Monitor(start, object="o", schema=ALL_TYPES)
    give("one row", lambda: monitor.update({"o": ["a"], "d": [2.0]}), seconds=60)
    for _ in range(INPUTS):
        rows = [draw_mapping(rng) for _ in range(rng.choice([1, 3]))]
        rules = give(repr(rows), lambda rows=rows: fp.Rules.from_dicts(rows))  # type: ignore[misc]
        if rules is not None:
            give(repr(rows), lambda rules=rules: monitor.change(rules), seconds=20)  # type: ignore[misc]
    return INPUTS


def try_text_files(seed: int) -> int:
    """Files of rules as JSON lines and CSV, right and damaged."""
    return _try_files(seed, ["jsonl", "csv"])


def try_parquet_files(seed: int) -> int:
    """Likewise as Parquet."""
    return _try_files(seed, ["parquet"])


def _try_files(seed: int, kinds: list[str]) -> int:
    """Import files into a book."""
    rng = random.Random(seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        book = fp.RuleBook(f"sqlite:///{folder}/book.db")
        (folder / "warm.jsonl").write_text('{"id": 1, "condition": "d > 1"}\n')
        give("warm", lambda: book.import_file(folder / "warm.jsonl"), seconds=60)
        for number in range(INPUTS // 3):
            file = folder / f"{number}.{rng.choice(kinds)}"
            _write_file(rng, file)
            if rng.random() < 0.6:
                file.write_bytes(change_bytes(rng, file.read_bytes()))
            what = f"{file.name} of seed {seed}: {file.read_bytes()[:200]!r}"
            give(what, lambda file=file: book.import_file(file, existing="replace"))  # type: ignore[misc]
        book.close()
    return INPUTS // 3


def _write_file(rng: random.Random, file: Path) -> None:
    rows = [draw_mapping(rng) for _ in range(rng.choice([1, 4]))]
    if file.suffix == ".jsonl":
        file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    elif file.suffix == ".csv":
        cells = [["id", "condition", rng.choice(["detect", "labels", "id", "", "expires"])]]
        cells += [[str(row.get("id")), str(row.get("condition")), str(rng.choice(ODD))] for row in rows]
        quoted = ['"' + cell.replace('"', '""') + '"' for line in cells for cell in line]
        lines = [",".join(quoted[at : at + 3]) for at in range(0, len(quoted), 3)]
        file.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    else:
        good = pa.table({"id": pa.array(range(len(rows))), "condition": ["d > 1"] * len(rows)})
        odd = pa.table({"id": pa.array([1.5, None]), rng.choice(["condition", "x"]): pa.array([[1], None])})
        pq.write_table(rng.choice([good, odd, good.slice(0, 0)]), file)


PROMISE = "no input hurts"
TRIALS = [
    Trial("inputs.conditions", PROMISE, "conditions, right and mistyped", try_conditions),
    Trial("inputs.giants", PROMISE, "conditions with thousands of parts, deep and long ones", try_giants, patience=60),
    Trial("inputs.pipelines", PROMISE, "pipeline files, changed", try_pipelines),
    Trial("inputs.nested-pipelines", PROMISE, "pipeline files, deeply nested", try_nested_pipelines),
    Trial("inputs.changes", PROMISE, "rules as mappings, and changes of a monitor", try_changes),
    Trial("inputs.files", PROMISE, "rule files as JSON lines and CSV, right and damaged", try_text_files),
    Trial("inputs.parquet", PROMISE, "rule files as Parquet, right and damaged", try_parquet_files),
]
