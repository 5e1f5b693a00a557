"""The size of an Arrow stream is known before it is read."""

import contextlib
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fencepost.errors import FencepostError
from fencepost.service import rows
from fencepost.service.arrow_sizes import stream_size
from fencepost.service.refusals import TooLargeError
from fencepost.service.rows import ARROW, read_rows

TABLES = [
    pa.table({"object": ["IBM", "B", None], "price": [3.0, None, 9.5]}),
    pa.table({"object": pa.array(["a", "b", "a"] * 500).dictionary_encode(), "price": np.zeros(1500)}),
    pa.table({"object": pa.nulls(3), "flag": [True, False, None]}),
    pa.table({"object": pa.array([], pa.string())}),
    pa.table({}),
]


def stream_of(table: pa.Table, compression: str | None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=700)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("table", TABLES, ids=range(len(TABLES)))
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_the_size_is_that_of_the_buffers(table: pa.Table, compression: str | None) -> None:
    body = stream_of(table, compression)
    back = pa.ipc.open_stream(body).read_all()
    assert 0 <= stream_size(body) - back.get_total_buffer_size() <= 200 * max(1, back.num_columns)
    assert table.equals(read_rows(body, ARROW[0], 10_000))


def test_a_small_body_that_would_be_large_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    body = stream_of(pa.table({f"c{number}": np.zeros(700) for number in range(100)}), "zstd")
    monkeypatch.setattr(rows, "_MOST_BYTES", 10 * len(body))
    assert stream_size(body) == 700 * 8 * 100 > 10 * len(body)

    def never(_: Any) -> None:
        pytest.fail("it was read")

    monkeypatch.setattr(pa.ipc, "open_stream", never)
    with pytest.raises(TooLargeError, match=re.escape("560,000 bytes")):
        read_rows(body, ARROW[0], 10_000)


@pytest.mark.parametrize("seed", range(200))
def test_bodies_that_were_changed_are_read_or_refused(seed: int) -> None:
    generator = np.random.default_rng(seed)
    body = bytearray(stream_of(TABLES[seed % 3], (None, "zstd")[seed % 2]))
    for place in generator.integers(0, len(body), 1 + seed % 4).tolist():
        body[place] = int(generator.integers(0, 256))
    with contextlib.suppress(FencepostError):
        read_rows(bytes(body[: int(generator.integers(1, 2 * len(body)))]), ARROW[0], 10_000)
