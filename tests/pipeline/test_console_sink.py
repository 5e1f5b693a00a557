"""What a pipeline prints steers no terminal."""

from datetime import UTC, datetime
from typing import Any

from fencepost._text import printable
from fencepost.pipeline.runtime.sinks import printable_frame

NASTY = [
    "\x1b[31mred\x9b",
    "a\tb\nc\r",
    "\u202ereversed\u2028",
    "\U000e0001tag",
    "plain Gr\u00fc\u00dfe \U0001f600",
    "",
    "\x7f\xa0",
]


def test_texts_are_spelled_out_as_on_the_command_line(spark: Any) -> None:
    rows = [(each, number) for number, each in enumerate(NASTY)] + [(None, 99)]
    found = printable_frame(spark.createDataFrame(rows, "object string, n int")).collect()
    assert [row["object"] for row in found] == [*map(printable, NASTY), None]
    assert [row["n"] for row in found] == [*range(len(NASTY)), 99]


def test_labels_lists_and_names_of_columns_are_spelled_out(spark: Any) -> None:
    schema = "labels map<string,string>, ids array<bigint>, inner struct<a: string>, ts timestamp, `odd\x1b` string"
    row = ({"desk\x1b": "\x9b4"}, [1, 2], ("x\n",), datetime(2026, 1, 1, tzinfo=UTC), "y")
    frame = printable_frame(spark.createDataFrame([row], schema))
    (found,) = frame.collect()
    assert frame.columns == ["labels", "ids", "inner", "ts", "odd\\x1b"]
    assert found[:3] == (r"{desk\x1b -> \x9b4}", "[1, 2]", r"{x\n}")
    assert all(str(each).isprintable() for each in found)
